"""Photos that a completion model completes, in several ways."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image

from hardmax.cli.completion.photo import HoledPhoto, read_holed
from hardmax.models import CompletionModel
from hardmax.models.completed import Completed
from hardmax.random import stream
from hardmax.report.numbers import percent
from hardmax.report.pictures import save
from hardmax.report.sheet import sheet
from hardmax.training.restore import restore

if TYPE_CHECKING:
    from hardmax.cli.complete import Options

_COLUMNS = 8  # completions in a row of the sheet


def complete(options: "Options") -> None:
    """Complete the photo, write each completion and a sheet of all, and say what was done.

    Raises:
        ArgumentError: there is no such mask, or none is given and the photo is opaque.
        DataError: a photo or mask is no picture, they do not fit, or a file cannot be written.
    """
    restored = restore(options.model, options.checkpoint, kind=CompletionModel)
    path = Path(options.photo).expanduser()
    channels, height, width = restored.said["data"]["shape"]
    photo = read_holed(path, options.mask, (channels, height, width), restored.config, options.seed)
    generator = stream(options.seed, "complete")
    found = restored.model.complete(
        photo.x, photo.mask, count=options.count, temperature=options.temperature, generator=generator
    )
    out = Path(options.out or Path(options.model) / "figures" / "completed").expanduser()
    for number, picture in enumerate(found.pictures[:, 0], 1):
        save(photo.completed(picture).image(), out / f"{path.stem}-{number}.png")
    save(contact_sheet(photo, found), out / f"{path.stem}-sheet.png")
    files = f"{path.stem}-1.png to {path.stem}-{options.count}.png" if options.count > 1 else f"{path.stem}-1.png"
    print(f"{path} ({photo.told}): {options.count} completions in {out}: {files}")
    print(f"all beside each other, with component and weight: {out / f'{path.stem}-sheet.png'}")


def contact_sheet(photo: HoledPhoto, found: Completed) -> Image.Image:
    """Lay out the photo with its hole, and its completions as the model draws them."""
    holed = photo.x.where(~photo.mask, 0.5)
    rows = []
    for begin in range(0, len(found.pictures), _COLUMNS):
        part = slice(begin, begin + _COLUMNS)
        pictures = torch.cat([holed, found.pictures[part, 0]])[None]
        numbers, weights = found.component[part, 0].tolist(), found.weight[part, 0].tolist()
        told = [[str(number), percent(weight)] for number, weight in zip(numbers, weights, strict=True)]
        rows.append(sheet(pictures, names=["component", "weight"], heads=[["hole", ""], *told]))
    whole = Image.new("RGB", (max(row.width for row in rows), sum(row.height for row in rows)), (255, 255, 255))
    top = 0
    for row in rows:
        whole.paste(row, (0, top))
        top += row.height
    return whole
