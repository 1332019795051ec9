"""The page of a measurement with points: bias against standard deviation of estimators, and tables by epoch."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from hardmax.drawing.labels import place_labels_around_points, place_labels_in_column
from hardmax.drawing.style import label_log_axis, save_figure, use_plot_style
from hardmax.drawing.svg import COLOURS
from hardmax.experiments.pages.blocks import Block, Column, Entry, Heading, Table
from hardmax.experiments.pages.measurement_ladders import (
    MeasuredRows,
    batch_error,
    format_bias,
    format_number,
    select_rows,
)
from hardmax.experiments.rows import Row
from hardmax.experiments.tables.measurement import Measurement, PlannedMeasurement

EXPLANATION = (
    "*S* is the number of samples that the evaluations allow, *evaluations* the number of evaluations of f per image. "
    "Relative to the norm of the exact gradient: *bias* is that of the mean of {draws} estimates, with a dash where "
    "it is not detected above their noise, and *std* is the standard deviation of a single estimate. *cosine* is that "
    "of a single estimate and the exact gradient, mean over the images that have a gradient. *error* is "
    "`sqrt(bias^2 + std^2 / {batch})`, the error of the mean of a batch of {batch} images; lines are sorted by it. "
    "*ms* is the time of one estimate for all images, including the backward pass to the scores."
)

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_GREY = "#888888"
_SIZE, _WIDTHS = (9.0, 6.6), (1, 2)  # inches; of the strip and the plane
_ERRORS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_FAR = 30  # estimators with 30 times less noise than the median are on the lower edge, with the value in their label
_ROOM = 1.6  # factor by which the axes extend beyond the points


def build_tables(form: Measurement, pairs: MeasuredRows) -> list[Block]:
    """Return a section for each epoch, with a table for each part."""
    blocks: list[Block] = []
    for epoch in form.epochs:
        blocks.append(Heading(f"After {epoch} epoch{'' if epoch == 1 else 's'}"))
        for part in form.parts:
            blocks.append(_table(select_rows(pairs, epoch, part), part.title, form.training.batch_size))
    return blocks


def _table(pairs: MeasuredRows, title: str, batch: int) -> Table:
    measured = [(planned.measured.name, row) for planned, row in pairs if row is not None]
    lines = []
    for name, row in sorted(measured, key=lambda pair: batch_error(pair[1], batch)):
        values = [
            str(row["samples"]),
            f"{row['evaluations']:.3g}",
            format_bias(row),
            format_number(row["deviation"]),
            f"{row['cosine']:.2f}",
            format_number(batch_error(row, batch)),
            format_number(1e3 * row["seconds"]),
        ]
        lines.append([Entry(f"`{name}`"), *map(Entry, values)])
    for planned in (planned for planned, row in pairs if row is None):
        lines.append([Entry(f"`{planned.measured.name}`"), Entry("not measured"), *[Entry("")] * 6])
    heads = ("S", "evaluations", "bias", "std", "cosine", "error", "ms")
    return Table([Column("estimator", number=False), *map(Column, heads)], lines, title)


def list_figures(form: Measurement, pairs: MeasuredRows) -> dict[str, str]:
    """Return the names and titles of the figures: one for each measured part that has a figure."""
    measured = {planned.part for planned, row in pairs if row is not None}
    return {f"{form.name}-{part.name}": part.title for part in form.parts if part.drawn and part in measured}


def draw_figure(form: Measurement, pairs: MeasuredRows, name: str, files: Mapping[str, Path], *, quick: bool) -> None:
    """Draw a part after the last epoch at which it was measured: bias against standard deviation.

    Estimators without a detected bias are in a separate strip. Along a dotted curve the error of a batch is equal.
    """
    part = next(part for part in form.parts if name == f"{form.name}-{part.name}")
    points = [(planned, row) for planned, row in pairs if planned.part == part and row is not None]
    last = max(planned.epoch for planned, _ in points)
    points = [(planned, row) for planned, row in points if planned.epoch == last]
    batch = form.training.batch_size
    with use_plot_style(name):
        figure = Figure(figsize=_SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        strip, axes = figure.subplots(1, 2, sharey=True, width_ratios=_WIDTHS)
        least = _find_least_deviation([row["deviation"] for _, row in points])
        _set_up_axes(strip, axes, [row for _, row in points], least, batch)
        unbiased, biased = _draw_points(strip, axes, points, least)
        when = f"after {last} epoch{'' if last == 1 else 's'}{' (quick form)' if quick else ''}"
        figure.suptitle(f"{form.title}: {part.title}, {when}", x=0.01, ha="left", fontsize=12)
        figure.canvas.draw()  # labels are moved after everything else is placed
        figure.set_layout_engine("none")
        place_labels_in_column(strip, unbiased, 0.16)
        place_labels_around_points(axes, biased)
        save_figure(figure, files)


def _find_least_deviation(deviations: Sequence[float]) -> float:
    """Return the least deviation that is drawn to scale: smaller ones would compress the axis."""
    enough = max(median(deviations) / _FAR, 1e-4)
    return min((value for value in deviations if value > enough), default=enough)


def _set_up_axes(strip: Axes, axes: Axes, rows: Sequence[Row], least: float, batch: int) -> None:
    """Set up the strip and the plane, with curves of equal error."""
    deviations = [row["deviation"] for row in rows]
    low, high = least / (_ROOM**2 if min(deviations) < least else _ROOM), max(*deviations, least) * _ROOM
    strip.set(xlim=(0, 1), xticks=[], yscale="log", ylim=(low, high))
    strip.set_title("no bias detected", loc="left", fontsize=10.5)
    strip.set_ylabel("standard deviation of one estimate, relative to the norm of the gradient")
    label_log_axis(strip.yaxis, (1,) if high > 1e3 * low else (1, 2, 5))
    biases = [row["bias"] for row in rows if row["biased"]] or [1.0]
    left, right = min(biases) / _ROOM, max(biases) * _ROOM
    axes.set(xscale="log", xlim=(left, right))
    axes.set_title(f"biased; dotted: equal error in a batch of {batch}", loc="left", fontsize=10.5)
    axes.set_xlabel("bias, relative to the norm of the gradient")
    label_log_axis(axes.xaxis)
    for each in (strip, axes):
        each.grid()
    for level in _ERRORS:
        y = np.geomspace(low, min(high, level * math.sqrt(batch)), 400)
        x = np.sqrt(np.clip(level**2 - y**2 / batch, 0, None))
        axes.plot(x, y, color=_GREY, linewidth=0.9, linestyle=":", zorder=1)
        if left < level < right:
            place: dict[str, Any] = {"xytext": (2, 4), "textcoords": "offset points", "rotation": 90}
            axes.annotate(f"error {level:g}", (level, low), fontsize=8, color=_GREY, **place)


def _draw_points(
    strip: Axes, axes: Axes, points: Sequence[tuple[PlannedMeasurement, Row]], least: float
) -> tuple[list[Annotation], list[Annotation]]:
    """Draw the points, joined along each line; return the labels of the strip and of the plane."""
    low = strip.get_ylim()[0]

    def at(row: Row) -> tuple[float, float]:
        return row["bias"], row["deviation"] if row["deviation"] >= least else low

    families: dict[str, list[tuple[PlannedMeasurement, Row]]] = {}
    for planned, row in points:
        families.setdefault(planned.measured.line or planned.measured.name.split("(")[0], []).append((planned, row))
    texts: tuple[list[Annotation], list[Annotation]] = ([], [])
    for i, members in enumerate(families.values()):
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
        biased = [row for _, row in members if row["biased"]]
        if members[0][0].measured.line is not None and biased:
            places = zip(*map(at, biased), strict=True)
            axes.plot(*places, linewidth=1, alpha=0.6, color=style["color"])
        for planned, row in members:
            on, place = (axes, at(row)) if row["biased"] else (strip, (0.07, at(row)[1]))
            off = row["deviation"] < least
            on.plot(*place, markersize=6.5, zorder=3, clip_on=False, **{**style, **({"marker": "v"} if off else {})})
            first = not row["biased"] or row is biased[0]
            label = planned.measured.label if first or planned.measured.line is None else f"{planned.measured.step:g}"
            label += f": {format_number(row['deviation'])}" if off else ""
            text = on.annotate(label, place, fontsize=8.5, annotation_clip=False, color=style["color"])
            texts[int(row["biased"])].append(text)
    return texts
