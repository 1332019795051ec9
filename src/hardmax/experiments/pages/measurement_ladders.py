"""The page of a measurement with ladders: bias and standard deviation of estimators by epsilon or tau."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hardmax.drawing.style import label_log_axis, save_figure, use_plot_style
from hardmax.drawing.svg import COLOURS
from hardmax.experiments.pages.blocks import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.rows import Row
from hardmax.experiments.tables.measurement import Measurement, Part, PlannedMeasurement

# All measurements of a table or figure, with the rows of those that are finished.
MeasuredRows = Sequence[tuple[PlannedMeasurement, Row | None]]

_NOTHING = 1e-5  # relative to the gradient: smaller values are rounding errors


def format_number(value: float) -> str:
    """Format a number with three significant digits and no exponent."""
    if value < _NOTHING:
        return "0"
    return f"{value:,.0f}" if value >= 999.5 else format(Decimal(f"{value:.3g}"), "f")


def format_bias(row: Row) -> str:
    """Format a row's bias; a dash if none is detected."""
    return format_number(row["bias"]) if row["biased"] else "–"


def batch_error(row: Row, batch: int) -> float:
    """Return `sqrt(bias^2 + deviation^2 / batch)`, the error of a batch's mean; an undetected bias counts as zero."""
    return math.hypot(row["bias"] if row["biased"] else 0.0, row["deviation"] / math.sqrt(batch))


def select_rows(pairs: MeasuredRows, epoch: int, part: Part) -> list[tuple[PlannedMeasurement, Row | None]]:
    """Return the measurements of a part after an epoch."""
    return [(planned, row) for planned, row in pairs if (planned.epoch, planned.part) == (epoch, part)]


EXPLANATION = (
    "By epsilon of direct and tau of Gumbel-softmax, relative to the norm of the exact gradient: *bias* is that of "
    "the mean of {draws} estimates, with a dash where it is not detected above their noise (the noise floor is the "
    "standard deviation divided by the square root of their number); *standard deviation* is that of a single "
    "estimate."
)
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "-", (0, (4, 2)), (0, (4, 2)), (0, (1, 1.2)), (0, (1, 1.2)))
_WIDTH, _PANEL, _LEGEND = 9.0, 3.1, 0.9  # inches
_ROOM = 1.4  # factor by which the axes extend beyond the points


def build_tables(form: Measurement, pairs: MeasuredRows) -> list[Block]:
    """Return two tables for each epoch and part: a line for each line of estimators, a column for each step."""
    blocks: list[Block] = []
    for epoch in form.epochs:
        for part in form.parts:
            selected = select_rows(pairs, epoch, part)
            norm = next((row["norm"] for _, row in selected if row is not None), None)
            size = (
                ""
                if norm is None
                else f" The exact gradient of all images together has the norm {format_number(norm)}."
            )
            blocks.append(Paragraph(f"**After {epoch} epochs: {part.title}.**{size}"))
            blocks.append(_table(selected, "bias", format_bias))
            blocks.append(_table(selected, "standard deviation", lambda row: format_number(row["deviation"])))
    return blocks


def _table(pairs: MeasuredRows, title: str, write: Callable[[Row], str]) -> Table:
    steps = sorted({planned.measured.step or 0.0 for planned, _ in pairs})
    known = {(planned.measured.line, planned.measured.step): row for planned, row in pairs}
    lines = []
    for line in dict.fromkeys(line for line, _ in known):
        rows = [known.get((line, step)) for step in steps]
        lines.append([Entry(str(line)), *(Entry("" if row is None else write(row)) for row in rows)])
    return Table([Column(title, number=False), *(Column(f"{step:g}") for step in steps)], lines)


def list_figures(form: Measurement, pairs: MeasuredRows) -> dict[str, str]:
    """Return the name and title of the figure; empty before the first measurement."""
    return {form.name: "bias and standard deviation"} if any(row is not None for _, row in pairs) else {}


def draw_figure(form: Measurement, pairs: MeasuredRows, name: str, files: Mapping[str, Path], *, quick: bool) -> None:
    """Draw the last measured epoch: a row of two panels for each part, bias and standard deviation.

    An undetected bias is drawn hollow, at the noise floor: it may be anywhere below.
    """
    with use_plot_style(name):
        parts = [part for part in form.parts if part.drawn]
        height = _PANEL * len(parts) + _LEGEND
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(parts), 2, sharex=True, squeeze=False)
        last = max(planned.epoch for planned, row in pairs if row is not None)
        styles = _choose_styles(pairs)
        for part, (left, right) in zip(parts, panels, strict=True):
            measured = [pair for pair in select_rows(pairs, last, part) if pair[1] is not None]
            _draw_panel(left, measured, styles, "bias")
            _draw_panel(right, measured, styles, "deviation")
            left.set_ylabel("relative to the norm of the gradient")
            left.set_title(f"{part.title}: bias", loc="left", fontsize=10.5)
            right.set_title("standard deviation", loc="left", fontsize=10.5)
        for axes in panels[-1]:
            axes.set_xlabel("epsilon of direct, tau of Gumbel-softmax")
        figure.suptitle(form.title + (" (quick form)" if quick else ""), x=0.01, ha="left", fontsize=12)
        handles = [Line2D([], [], label=line, **style) for line, style in styles.items()]
        hollow = Line2D([], [], linestyle="", marker="o", color="#777777", markerfacecolor="white")
        hollow.set_label("hollow: no bias detected, drawn at the noise floor")
        figure.legend(handles=[*handles, hollow], loc="outside lower left", ncols=2, fontsize=9.5, handlelength=3.2)
        save_figure(figure, files)


def _choose_styles(pairs: MeasuredRows) -> dict[str, dict[str, Any]]:
    """Return the style of each line, in the order of first appearance."""
    lines = dict.fromkeys(str(planned.measured.line) for planned, _ in pairs)
    return {
        line: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": _MARKERS[i % len(_MARKERS)],
            "linestyle": _DASHES[i % len(_DASHES)],
            "markersize": 5.5,
        }
        for i, line in enumerate(lines)
    }


def _draw_panel(
    axes: Axes, pairs: Sequence[tuple[PlannedMeasurement, Any]], styles: Mapping[str, dict[str, Any]], key: str
) -> None:
    """Draw one quantity of every line."""
    axes.set(xscale="log", yscale="log")
    values = []
    for line, style in styles.items():
        points = [(planned.measured.step, row) for planned, row in pairs if planned.measured.line == line]
        if not points:
            continue
        x, rows = zip(*points, strict=True)
        y = [row["floor"] if key == "bias" and not row["biased"] else row[key] for row in rows]
        values += [value for value in y if value > 0]
        axes.plot(x, y, color=style["color"], linestyle=style["linestyle"])
        for step, value, row in zip(x, y, rows, strict=True):
            face = "white" if key == "bias" and not row["biased"] else style["color"]
            axes.plot(step, value, **{**style, "linestyle": ""}, markerfacecolor=face)
    if values:
        axes.set_ylim(min(values) / _ROOM, max(values) * _ROOM)
        axes.axhline(1, color="#999999", linewidth=0.8, zorder=0)
    label_log_axis(axes.yaxis, (1,) if values and max(values) > 30 * min(values) else (1, 2, 5))
    label_log_axis(axes.xaxis)
    axes.grid()
