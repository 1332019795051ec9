"""A measurement as ladders: bias and standard deviation of estimators against epsilon or tau."""

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hardmax.drawing.style import house_style, plain_logarithms, save
from hardmax.drawing.svg import COLOURS
from hardmax.experiments.pages.blocks import Block, Column, Entry, Paragraph, Table
from hardmax.experiments.runner.readings import Found, Reading, select
from hardmax.experiments.runner.rows import Row
from hardmax.experiments.tables.measurement import Measurement

_NOTHING = 1e-5  # of the gradient: rounding


def number(value: float) -> str:
    """Return three digits, and no exponent."""
    if value < _NOTHING:
        return "0"
    return f"{value:,.0f}" if value >= 999.5 else format(Decimal(f"{value:.3g}"), "f")


def seen(row: Row) -> str:
    """Return a row's bias, a dash where none shows."""
    return number(row["bias"]) if row["biased"] else "–"


def error(row: Row, batch: int) -> float:
    """Return the error of a mean over so many pictures, `sqrt(bias^2 + deviation^2 / batch)`; a bias unseen is none."""
    return math.hypot(row["bias"] if row["biased"] else 0.0, row["deviation"] / math.sqrt(batch))


EXPLANATION = (
    "By epsilon of direct and tau of Gumbel-softmax, relative to the size of the exact gradient: *bias* of the mean of "
    "{draws} estimates, with a dash where none shows above their noise (whose floor is the standard deviation divided "
    "by the square root of their number), and *standard deviation* of a single estimate."
)
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "-", (0, (4, 2)), (0, (4, 2)), (0, (1, 1.2)), (0, (1, 1.2)))
_WIDTH, _PANEL, _LEGEND = 9.0, 3.1, 0.9  # inches
_ROOM = 1.4  # by which the axes reach beyond the points


def tables(form: Measurement, found: Found) -> list[Block]:
    """Return two tables for each epoch and part: a line for each line of estimators, a column for each step."""
    blocks: list[Block] = []
    for epoch in form.epochs:
        for part in form.parts:
            own = select(found, epoch, part)
            norm = next((row["norm"] for _, row in own if row is not None), None)
            size = "" if norm is None else f" Its size is {number(norm)}, all pictures together."
            blocks.append(Paragraph(f"**After {epoch} epochs: {part.title}.**{size}"))
            blocks.append(_table(own, "bias", seen))
            blocks.append(_table(own, "standard deviation", lambda row: number(row["deviation"])))
    return blocks


def _table(own: Found, title: str, told: Callable[[Row], str]) -> Table:
    steps = sorted({reading.entrant.step or 0.0 for reading, _ in own})
    known = {(reading.entrant.line, reading.entrant.step): row for reading, row in own}
    lines = []
    for line in dict.fromkeys(line for line, _ in known):
        rows = [known.get((line, step)) for step in steps]
        lines.append([Entry(str(line)), *(Entry("" if row is None else told(row)) for row in rows)])
    return Table([Column(title, number=False), *(Column(f"{step:g}") for step in steps)], lines)


def pictures(form: Measurement, found: Found) -> dict[str, str]:
    """Return the pictures, and what they show: a single one."""
    return {form.name: "bias and standard deviation"} if any(row is not None for _, row in found) else {}


def draw(form: Measurement, found: Found, name: str, files: Mapping[str, Path], *, quick: bool) -> None:
    """Draw the last epoch that was measured: a row of two panels for each part, bias and standard deviation.

    A bias that does not show is drawn hollow, on the noise floor: it may be anywhere below.
    """
    with house_style(name):
        drawn = [part for part in form.parts if part.drawn]
        height = _PANEL * len(drawn) + _LEGEND
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(drawn), 2, sharex=True, squeeze=False)
        last = max(reading.epoch for reading, row in found if row is not None)
        styles = _styles(found)
        for part, (left, right) in zip(drawn, panels, strict=True):
            own = [pair for pair in select(found, last, part) if pair[1] is not None]
            _panel(left, own, styles, "bias")
            _panel(right, own, styles, "deviation")
            left.set_ylabel("relative to the gradient's size")
            left.set_title(f"{part.title}: bias", loc="left", fontsize=10.5)
            right.set_title("standard deviation", loc="left", fontsize=10.5)
        for axes in panels[-1]:
            axes.set_xlabel("epsilon of direct, tau of Gumbel-softmax")
        figure.suptitle(form.title + (" (quick form)" if quick else ""), x=0.01, ha="left", fontsize=12)
        handles = [Line2D([], [], label=line, **style) for line, style in styles.items()]
        hollow = Line2D([], [], linestyle="", marker="o", color="#777777", markerfacecolor="white")
        hollow.set_label("hollow: no bias seen, drawn at the noise floor")
        figure.legend(handles=[*handles, hollow], loc="outside lower left", ncols=2, fontsize=9.5, handlelength=3.2)
        save(figure, files)


def _styles(found: Found) -> dict[str, dict[str, Any]]:
    """Return how lines are drawn, in the order of their first appearance."""
    lines = dict.fromkeys(str(reading.entrant.line) for reading, _ in found)
    return {
        line: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": _MARKERS[i % len(_MARKERS)],
            "linestyle": _DASHES[i % len(_DASHES)],
            "markersize": 5.5,
        }
        for i, line in enumerate(lines)
    }


def _panel(axes: Axes, own: Sequence[tuple[Reading, Any]], styles: Mapping[str, dict[str, Any]], key: str) -> None:
    """Draw one quantity of every line."""
    axes.set(xscale="log", yscale="log")
    values = []
    for line, style in styles.items():
        points = [(reading.entrant.step, row) for reading, row in own if reading.entrant.line == line]
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
        plain_logarithms(axes.yaxis, (1,) if max(values) > 30 * min(values) else (1, 2, 5))
    plain_logarithms(axes.xaxis)
    axes.grid()
