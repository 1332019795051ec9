"""Curves over epochs and seconds, and heat maps of matrices."""

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
from hardmax.report.run import Measured, Run

_HEIGHT = 380
_LEVELS = 49
_NOTHING = (0.5, 0.5, 0.5, 0.3)  # where there is no value
# Zero is clear: it has the colour of the page.
_BLUE, _CLEAR_BLUE = to_rgba(COLOURS[0]), to_rgba(COLOURS[0], 0)
_ORANGE, _CLEAR_ORANGE = to_rgba(COLOURS[1]), to_rgba(COLOURS[1], 0)
_STOPS = [(0.0, _BLUE), (0.5, _CLEAR_BLUE), (0.5, _CLEAR_ORANGE), (1.0, _ORANGE)]
_SIGNED = LinearSegmentedColormap.from_list("signed", _STOPS, _LEVELS).with_extremes(bad=_NOTHING)
_RISING = LinearSegmentedColormap.from_list("rising", [_CLEAR_BLUE, _BLUE], _LEVELS).with_extremes(bad=_NOTHING)


def draw_heat_map(
    name: str, alt: str, matrix: Tensor, *, rows: str, columns: str, scale: str, signed: bool = False
) -> Markup:
    """Draw a matrix `[n, m]`; NaN is grey.

    Args:
        name: name of the figure, unique on the page.
        alt: what it shows.
        matrix: the values.
        rows: what a row is.
        columns: what a column is.
        scale: what a value is.
        signed: put zero in the middle of the scale, blue below it and orange above.
    """
    most = matrix.abs().nan_to_num(0.0).amax().item() or 1.0
    with draw_svg(name, alt, height=_HEIGHT) as drawing:
        axes = drawing.axes
        axes.grid(visible=False)
        colours, low = (_SIGNED, -most) if signed else (_RISING, 0.0)
        mesh = axes.pcolormesh(matrix.numpy(), cmap=colours, vmin=low, vmax=most)
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.set(xlabel=columns, ylabel=rows)
        _number_ticks(axes, *matrix.shape)
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.8, aspect=25)
        bar.set_label(scale)
        bar.solids.set_rasterized(False)  # pyright: ignore[reportOptionalMemberAccess]  # a page has no pixels in figures
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return drawing.svg


def _number_ticks(axes: Axes, rows: int, columns: int) -> None:
    """Number rows and columns at the centres of their cells, skipping numbers where there is no room."""

    def choose_indices(count: int) -> Sequence[int]:
        return range(0, count, next(step for step in (1, 2, 5, 10, 20, 50, 10**9) if count <= 20 * step))

    axes.set_xticks([i + 0.5 for i in choose_indices(columns)], [str(i) for i in choose_indices(columns)])
    axes.set_yticks([i + 0.5 for i in choose_indices(rows)], [str(i) for i in choose_indices(rows)])
    axes.tick_params(length=0)


_SETTLING = 5  # the first fifth of the epochs may be cut off


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
    """An entry of a legend: the page draws it, since names may be long."""

    name: str
    colour: str
    dash: str


def make_legend(names: Sequence[str]) -> list[Key]:
    """Return a colour for each name, and another dash for each ten names."""
    last = len(DASHES) - 1
    return [Key(name, COLOURS[i % len(COLOURS)], DASHES[min(i // len(COLOURS), last)]) for i, name in enumerate(names)]


def make_lines(run: Run, of: Callable[[Any], float | None]) -> list[Line]:
    """Return the measurements of one run by epoch, a line for each split; a line without values keeps its colour."""
    rows_by_split = [(split, rows) for split, rows in run.measured.items() if rows]
    return [Line(split, [row.epoch for row in rows], _values(rows, of)) for split, rows in rows_by_split]


def make_lines_of_runs(runs: Sequence[Run], names: Sequence[str], of: Callable[[Any], float | None]) -> list[Line]:
    """Return the measurements of several runs on their test pictures by epoch, a line for each run."""
    rows_by_run = [(name, run.measured["test"]) for run, name in zip(runs, names, strict=True)]
    return [Line(name, [row.epoch for row in rows], _values(rows, of)) for name, rows in rows_by_run]


def draw_bound(run: Run) -> Curves:
    """Draw the bound of the three splits by epoch."""
    lines = make_lines(run, lambda row: row.bound)
    best = f" The dotted line marks the best epoch, {run.best_epoch}."
    return draw_curves(
        "bound", "−ELBO by epoch", "epoch", "−ELBO (nats)", lines, clip=True, mark=run.best_epoch, note=best
    )


def draw_bounds_by_epoch(runs: Sequence[Run], names: Sequence[str]) -> Curves:
    """Draw the test bound of several runs by epoch."""
    lines = make_lines_of_runs(runs, names, lambda row: row.bound)
    return draw_curves("by-epoch", "Test −ELBO by epoch", "epoch", "test −ELBO (nats)", lines, clip=True)


def draw_bounds_by_time(runs: Sequence[Run], names: Sequence[str]) -> Curves:
    """Draw the test bound of several runs by seconds of training."""
    lines = []
    for run, name in zip(runs, names, strict=True):
        seconds = run.seconds()
        timed = [row for row in run.measured["test"] if row.epoch in seconds]
        lines.append(Line(name, [seconds[row.epoch] for row in timed], _values(timed, lambda row: row.bound)))
    without = " Time for evaluation is not counted."
    return draw_curves(
        "by-seconds", "Test −ELBO by time", "seconds of training", "test −ELBO (nats)", lines, clip=True, note=without
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
    """Draw lines in the colours of their legend.

    Args:
        name: name of the figure.
        title: title of the figure.
        xlabel: what x is.
        ylabel: what y is.
        lines: curves with increasing x.
        clip: cut off outlying values of the first epochs, and state it in the note.
        mark: an x to mark.
        note: text added to the note below the figure.
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
            values = _finite([line.y for line in lines])
            low = min(values)
            axes.set_ylim(low - 0.05 * (top - low), top)
            note = f"Cut off at {top:.1f} to show the rest: the first epochs reach {max(values):.1f}.{note}"
    return Curves(title, drawing.svg, note.strip())


def find_axis_limit(lines: Sequence[Line]) -> float | None:
    """Return the value at which to cut off the axis, or None if no cut is needed.

    After its first fifth a run has settled into a range of values. The first epochs may take the same height again
    above that range; they are cut off only if they would take more than twice that height.
    """
    # With fewer than four epochs, all of them are shown.
    settled = _finite([line.y[math.ceil(len(line.y) / _SETTLING) if len(line.y) > 3 else 0 :] for line in lines])
    values = _finite([line.y for line in lines])
    if not settled:
        return None
    room = max(max(settled) - min(settled), 1e-3 * abs(max(settled)))
    return max(settled) + room if max(values) > max(settled) + 2 * room else None


def _finite(lists: Sequence[Sequence[float]]) -> list[float]:
    return [value for values in lists for value in values if math.isfinite(value)]


def _values(rows: Sequence[Measured], of: Callable[[Any], float | None]) -> list[float]:
    return [math.nan if (value := of(row)) is None else value for row in rows]
