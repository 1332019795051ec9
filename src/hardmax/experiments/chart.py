"""The figure: the metric by epoch and by seconds of training, as a file of its own."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardmax.drawing.style import house_style, plain_logarithms, save
from hardmax.experiments.declaration import Cell, Experiment
from hardmax.experiments.summary import Mean, Summary
from hardmax.experiments.table import METRICS
from hardmax.report.figure import COLOURS

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ((0, (4, 2)), "-", (0, (1, 1.2)))  # the first group, the second, ...
_FILLED = (False, True, True)
_WIDTH, _PANEL, _LEGEND = 9.0, 3.9, 0.235  # inches: 900 pixels wide on a page; height of panels, of a legend's line
_UNLIKE = 4  # where the slowest cell takes so many times as long as the fastest, seconds are drawn on a log scale
_LIST: dict[str, Any] = {"loc": "upper left", "alignment": "left", "handlelength": 3.4, "fontsize": 9.5}


def draw(experiment: Experiment, found: Mapping[str, Summary], files: Mapping[str, Path], *, quick: bool) -> None:
    """Draw the cells that have run; whatever the user has set up for matplotlib plays no part.

    Colour is a cell's row, marker its column, dash and filling its group: no two are told apart by colour alone.

    Args:
        experiment: what was made.
        found: what its cells came to, by name.
        files: where to, by format: svg, png.
        quick: whether this is the quick form.
    """
    with house_style(experiment.name):
        most = max(Counter(summary.cell.group for summary in found.values()).values(), default=0)
        heights = (_PANEL, _LEGEND * (most + 2))
        figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=heights)
        by_epoch = figure.add_subplot(grid[0, 0])
        by_seconds = figure.add_subplot(grid[0, 1], sharey=by_epoch)
        by_seconds.tick_params(labelleft=False)
        styles = {cell.name: _style(experiment, cell) for cell in experiment.cells}
        for name, summary in found.items():
            epochs = list(range(1, len(summary.metric) + 1))
            _line(by_epoch, epochs, summary, styles[name])
            _line(by_seconds, summary.seconds, summary, styles[name])
        metric = METRICS[experiment.metric]
        by_epoch.set(xlabel="epoch", ylabel=f"test {metric}, nats")
        by_epoch.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        by_seconds.set_xlabel("seconds of training")
        _seconds_axis(by_seconds, list(found.values()))
        _cut(by_epoch, list(found.values()))
        for axes in (by_epoch, by_seconds):
            axes.grid(axis="y")
        figure.suptitle(experiment.title + (" (quick form)" if quick else ""), x=0.01, ha="left", fontsize=12)
        if found:
            _legends(figure, grid[1, :], list(found.values()), styles)
        save(figure, files)


def _style(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    """Return how a cell is drawn; it does not depend on which others have run."""
    row = _place(cell.row, [other.row for other in experiment.cells])
    column = _place(cell.column, [other.column for other in experiment.cells])
    group = min(_place(cell.group, [other.group for other in experiment.cells]), len(_DASHES) - 1)
    colour = COLOURS[row % len(COLOURS)]
    return {
        "color": colour,
        "marker": _MARKERS[column % len(_MARKERS)],
        "linestyle": _DASHES[group],
        "markersize": 5,
        "markerfacecolor": colour if _FILLED[group] else "white",
    }


def _place(value: str, values: Sequence[str]) -> int:
    return list(dict.fromkeys(values)).index(value)


def _line(axes: Axes, x: Sequence[float], summary: Summary, style: dict[str, Any]) -> None:
    """Draw a mean over seeds, and its standard error as a band."""
    count = min(len(x), len(summary.metric))
    means = summary.metric[:count]
    y = [mean.value for mean in means]
    axes.plot(x[:count], y, **style)
    if summary.seeds[0] > 1:
        low = [mean.value - (mean.error or 0) for mean in means]
        high = [mean.value + (mean.error or 0) for mean in means]
        axes.fill_between(x[:count], low, high, color=style["color"], alpha=0.15, linewidth=0)


def _seconds_axis(axes: Axes, found: Sequence[Summary]) -> None:
    totals = [summary.seconds[-1] for summary in found]
    if totals and max(totals) > _UNLIKE * min(totals):
        axes.set_xscale("log")
        plain_logarithms(axes.xaxis)
        axes.set_xlabel("seconds of training (log scale)")


def _cut(axes: Axes, found: Sequence[Summary]) -> None:
    """Let the first third of the epochs leave the axis: how curves begin would take all the room."""
    values = _finite(summary.metric for summary in found)
    settled = _finite(summary.metric[(len(summary.metric) - 1) // 3 :] for summary in found)
    if not settled:
        return
    low, high = min(settled), max(settled)
    room = 0.05 * max(high - low, 1e-3 * abs(high))
    if max(values) > high + 4 * room:
        axes.set_ylim(low - room, high + room)
        note = f"cut off at {high + room:.0f}: the first epochs reach {max(values):.0f}"
        axes.set_title(note, loc="right", fontsize=8, color="#777777", pad=2)


def _finite(curves: Iterable[Sequence[Mean]]) -> list[float]:
    return [mean.value for curve in curves for mean in curve if math.isfinite(mean.value)]


def _legends(
    figure: Figure, below: SubplotSpec, found: Sequence[Summary], styles: Mapping[str, dict[str, Any]]
) -> None:
    """Put one legend for each group beneath the panels, with the values at the end of the curves, the best first."""
    groups = list(dict.fromkeys(summary.cell.group for summary in found))
    places = below.subgridspec(1, len(groups))
    for i, group in enumerate(groups):
        own = [summary for summary in found if summary.cell.group == group]
        own.sort(key=lambda summary: summary.metric[-1].value)
        handles = [Line2D([], [], **styles[summary.cell.name]) for summary in own]
        labels = [f"{summary.cell.label}: {summary.metric[-1]}" for summary in own]
        axes = figure.add_subplot(places[i])
        axes.set_axis_off()
        axes.legend(handles, labels, title=f"{group}, after the last epoch", **_LIST)
