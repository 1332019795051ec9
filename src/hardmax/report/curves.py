"""Figures of a report: curves over epochs or seconds, and heat maps of matrices."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from hardmax.drawing.svg import COLOURS, DASHES, draw_svg
from hardmax.report.run import MetricsRow, Run

_HEIGHT = 380
_LEVELS = 49
_NO_VALUE = (0.5, 0.5, 0.5, 0.3)
# Zero is transparent: it has the colour of the page.
_BLUE, _CLEAR_BLUE = to_rgba(COLOURS[0]), to_rgba(COLOURS[0], 0)
_ORANGE, _CLEAR_ORANGE = to_rgba(COLOURS[1]), to_rgba(COLOURS[1], 0)
_STOPS = [(0.0, _BLUE), (0.5, _CLEAR_BLUE), (0.5, _CLEAR_ORANGE), (1.0, _ORANGE)]
_SIGNED = LinearSegmentedColormap.from_list("signed", _STOPS, _LEVELS).with_extremes(bad=_NO_VALUE)
_RISING = LinearSegmentedColormap.from_list("rising", [_CLEAR_BLUE, _BLUE], _LEVELS).with_extremes(bad=_NO_VALUE)


def draw_heat_map(
    name: str, alt: str, matrix: Tensor, *, rows: str, columns: str, scale: str, signed: bool = False
) -> Markup:
    """Draw a matrix `[n, m]` as a heat map; NaN is grey.

    Args:
        name: name of the figure, unique on the page.
        alt: what it shows, for readers who do not see it.
        matrix: the values.
        rows: label of the vertical axis.
        columns: label of the horizontal axis.
        scale: label of the colour scale.
        signed: put zero in the middle of the scale, blue below it and orange above.
    """
    largest = matrix.abs().nan_to_num(0.0).amax().item() or 1.0
    with draw_svg(name, alt, height=_HEIGHT) as drawing:
        axes = drawing.axes
        axes.grid(visible=False)
        colours, low = (_SIGNED, -largest) if signed else (_RISING, 0.0)
        mesh = axes.pcolormesh(matrix.numpy(), cmap=colours, vmin=low, vmax=largest)
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.set(xlabel=columns, ylabel=rows)
        _number_ticks(axes, *matrix.shape)
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.8, aspect=25)
        bar.set_label(scale)
        bar.solids.set_rasterized(False)  # pyright: ignore[reportOptionalMemberAccess]  # figures on a page are vectors
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return drawing.svg


def _number_ticks(axes: Axes, rows: int, columns: int) -> None:
    """Number rows and columns at the centres of their cells; skip numbers where there are many."""

    def choose_indices(count: int) -> Sequence[int]:
        return range(0, count, next(step for step in (1, 2, 5, 10, 20, 50, 10**9) if count <= 20 * step))

    axes.set_xticks([i + 0.5 for i in choose_indices(columns)], [str(i) for i in choose_indices(columns)])
    axes.set_yticks([i + 0.5 for i in choose_indices(rows)], [str(i) for i in choose_indices(rows)])
    axes.tick_params(length=0)


_LARGEST = 1e100  # values beyond are left out, as infinite ones: the arithmetic of the axes would overflow
_WARM_UP = 5  # the first 1/5 of the epochs may be cut off


@dataclass(frozen=True)
class Line:
    """One curve; NaN leaves a gap.

    Attributes:
        name: its name in the legend.
        x: epochs or seconds.
        y: values.
    """

    name: str
    x: Sequence[float] = field(repr=False)
    y: Sequence[float] = field(repr=False)


@dataclass(frozen=True)
class Curves:
    """A figure, its title, and the note below it."""

    title: str
    svg: Markup
    note: str


@dataclass(frozen=True)
class Key:
    """An entry of a legend; the page draws the legend in HTML, since names may be long."""

    name: str
    colour: str
    dash: str


def make_legend(names: Sequence[str]) -> list[Key]:
    """Return a legend: ten colours, and another dash pattern for every ten names."""
    last = len(DASHES) - 1
    return [Key(name, COLOURS[i % len(COLOURS)], DASHES[min(i // len(COLOURS), last)]) for i, name in enumerate(names)]


def make_lines(run: Run, get_value: Callable[[Any], float | None]) -> list[Line]:
    """Return a line for each split of one run: a value of its rows by epoch; a line without values keeps its colour."""
    rows_by_split = [(split, rows) for split, rows in run.rows.items() if rows]
    return [Line(split, [row.epoch for row in rows], _get_values(rows, get_value)) for split, rows in rows_by_split]


def make_lines_of_runs(
    runs: Sequence[Run], names: Sequence[str], get_value: Callable[[Any], float | None]
) -> list[Line]:
    """Return a line for each run: a value of its test rows by epoch."""
    rows_by_run = [(name, run.rows["test"]) for run, name in zip(runs, names, strict=True)]
    return [Line(name, [row.epoch for row in rows], _get_values(rows, get_value)) for name, rows in rows_by_run]


def draw_bound(run: Run) -> Curves:
    """Draw the negative ELBO of the three splits by epoch."""
    lines = make_lines(run, lambda row: row.bound)
    note = f" The dotted line marks the best epoch, {run.best_epoch}."
    return draw_curves(
        "bound", "−ELBO by epoch", "epoch", "−ELBO (nats)", lines, clip=True, mark=run.best_epoch, note=note
    )


def draw_bounds_by_epoch(runs: Sequence[Run], names: Sequence[str]) -> Curves:
    """Draw the negative test ELBO of several runs by epoch."""
    lines = make_lines_of_runs(runs, names, lambda row: row.bound)
    return draw_curves("by-epoch", "Test −ELBO by epoch", "epoch", "test −ELBO (nats)", lines, clip=True)


def draw_bounds_by_time(runs: Sequence[Run], names: Sequence[str]) -> Curves:
    """Draw the negative test ELBO of several runs by seconds of training."""
    lines = []
    for run, name in zip(runs, names, strict=True):
        seconds = run.list_elapsed_seconds()
        rows = [row for row in run.rows["test"] if row.epoch in seconds]
        lines.append(Line(name, [seconds[row.epoch] for row in rows], _get_values(rows, lambda row: row.bound)))
    note = " Time for evaluation is not counted."
    return draw_curves(
        "by-seconds", "Test −ELBO by time", "seconds of training", "test −ELBO (nats)", lines, clip=True, note=note
    )


def draw_curves(
    name: str,
    title: str,
    xlabel: str,
    ylabel: str,
    lines: Sequence[Line],
    *,
    clip: bool = False,
    mark: int | None = None,
    note: str = "",
) -> Curves:
    """Draw lines in the colours of the legend that `make_legend` returns.

    Args:
        name: name of the figure.
        title: title of the figure.
        xlabel: label of the x axis.
        ylabel: label of the y axis.
        lines: curves with increasing x.
        clip: cut off outlying values of the first epochs; the note mentions it.
        mark: an x to mark by a dotted line.
        note: text at the end of the note below the figure.
    """
    ends = "; ".join(f"{line.name} ends at {line.y[-1]:.2f}" for line in lines if line.y and not math.isnan(line.y[-1]))
    with draw_svg(name, f"{title}: {ends}") as drawing:
        axes = drawing.axes
        for line, key in zip(lines, make_legend([line.name for line in lines]), strict=True):
            dash = tuple(map(float, key.dash.split()))
            marker = "o" if len(line.x) <= 12 else None
            axes.plot(line.x, line.y, color=key.colour, linestyle=(0, dash), marker=marker, markersize=3.5)
        if mark is not None:
            axes.axvline(mark, color=COLOURS[-1], linestyle=":", linewidth=1.2)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if clip and (top := find_axis_limit(lines)) is not None:
            values = _list_finite([line.y for line in lines])
            low = min(values)
            axes.set_ylim(low - 0.05 * (top - low), top)
            note = f"Cut off at {top:.1f} to show the rest: the first epochs reach {max(values):.1f}.{note}"
    return Curves(title, drawing.svg, note.strip())


def find_axis_limit(lines: Sequence[Line]) -> float | None:
    """Return the value at which to cut off the axis, or None if no cut is needed.

    The range is that of the values after the first fifth of the epochs. Higher values of the first epochs are cut off
    one range above it, but only if they are more than two ranges above it.
    """
    # With fewer than four epochs, all of them are shown.
    later = _list_finite([line.y[math.ceil(len(line.y) / _WARM_UP) if len(line.y) > 3 else 0 :] for line in lines])
    values = _list_finite([line.y for line in lines])
    if not later:
        return None
    height = max(max(later) - min(later), 1e-3 * abs(max(later)))
    return max(later) + height if max(values) > max(later) + 2 * height else None


def _list_finite(lists: Sequence[Sequence[float]]) -> list[float]:
    return [value for values in lists for value in values if math.isfinite(value)]


def _get_values(rows: Sequence[MetricsRow], get_value: Callable[[Any], float | None]) -> list[float]:
    values = map(get_value, rows)
    return [math.nan if value is None or abs(value) > _LARGEST else value for value in values]
