"""Curves in a panel: how cells are told apart, and what the axes show."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from hardmax.drawing.style import plain_logarithms
from hardmax.experiments.declaration import Cell, Experiment
from hardmax.experiments.metrics import Mean, Metric
from hardmax.experiments.panels import Panel, Picture
from hardmax.experiments.summary import Summary
from hardmax.report.figure import COLOURS

Styles = Mapping[str, dict[str, Any]]

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ((0, (4, 2)), "-", (0, (1, 1.2)))  # the first group, the second, ...
_FILLED = (False, True, True)
_UNLIKE = 4  # where the slowest cell takes so many times as long as the fastest, seconds are drawn on a log scale
_MANY, _MARKED = 30, 8  # curves of so many epochs have about so many markers; others have one for each epoch


def styles_of(experiment: Experiment, picture: Picture) -> Styles:
    """Return how each cell is drawn, by name; it does not depend on which others have run.

    Colour is a cell's row, dash and filling its group, marker its column, or its row too where columns have panels of
    their own: no two in a panel are told apart by colour alone.
    """
    return {cell.name: _style(experiment, picture, cell) for cell in experiment.cells}


def _style(experiment: Experiment, picture: Picture, cell: Cell) -> dict[str, Any]:
    row = _place(cell.row, [other.row for other in experiment.cells])
    column = _place(cell.column, [other.column for other in experiment.cells])
    group = min(_place(cell.group, [other.group for other in experiment.cells]), len(_DASHES) - 1)
    colour = COLOURS[row % len(COLOURS)]
    return {
        "color": colour,
        "marker": _MARKERS[(row if picture.columns else column) % len(_MARKERS)],
        "linestyle": _DASHES[group],
        "markersize": 5,
        "markerfacecolor": colour if _FILLED[group] else "white",
    }


def _place(value: str, values: Sequence[str]) -> int:
    return list(dict.fromkeys(values)).index(value)


def draw_panel(axes: Axes, panel: Panel, found: Sequence[Summary], styles: Styles) -> None:
    """Draw the curves of cells, and name the horizontal axis."""
    for summary in found:
        x = summary.seconds if panel.by == "seconds" else list(range(1, len(summary.curve) + 1))
        _line(axes, x, summary, styles[summary.cell.name])
    if panel.by == "epoch":
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    else:
        axes.set_xlabel("seconds of training")
        _seconds_axis(axes, found)
    axes.grid(axis="y")
    if not found:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color="#777777")


def _line(axes: Axes, x: Sequence[float], summary: Summary, style: dict[str, Any]) -> None:
    """Draw a mean over seeds, and its standard error as a band."""
    count = min(len(x), len(summary.curve))
    means = summary.curve[:count]
    y = [mean.value for mean in means]
    long: dict[str, Any] = {"markevery": count // _MARKED, "linewidth": 1.2} if count > _MANY else {}
    axes.plot(x[:count], y, **style, **long)
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


def cut_off(axes: Axes, found: Sequence[Summary], metric: Metric) -> float | None:
    """Let the first third of the epochs leave the axis: how curves begin would take all the room.

    Returns:
        The worst value, if it is off the axis now.
    """
    values = _finite(summary.curve for summary in found)
    settled = _finite(summary.curve[(len(summary.curve) - 1) // 3 :] for summary in found)
    if not settled:
        return None
    low, high = min(settled), max(settled)
    room = 0.05 * max(high - low, 1e-3 * abs(high))
    worst = min(values) if metric.higher else max(values)
    if low - 4 * room <= worst <= high + 4 * room:
        return None
    axes.set_ylim(low - room, high + room)
    return worst


def _finite(curves: Iterable[Sequence[Mean]]) -> list[float]:
    return [mean.value for curve in curves for mean in curve if math.isfinite(mean.value)]
