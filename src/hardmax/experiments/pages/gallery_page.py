"""The page of a gallery: a panel of images for each cell, and a table of numbers."""

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image as PillowImage

from hardmax.drawing.style import house_style, save
from hardmax.experiments.pages.blocks import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.pages.training_tables import marked
from hardmax.experiments.runner.model_figures import Exhibit
from hardmax.experiments.runner.plan import Planned
from hardmax.experiments.runner.rows import Row, find_row
from hardmax.experiments.tables.declaration import Cell, Gallery, slug
from hardmax.experiments.tables.metrics import Metric, units_of

_WIDTH, _HEAD = 9.0, 0.55  # inches; room above a panel for its title and the heads of its columns
_PANELS = 2  # least that there is room for in a line: one alone would be larger than it is sharp
_MOST_PANELS = 3  # beyond, titles would cover each other
_TALL = 0.6  # height of a panel by its width, where none has run
_NARROW = 6  # columns, below which the heads are words and a panel need not be wide


@dataclass(frozen=True)
class Hung:
    """A run that has been looked at.

    Attributes:
        planned: the run.
        row: of it.
        exhibit: what is shown of it.
    """

    planned: Planned
    row: Row
    exhibit: Exhibit


def find(runs: Sequence[Planned], rows: list[Row]) -> list[Hung]:
    """Return the runs that have been looked at, in their order."""
    pairs = ((planned, find_row(rows, planned)) for planned in runs)
    return [Hung(planned, row, Exhibit(**row["exhibit"])) for planned, row in pairs if row is not None]


def tables(gallery: Gallery, found: Sequence[Hung]) -> list[Block]:
    """Return which way is better, and a table: lines for each run, a column for each metric.

    Where there is one line for a run, it has numbers of the test pictures too. Where a column of cells has a picture of
    its own it has a table of its own, with the best of its ways in bold.
    """
    said = Paragraph(f"{units_of(gallery.metrics)}.")
    if len(walls(gallery)) == 1:
        whole = [replace(metric, compared=False) for metric in gallery.metrics]
        return [said, _table(whole, _lines(gallery, found, lambda cell: cell.label))]
    compared = []
    for column in dict.fromkeys(cell.problem for cell in gallery.cells):
        if own := [hung for hung in found if hung.planned.cell.problem == column]:
            compared.append(_table(gallery.metrics, _lines(gallery, own, lambda cell: cell.method), column))
    return [said, *compared]


def _lines(
    gallery: Gallery, found: Sequence[Hung], called: Callable[[Cell], str]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the name and the numbers of each line of a table of these runs."""
    seeds = {hung.planned.seed for hung in found}
    lines = []
    for hung in found:
        own = hung.exhibit.numbers
        for numbers in own:
            what = [called(hung.planned.cell)] if len(gallery.cells) > 1 or len(own) == 1 else []
            what += [f"seed {hung.planned.seed}"] if len(seeds) > 1 else []
            what += [numbers["of"]] if "of" in numbers else []
            lines.append((", ".join(what), {**(hung.row["test"][-1] if len(own) == 1 else {}), **numbers}))
    return lines


def _table(metrics: Sequence[Metric], lines: Sequence[tuple[str, Mapping[str, Any]]], caption: str = "") -> Table:
    columns = [[Entry(name) for name, _ in lines]]
    for metric in metrics:
        values = (numbers.get(metric.key) for _, numbers in lines)
        columns.append(marked([None if value is None else metric.mean([value]) for value in values], metric))
    heads = [Column("", number=False), *(Column(metric.name) for metric in metrics)]
    return Table(heads, [list(line) for line in zip(*columns, strict=True)], caption)


def walls(gallery: Gallery) -> dict[str, list[list[Cell | None]]]:
    """Return the pictures of a gallery by name: lines of panels, None where one stays empty.

    A line for each column of cells, in one picture. Where there are too many ways for a line, a picture for each
    column, whose panels are broken into lines.
    """
    columns: dict[str, list[Cell]] = {}
    for cell in gallery.cells:
        columns.setdefault(cell.problem, []).append(cell)
    most = max(map(len, columns.values()))
    if most <= _MOST_PANELS:
        return {gallery.name: [_line(cells, most) for cells in columns.values()]}
    return {
        f"{gallery.name}-{slug(column)}": [
            _line(cells[begin : begin + _PANELS], _PANELS) for begin in range(0, len(cells), _PANELS)
        ]
        for column, cells in columns.items()
    }


def _line(cells: list[Cell], length: int) -> list[Cell | None]:
    return [*cells, *[None] * (length - len(cells))]


def draw(
    gallery: Gallery, found: Sequence[Hung], files: Mapping[str, Path], *, quick: bool, wall: str | None = None
) -> None:
    """Draw the panels of a wall, the first seed of each cell; what has not run is said.

    Args:
        gallery: what is shown.
        found: the runs that have been looked at.
        files: where to, by format: svg, png.
        quick: whether this is the quick form.
        wall: which picture of `walls`; None is the first.
    """
    known = {hung.planned.cell.name: hung.exhibit for hung in reversed(found)}
    hangings = walls(gallery)
    wall = wall or next(iter(hangings))
    lines = hangings[wall]
    across = len(lines[0])
    wide = _WIDTH / max(_PANELS, across)
    tall = max((_height(exhibit) for exhibit in known.values()), default=_TALL) * wide + _HEAD
    with house_style(wall):
        figure = Figure(figsize=(wide * across, tall * len(lines) + 0.35), layout="constrained")
        panels = figure.subplots(len(lines), across, squeeze=False)
        for cells, line in zip(lines, panels, strict=True):
            for cell, axes in zip(cells, line, strict=True):
                if cell is None:
                    axes.set_axis_off()
                else:
                    _panel(axes, cell, known.get(cell.name), gallery.metrics[0])
        figure.suptitle(gallery.title + (" (quick form)" if quick else ""), x=0.01, ha="left", fontsize=12)
        save(figure, files)


def _height(exhibit: Exhibit) -> float:
    """Return the height of a grid by its width."""
    width, height = _opened(exhibit).size
    return height / width


def _panel(axes: Axes, cell: Cell, exhibit: Exhibit | None, metric: Metric) -> None:
    """Show a grid of pictures, with a head above each of its columns; where there is one number, above all."""
    numbers = [] if exhibit is None else exhibit.numbers
    told = ""
    if len(numbers) == 1:
        value = metric.scale * numbers[0][metric.key]
        told = f": {metric.name} {metric.write(value)} {metric.unit if math.isfinite(value) else ''}"
    axes.set_title(cell.label + told.rstrip(), loc="left", fontsize=10)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if exhibit is None:
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color="#777777")
        return
    picture = _opened(exhibit)
    scale = len(exhibit.heads) * picture.height / picture.width  # so that a unit is as wide as it is high
    axes.imshow(
        np.asarray(picture),
        cmap="gray",
        vmin=0,
        vmax=255,
        extent=(0, len(exhibit.heads), scale, 0),
        interpolation="none",
    )
    axes.xaxis.tick_top()
    size = 8 if len(exhibit.heads) > _NARROW else 9
    axes.set_xticks([i + 0.5 for i in range(len(exhibit.heads))], exhibit.heads, fontsize=size)
    axes.tick_params(length=0, pad=1)


def _opened(exhibit: Exhibit) -> PillowImage.Image:
    return PillowImage.open(io.BytesIO(base64.b64decode(exhibit.picture.partition(",")[2])))
