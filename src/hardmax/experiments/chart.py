"""A picture of an experiment: panels with the metric by epoch or by seconds of training, as a file of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.lines import Line2D

from hardmax.drawing.style import house_style, save
from hardmax.experiments.curves import Styles, cut_off, draw_panel, styles_of
from hardmax.experiments.declaration import Experiment
from hardmax.experiments.metrics import Metric
from hardmax.experiments.panels import Panel, Picture
from hardmax.experiments.summary import Summary

_WIDTH, _LEGEND = 9.0, 0.235  # inches: 900 pixels wide on a page; height of a legend's line
_ALONE, _AMONG = (3.9, 3.9), (2.4, 1.9)  # heights of a row of panels, with titles and labels and without
_LIST: dict[str, Any] = {"loc": "upper left", "alignment": "left", "handlelength": 3.4, "fontsize": 9.5}

# Titles of legends, with labels and the names of cells that are drawn so.
Legends = dict[str, list[tuple[str, str]]]


def draw(
    experiment: Experiment, picture: Picture, found: Mapping[str, Summary], files: Mapping[str, Path], *, quick: bool
) -> None:
    """Draw the cells that have run; whatever the user has set up for matplotlib plays no part.

    Args:
        experiment: what was made.
        picture: which panels.
        found: what its cells came to, by name.
        files: where to, by format: svg, png.
        quick: whether this is the quick form.
    """
    with house_style(experiment.name + picture.name):
        styles = styles_of(experiment, picture)
        metric = experiment.metrics[0]
        legends = _ways(experiment, picture, found) if picture.columns else _cells(list(found.values()), metric)
        rows = len(picture.rows)
        whole, inner = _ALONE if rows == 1 else _AMONG
        legend = _LEGEND * (max(map(len, legends.values()), default=0) + 2)
        figure = Figure(figsize=(_WIDTH, rows * whole + legend), layout="constrained")
        grid = figure.add_gridspec(rows + 1, max(map(len, picture.rows)), height_ratios=[*[inner] * rows, legend])
        _panels(figure, grid, picture, list(found.values()), styles, metric)
        title = experiment.title + picture.title + (" (quick form)" if quick else "")
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        if found:
            _legends(figure, grid[-1, :], legends, styles)
        save(figure, files)


def _panels(
    figure: Figure, grid: GridSpec, picture: Picture, found: Sequence[Summary], styles: Styles, metric: Metric
) -> None:
    """Draw all panels; those of one column share a vertical axis, which is set up with the first."""
    first: dict[str | None, Axes] = {}
    for i, row in enumerate(picture.rows):
        for j, panel in enumerate(row):
            own = [summary for summary in found if panel.column in (None, summary.cell.column)]
            axes = figure.add_subplot(grid[i, j], sharey=first.get(panel.column))
            draw_panel(axes, panel, own, styles)
            if panel.column not in first:
                first[panel.column] = axes
                _head(axes, panel, cut_off(axes, own, metric), metric)
            if j == 0:
                axes.set_ylabel(f"test {metric.name}, {metric.unit}")
            elif row[j - 1].column == panel.column:
                axes.tick_params(labelleft=False)
            if i + 1 < len(picture.rows) and picture.rows[i + 1][j].by == panel.by:
                axes.set_xlabel("")


def _head(axes: Axes, panel: Panel, farthest: float | None, metric: Metric) -> None:
    """Write above a panel what it shows, and what is off the axis; beside a title there is little room for that."""
    if panel.column is not None:
        axes.set_title(panel.column, loc="left", fontsize=10, pad=2)
    if farthest is not None:
        edge = axes.get_ylim()[0 if metric.higher else 1]
        whole = f"cut off at {edge:.0f}: the first epochs reach {farthest:.0f}"
        note = whole if panel.column is None else f"begins at {farthest:.0f}"
        axes.set_title(note, loc="right", fontsize=8, color="#777777", pad=2)


def _cells(found: Sequence[Summary], metric: Metric) -> Legends:
    """Return the cells of each group, with the values at the end of the curves, the best first."""
    legends: Legends = {f"{summary.cell.group}, after the last epoch": [] for summary in found}
    for summary in sorted(found, key=lambda summary: summary.curve[-1].value, reverse=metric.higher):
        label = f"{summary.cell.label}: {metric.write_mean(summary.curve[-1])}"
        legends[f"{summary.cell.group}, after the last epoch"].append((label, summary.cell.name))
    return legends


def _ways(experiment: Experiment, picture: Picture, found: Mapping[str, Summary]) -> Legends:
    """Return the rows of each group, which look the same in every panel."""
    drawn = {cell.row for cell in experiment.cells if cell.name in found and cell.column in picture.columns}
    legends: Legends = {}
    for cell in {cell.row: cell for cell in experiment.cells if cell.row in drawn}.values():
        legends.setdefault(cell.group, []).append((cell.row, cell.name))
    return legends


def _legends(figure: Figure, below: SubplotSpec, legends: Legends, styles: Styles) -> None:
    """Put the legends side by side beneath the panels."""
    places = below.subgridspec(1, max(len(legends), 1))
    for i, (title, entries) in enumerate(legends.items()):
        handles = [Line2D([], [], label=label, **styles[name]) for label, name in entries]
        axes = figure.add_subplot(places[i])
        axes.set_axis_off()
        axes.legend(handles=handles, title=title, **_LIST)
