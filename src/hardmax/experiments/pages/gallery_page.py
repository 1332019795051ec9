"""The page of a gallery: a panel of images for each cell, and a table of numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardmax.drawing.images import read_data_uri
from hardmax.drawing.style import save_figure, use_plot_style
from hardmax.experiments.pages.blocks import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.pages.training_tables import mark_best
from hardmax.experiments.rows import ModelFigure, Row, find_row
from hardmax.experiments.tables.declaration import Cell, Gallery, PlannedRun, make_slug
from hardmax.experiments.tables.metrics import Metric, describe_units
from hardmax.names import escape_control_characters

_WIDTH, _HEAD = 9.0, 0.55  # inches; space above a panel for its title and column headings
_MIN_PANELS = 2  # number of panel widths in a line: a wider panel would be larger than its resolution allows
_MAX_PANELS = 3  # of a line; with more, titles would overlap
_DEFAULT_ASPECT = 0.6  # height of a panel divided by its width, if no cell has run
_NARROW = 6  # panels with at most this number of columns have larger headings


@dataclass(frozen=True)
class GalleryPanel:
    """A run whose model has drawn its figure.

    Attributes:
        planned: the run.
        row: of the run.
        figure: the figure of its model.
    """

    planned: PlannedRun
    row: Row
    figure: ModelFigure


def find_panels(runs: Sequence[PlannedRun], rows: list[Row]) -> list[GalleryPanel]:
    """Return a panel for each run that has a row, in their order."""
    pairs = ((planned, find_row(rows, planned)) for planned in runs)
    return [
        GalleryPanel(planned, row, ModelFigure.from_dict(row["exhibit"])) for planned, row in pairs if row is not None
    ]


def build_gallery_tables(gallery: Gallery, panels: Sequence[GalleryPanel]) -> list[Block]:
    """Return an explanation of the metrics, and tables: lines for each run, a column for each metric.

    If a run has only one line, the line also contains its test metrics. If each problem has its own figure, it also
    has its own table, with the best of its methods in bold.
    """
    units = Paragraph(f"{describe_units(gallery.metrics)}.")
    if len(arrange_panels(gallery)) == 1:
        uncompared = [replace(metric, compared=False) for metric in gallery.metrics]
        return [units, _table(uncompared, _list_lines(gallery, panels, lambda cell: cell.label))]
    tables = []
    for problem in dict.fromkeys(cell.problem for cell in gallery.cells):
        if members := [panel for panel in panels if panel.planned.cell.problem == problem]:
            tables.append(_table(gallery.metrics, _list_lines(gallery, members, lambda cell: cell.method), problem))
    return [units, *tables]


def _list_lines(
    gallery: Gallery, panels: Sequence[GalleryPanel], label: Callable[[Cell], str]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the name and the numbers of each line of a table of these runs."""
    seeds = {panel.planned.seed for panel in panels}
    lines = []
    for panel in panels:
        all_numbers = panel.figure.numbers
        for numbers in all_numbers:
            words = [label(panel.planned.cell)] if len(gallery.cells) > 1 or len(all_numbers) == 1 else []
            words += [f"seed {panel.planned.seed}"] if len(seeds) > 1 else []
            words += [numbers["of"]] if "of" in numbers else []
            lines.append((", ".join(words), {**(panel.row["test"][-1] if len(all_numbers) == 1 else {}), **numbers}))
    return lines


def _table(metrics: Sequence[Metric], lines: Sequence[tuple[str, Mapping[str, Any]]], caption: str = "") -> Table:
    columns = [[Entry(name) for name, _ in lines]]
    for metric in metrics:
        values = (numbers.get(metric.key) for _, numbers in lines)
        columns.append(mark_best([None if value is None else metric.mean([value]) for value in values], metric))
    heads = [Column("", number=False), *(Column(metric.name) for metric in metrics)]
    return Table(heads, [list(line) for line in zip(*columns, strict=True)], caption)


def arrange_panels(gallery: Gallery) -> dict[str, list[list[Cell | None]]]:
    """Return the figures of a gallery by name: lines of panels, None for an empty one.

    There is one figure with a line for each problem; if there are too many methods for a line, there is one figure for
    each problem, with its panels split into lines.
    """
    problems: dict[str, list[Cell]] = {}
    for cell in gallery.cells:
        problems.setdefault(cell.problem, []).append(cell)
    most = max(map(len, problems.values()))
    if most <= _MAX_PANELS:
        return {gallery.name: [_pad_line(cells, most) for cells in problems.values()]}
    return {
        f"{gallery.name}-{make_slug(problem)}": [
            _pad_line(cells[begin : begin + _MIN_PANELS], _MIN_PANELS) for begin in range(0, len(cells), _MIN_PANELS)
        ]
        for problem, cells in problems.items()
    }


def _pad_line(cells: list[Cell], length: int) -> list[Cell | None]:
    return [*cells, *[None] * (length - len(cells))]


def draw_gallery(
    gallery: Gallery, panels: Sequence[GalleryPanel], name: str, files: Mapping[str, Path], *, quick: bool
) -> None:
    """Draw a figure of a gallery, with the first seed of each cell; panels of cells that have not run say so.

    Args:
        gallery: the gallery.
        panels: the finished runs with their figures.
        name: name of the figure, a key of `arrange_panels`.
        files: output files, by format: svg, png.
        quick: whether this is the quick form.
    """
    figures = {panel.planned.cell.name: panel.figure for panel in reversed(panels)}
    lines = arrange_panels(gallery)[name]
    across = len(lines[0])
    wide = _WIDTH / max(_MIN_PANELS, across)
    tall = (
        max((_aspect_ratio(model_figure) for model_figure in figures.values()), default=_DEFAULT_ASPECT) * wide + _HEAD
    )
    with use_plot_style(name):
        figure = Figure(figsize=(wide * across, tall * len(lines) + 0.35), layout="constrained")
        grid = figure.subplots(len(lines), across, squeeze=False)
        for cells, line in zip(lines, grid, strict=True):
            for cell, axes in zip(cells, line, strict=True):
                if cell is None:
                    axes.set_axis_off()
                else:
                    _draw_panel(axes, cell, figures.get(cell.name), gallery.metrics[0])
        figure.suptitle(gallery.title + (" (quick form)" if quick else ""), x=0.01, ha="left", fontsize=12)
        save_figure(figure, files)


def _aspect_ratio(figure: ModelFigure) -> float:
    """Return the height of a grid divided by its width."""
    width, height = read_data_uri(figure.image).size
    return height / width


def _draw_panel(axes: Axes, cell: Cell, figure: ModelFigure | None, metric: Metric) -> None:
    """Show a grid of images with a heading above each column; with one line of numbers, the first is in the title."""
    numbers = [] if figure is None else figure.numbers
    result = ""
    if len(numbers) == 1:
        value = metric.scale * numbers[0][metric.key]
        result = f": {metric.name} {metric.format(value)} {metric.unit if math.isfinite(value) else ''}"
    axes.set_title(cell.label + result.rstrip(), loc="left", fontsize=10)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if figure is None:
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color="#777777")
        return
    image = read_data_uri(figure.image)
    scale = len(figure.heads) * image.height / image.width  # equal units in both directions
    axes.imshow(
        np.asarray(image),
        cmap="gray",
        vmin=0,
        vmax=255,
        extent=(0, len(figure.heads), scale, 0),
        interpolation="none",
    )
    axes.xaxis.tick_top()
    size = 8 if len(figure.heads) > _NARROW else 9
    heads = [escape_control_characters(head) for head in figure.heads]
    axes.set_xticks([i + 0.5 for i in range(len(heads))], heads, fontsize=size)
    axes.tick_params(length=0, pad=1)
