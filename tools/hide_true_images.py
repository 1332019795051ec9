"""Hide the true images in rows of `hardmax reproduce completion`: ``hide_true_images.py DATA ROWS > NEW``.

Images of some data sets may not be redistributed. In the grids of their runs (``--data DATA``) the true images and the
visible parts become grey; what the models generated, and all numbers, stay.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hardmax.applications.completion.masks import draw_masks
from hardmax.drawing.images import encode_data_uri, read_data_uri
from hardmax.experiments.rows import read_results, seal_row
from hardmax.experiments.tables.declaration import PlannedRun

GREY = 128
TRUE = 2  # columns that show the image itself: with its hole, and complete


def hide_true_images(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with a grid that shows only generated pixels."""
    figure = row["exhibit"]
    pixels = np.array(read_data_uri(figure["picture"]))
    high, wide = (
        side // count for side, count in zip(pixels.shape, (figure["rows"], len(figure["heads"])), strict=True)
    )
    size = (high - 1, wide - 1)  # tiles are separated by a line of one pixel
    visible = ~draw_masks(row["config"]["mask"], 1, size)[0, 0].numpy()
    for down in range(figure["rows"]):
        for across in range(len(figure["heads"])):
            top, left = 1 + down * high, 1 + across * wide
            tile = pixels[top : top + size[0], left : left + size[1]]
            tile[visible | (across < TRUE)] = GREY
    return {**row, "exhibit": {**figure, "picture": encode_data_uri(Image.fromarray(pixels))}}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: hide_true_images.py DATA ROWS")
    for line in read_results(Path(sys.argv[2]), PlannedRun.fields)[0]:
        print(json.dumps(seal_row(hide_true_images(line)) if line["config"]["data"] == sys.argv[1] else line))
