"""Figures of trainings: a metric by epoch, by evaluations or by seconds, in panels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardmax.drawing.style import label_log_axis, save_figure, use_plot_style
from hardmax.drawing.svg import COLOURS
from hardmax.experiments.pages.summary import Summary
from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Panel
from hardmax.experiments.tables.metrics import Mean, Metric

Styles = Mapping[str, dict[str, Any]]

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ((0, (4, 2)), "-", (0, (1, 1.2)))  # the first group, the second, ...
_FILLED = (False, True, True)
_UNLIKE = 4  # seconds are on a log scale if the slowest cell takes more than this many times the fastest
_MANY, _MARKED = 30, 8  # curves of more than 30 epochs have about 8 markers; shorter ones have one per epoch


def choose_styles(experiment: Experiment, panels: CurvesFigure) -> Styles:
    """Return the style of each cell, by name; it does not depend on which other cells have run.

    Colour shows a cell's method, dash and filling its group, marker its problem, or its method if problems have
    separate panels: no two cells of a panel differ only by colour.
    """
    return {cell.name: _choose_style(experiment, panels, cell) for cell in experiment.cells}


def _choose_style(experiment: Experiment, panels: CurvesFigure, cell: Cell) -> dict[str, Any]:
    method = _find_position(cell.method, [other.method for other in experiment.cells])
    problem = _find_position(cell.problem, [other.problem for other in experiment.cells])
    group = min(_find_position(cell.group, [other.group for other in experiment.cells]), len(_DASHES) - 1)
    colour = COLOURS[method % len(COLOURS)]
    return {
        "color": colour,
        "marker": _MARKERS[(method if panels.problems else problem) % len(_MARKERS)],
        "linestyle": _DASHES[group],
        "markersize": 5,
        "markerfacecolor": colour if _FILLED[group] else "white",
    }


def _find_position(value: str, values: Sequence[str]) -> int:
    return list(dict.fromkeys(values)).index(value)


def draw_panel(axes: Axes, panel: Panel, summaries: Sequence[Summary], styles: Styles) -> None:
    """Draw the curves of cells, and label the horizontal axis."""
    for summary in summaries:
        if (x := _list_positions(panel, summary)) is not None:
            _draw_line(axes, x, summary, styles[summary.cell.name])
    if panel.by == "epoch":
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    elif panel.by == "evaluations":
        axes.set_xlabel("evaluations for each training image")
    else:
        axes.set_xlabel("seconds of training")
        _scale_seconds(axes, summaries)
    axes.grid(axis="y")
    if not summaries:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color="#777777")


def _list_positions(panel: Panel, summary: Summary) -> Sequence[float] | None:
    """Return the horizontal position of each epoch; None if evaluations were not counted."""
    if panel.by == "seconds":
        return summary.seconds
    epochs = range(1, len(summary.curve) + 1)
    if panel.by == "epoch":
        return epochs
    return None if summary.evaluations is None else [epoch * summary.evaluations for epoch in epochs]


def _draw_line(axes: Axes, x: Sequence[float], summary: Summary, style: dict[str, Any]) -> None:
    """Draw the mean over seeds, and its standard error as a band."""
    count = min(len(x), len(summary.curve))
    means = summary.curve[:count]
    y = [mean.value for mean in means]
    long: dict[str, Any] = {"markevery": count // _MARKED, "linewidth": 1.2} if count > _MANY else {}
    axes.plot(x[:count], y, **style, **long)
    if summary.seeds[0] > 1:
        low = [mean.value - (mean.error or 0) for mean in means]
        high = [mean.value + (mean.error or 0) for mean in means]
        axes.fill_between(x[:count], low, high, color=style["color"], alpha=0.15, linewidth=0)


def _scale_seconds(axes: Axes, summaries: Sequence[Summary]) -> None:
    totals = [summary.seconds[-1] for summary in summaries]
    if totals and max(totals) > _UNLIKE * min(totals):
        axes.set_xscale("log")
        label_log_axis(axes.xaxis)
        axes.set_xlabel("seconds of training (log scale)")


def limit_axis(axes: Axes, summaries: Sequence[Summary], metric: Metric) -> float | None:
    """Fit the vertical axis to the last two thirds of the epochs: the first values would compress the rest.

    Returns:
        The worst value, if it is outside the axis; else None.
    """
    values = _list_finite_values(summary.curve for summary in summaries)
    late_values = _list_finite_values(summary.curve[(len(summary.curve) - 1) // 3 :] for summary in summaries)
    if not late_values:
        return None
    low, high = min(late_values), max(late_values)
    room = 0.05 * max(high - low, 1e-3 * abs(high))
    worst = min(values) if metric.higher else max(values)
    if low - 4 * room <= worst <= high + 4 * room:
        return None
    axes.set_ylim(low - room, high + room)
    return worst


def _list_finite_values(curves: Iterable[Sequence[Mean]]) -> list[float]:
    return [mean.value for curve in curves for mean in curve if math.isfinite(mean.value)]


_WIDTH, _LEGEND = 9.0, 0.235  # inches: 900 pixels wide on a page; height of a legend's line
# Heights of a row of panels, with and without titles and labels: if it is the only row, and if there are several.
_ONE_ROW, _SEVERAL_ROWS = (3.9, 3.9), (2.4, 1.9)
_LIST: dict[str, Any] = {"loc": "upper left", "alignment": "left", "handlelength": 3.4, "fontsize": 9.5}

# Titles of legends, with labels and the names of the cells whose style they show.
Legends = dict[str, list[tuple[str, str]]]


def draw_curves(
    experiment: Experiment,
    panels: CurvesFigure,
    summaries: Mapping[str, Summary],
    files: Mapping[str, Path],
    *,
    quick: bool,
) -> None:
    """Draw the curves of the cells that have run; the user's matplotlib settings have no effect.

    Args:
        experiment: the table or figure.
        panels: its panels.
        summaries: results of its cells, by name.
        files: output files, by format: svg, png.
        quick: whether this is the quick form.
    """
    with use_plot_style(experiment.name + panels.name):
        styles = choose_styles(experiment, panels)
        metric = experiment.metrics[0]
        legends = (
            _method_legends(experiment, panels, summaries)
            if panels.problems
            else _cell_legends(list(summaries.values()), metric)
        )
        rows = len(panels.rows)
        outer, inner = _ONE_ROW if rows == 1 else _SEVERAL_ROWS
        legend = _LEGEND * (max(map(len, legends.values()), default=0) + 2)
        figure = Figure(figsize=(_WIDTH, rows * outer + legend), layout="constrained")
        grid = figure.add_gridspec(rows + 1, max(map(len, panels.rows)), height_ratios=[*[inner] * rows, legend])
        _draw_panels(figure, grid, panels, list(summaries.values()), styles, metric)
        title = experiment.title + panels.title + (" (quick form)" if quick else "")
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        if summaries:
            _draw_legends(figure, grid[-1, :], legends, styles)
        save_figure(figure, files)


def _draw_panels(
    figure: Figure, grid: GridSpec, panels: CurvesFigure, summaries: Sequence[Summary], styles: Styles, metric: Metric
) -> None:
    """Draw all panels; those of one problem share a vertical axis, which is set up for the first."""
    first: dict[str | None, Axes] = {}
    for i, row in enumerate(panels.rows):
        for j, panel in enumerate(row):
            members = [summary for summary in summaries if panel.problem in (None, summary.cell.problem)]
            axes = figure.add_subplot(grid[i, j], sharey=first.get(panel.problem))
            draw_panel(axes, panel, members, styles)
            if panel.problem not in first:
                first[panel.problem] = axes
                _write_head(axes, panel, limit_axis(axes, members, metric), metric)
            if j == 0:
                axes.set_ylabel(f"{metric.caption[0].lower()}{metric.caption[1:]}, {metric.unit}")
            elif row[j - 1].problem == panel.problem:
                axes.tick_params(labelleft=False)
            if i + 1 < len(panels.rows) and panels.rows[i + 1][j].by == panel.by:
                axes.set_xlabel("")


def _write_head(axes: Axes, panel: Panel, farthest: float | None, metric: Metric) -> None:
    """Write a panel's title, and the value that is outside the axis; next to a title, in a short form."""
    if panel.problem is not None:
        axes.set_title(panel.problem, loc="left", fontsize=10, pad=2)
    if farthest is not None:
        edge = axes.get_ylim()[0 if metric.higher else 1]
        long_note = f"cut off at {edge:.0f}: the first epochs reach {farthest:.0f}"
        note = long_note if panel.problem is None else f"begins at {farthest:.0f}"
        axes.set_title(note, loc="right", fontsize=8, color="#777777", pad=2)


def _cell_legends(summaries: Sequence[Summary], metric: Metric) -> Legends:
    """Return the cells of each group, with the last values of their curves, the best first."""
    legends: Legends = {f"{summary.cell.group}, after the last epoch": [] for summary in summaries}
    for summary in sorted(summaries, key=lambda summary: summary.curve[-1].value, reverse=metric.higher):
        label = f"{summary.cell.label}: {metric.format_mean(summary.curve[-1])}"
        legends[f"{summary.cell.group}, after the last epoch"].append((label, summary.cell.name))
    return legends


def _method_legends(experiment: Experiment, panels: CurvesFigure, summaries: Mapping[str, Summary]) -> Legends:
    """Return the methods of each group, which have the same style in every panel."""
    methods = {cell.method for cell in experiment.cells if cell.name in summaries and cell.problem in panels.problems}
    legends: Legends = {}
    for cell in {cell.method: cell for cell in experiment.cells if cell.method in methods}.values():
        legends.setdefault(cell.group, []).append((cell.method, cell.name))
    return legends


def _draw_legends(figure: Figure, below: SubplotSpec, legends: Legends, styles: Styles) -> None:
    """Place the legends next to each other below the panels."""
    places = below.subgridspec(1, max(len(legends), 1))
    for i, (title, entries) in enumerate(legends.items()):
        handles = [Line2D([], [], label=label, **styles[name]) for label, name in entries]
        axes = figure.add_subplot(places[i])
        axes.set_axis_off()
        axes.legend(handles=handles, title=title, **_LIST)
