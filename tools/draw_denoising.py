"""Draw docs/results/decisions-denoising.png from runs of the experiment: ``draw_denoising.py RUNS_FOLDER``.

Rows: noisy images, then what models of increasing structure make of them, wrong pixels in colour, and the clean images.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from hardmax.applications.decisions.model import DecisionModel
from hardmax.applications.runs import load_run
from hardmax.data import Decisions
from hardmax.drawing.style import use_plot_style

OUT = Path(__file__).parents[1] / "docs" / "results" / "decisions-denoising.png"
MODELS = {
    "linear-cross-entropy": "logistic regression,\n5 x 5 pixels",
    "u-net-cross-entropy": "U-Net,\npixels alone",
    "conv-hinge-then-direct-towards-noise": "couplings,\nhinge, then direct",
}
DATA = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
IMAGES = 8  # of each data set
WHITE, BLACK, ADDED, MISSING = (1.0, 1.0, 1.0), (0.13, 0.13, 0.13), (0.85, 0.33, 0.31), (0.42, 0.65, 0.88)


def colour_errors(z: Tensor, clean: Tensor) -> np.ndarray:
    """Return an RGB image: ink is black, wrong ink red, and missing ink blue."""
    colours = torch.tensor([WHITE, BLACK, MISSING, ADDED])
    index = torch.where(z == clean, z, 2 + z).long()
    return colours[index].view(28, 28, 3).numpy()


def collect_rows(folder: Path, name: str) -> list[tuple[str, Tensor, Tensor]]:
    """Return for each row its heading, images `[IMAGES, 784]`, and the number of wrong pixels of each image."""
    runs = {cell: load_run(folder / f"{name}-{cell}-seed0", kind=DecisionModel) for cell in MODELS}
    data = next(iter(runs.values())).load_data(None)  # the same for all runs of a seed
    assert isinstance(data, Decisions)
    noisy, clean = data.test[:IMAGES], data.targets["test"][:IMAGES].float()
    rows = [("noisy image", noisy.flatten(1))]
    rows += [(heading, runs[cell].model.decide(noisy)) for cell, heading in MODELS.items()]
    rows.append(("clean image", clean))
    return [(heading, images, (images != clean).sum(1)) for heading, images in rows]


def main(folder: str) -> None:
    """Write the figure."""
    with use_plot_style("denoising"):
        figure = Figure(figsize=(2 * IMAGES * 0.68 + 1.9, 4.3))
        columns = figure.add_gridspec(1, 2, left=0.125, right=0.995, top=0.92, bottom=0.03, wspace=0.03)
        for side, (name, title) in enumerate(DATA.items()):
            rows = collect_rows(Path(folder), name)
            grid = columns[0, side].subgridspec(len(rows), IMAGES, wspace=0.06, hspace=0.28)
            clean = rows[-1][1]
            for row, (heading, images, wrong) in enumerate(rows):
                for column in range(IMAGES):
                    axes = figure.add_subplot(grid[row, column])
                    is_input = row in (0, len(rows) - 1)
                    shown = images[column] if is_input else clean[column]
                    axes.imshow(colour_errors(images[column], shown), interpolation="nearest")
                    axes.set(xticks=[], yticks=[])
                    axes.grid(visible=False)
                    axes.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.6)
                    if row < len(rows) - 1:
                        axes.set_xlabel(f"{int(wrong[column])}", fontsize=7.5, labelpad=1.5)
                    if not row and column == IMAGES // 2:
                        axes.set_title(title, fontsize=11, x=-0.03, pad=6)
                    if not side and not column:
                        axes.set_ylabel(heading, rotation=0, ha="right", va="center", fontsize=9, labelpad=8)
        figure.savefig(OUT, dpi=130, metadata={"Software": None})
    print(OUT)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: draw_denoising.py RUNS_FOLDER")
    main(sys.argv[1])
