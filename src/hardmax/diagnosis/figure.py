"""The figure of a diagnosis: bias against standard deviation, one point for each estimator."""

import re
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from hardmax.diagnosis.advice import Quality
from hardmax.drawing.labels import place_labels_around_points
from hardmax.drawing.style import label_log_axis, use_plot_style

if TYPE_CHECKING:
    from hardmax.diagnosis.result import Diagnosis


_COLOURS = ("#3b82c4", "#d97b29", "#3a9d6e", "#c2527e", "#8a6fd1", "#a8843c", "#3aa6b9", "#d0605e", "#7c9a3a")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_GREY = "#777777"
_SIZE = (9.0, 6.2)  # inches
_ROUNDING = 1e-5  # smaller numbers, relative to the gradient, are rounding
_MARGIN = 1.8  # the axes extend beyond the points by this factor


def draw_diagnosis(diagnosis: "Diagnosis", batch: int) -> Figure:
    """Draw a diagnosis; the user's matplotlib settings have no effect.

    A hollow point has no significant bias. It is drawn on the noise floor, and its bias may be anywhere to the left.
    The dotted curve has the same error as the recommended estimator in a batch: points beyond it are worse. A line
    joins the estimators of a family.

    Args:
        diagnosis: the measurements.
        batch: number of examples in the batch that the error refers to.
    """
    with use_plot_style("diagnosis"):
        figure = Figure(figsize=_SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        points = _Points(diagnosis)
        axes.set(xscale="log", yscale="log", xlim=points.xlim, ylim=points.ylim)
        axes.set_xlabel("bias, relative to the exact gradient")
        axes.set_ylabel("standard deviation of one estimate, relative to the exact gradient")
        axes.set_title(
            f"{diagnosis.space}, {diagnosis.examples:,} examples: {diagnosis.draws:,} estimates each, up to "
            f"{diagnosis.evaluations:.4g} evaluations of f",
            loc="left",
            fontsize=11,
        )
        for axis in (axes.xaxis, axes.yaxis):
            label_log_axis(axis, (1, 2, 5) if points.count_decades(axis is axes.xaxis) < 2.5 else (1,))
        axes.grid()
        _draw_noise_floor(axes, diagnosis, points)
        _draw_least_error(axes, diagnosis, points, batch)
        texts = _draw_families(axes, diagnosis.rows, points)
        figure.legend(loc="outside lower left", fontsize=9, alignment="left")
        figure.canvas.draw()
        place_labels_around_points(axes, texts)
    return figure


class _Points:
    """Coordinates of the rows, and limits of the axes."""

    def __init__(self, diagnosis: "Diagnosis") -> None:
        self._draws, self._source = diagnosis.draws, diagnosis.source_error
        rows = diagnosis.rows
        deviations = [row.deviation for row in rows if row.deviation > _ROUNDING] or [1.0]
        # Rows without noise are drawn on the lower edge.
        self.ylim = (min(deviations) / _MARGIN**2, max(deviations) * _MARGIN)
        x = [self.locate(row)[0] for row in rows] or [1.0]
        self.xlim = (min(x) / _MARGIN, max(x) * _MARGIN)

    def floor(self, deviation: float) -> float:
        """Return the noise floor of the bias for estimates of this standard deviation."""
        return sqrt(deviation**2 / self._draws + self._source**2)

    def locate(self, row: Quality) -> tuple[float, float]:
        """Return a row's coordinates."""
        y = row.deviation if row.deviation > _ROUNDING else self.ylim[0]
        return row.bias if row.biased else self.floor(y), y

    def count_decades(self, horizontal: bool) -> float:
        """Return the number of powers of ten that an axis spans."""
        low, high = self.xlim if horizontal else self.ylim
        return float(np.log10(high / low))


def _draw_noise_floor(axes: Axes, diagnosis: "Diagnosis", points: _Points) -> None:
    """Shade the region below the noise floor."""
    y = np.geomspace(*points.ylim, 200)
    x = np.array([points.floor(value) for value in y])
    axes.fill_betweenx(y, points.xlim[0], x, color="#f1f1f1", linewidth=0, zorder=0)
    label = f"noise floor of {diagnosis.draws:,} estimates; hollow: no bias seen, it may lie anywhere to the left"
    axes.plot(x, y, color=_GREY, linewidth=1, linestyle=(0, (4, 2)), zorder=1, label=label)


def _draw_least_error(axes: Axes, diagnosis: "Diagnosis", points: _Points, batch: int) -> None:
    """Draw the curve of equal error through the recommended estimator."""
    advice = diagnosis.recommend(batch)
    if advice is None or advice.error <= _ROUNDING:
        return
    angle = np.linspace(0, np.pi / 2, 400)[1:-1]
    label = f"equal to the recommended one in a batch of {batch}: √(bias² + deviation² / {batch})"
    x, y = advice.error * np.cos(angle), advice.error * sqrt(batch) * np.sin(angle)
    axes.plot(x, y, color=_GREY, linewidth=1, linestyle=(0, (1, 1.65)), zorder=1, label=label)


def _draw_families(axes: Axes, rows: tuple[Quality, ...], points: _Points) -> list[Annotation]:
    """Draw the points, join those of a family that differ by a number, and return the labels."""
    families: dict[str, list[tuple[Quality, str]]] = {}
    for row in rows:
        family, rest = _split_name(row.name)
        families.setdefault(family, []).append((row, rest))
    texts = []
    for number, members in enumerate(families.values()):
        style: dict[str, Any] = {"color": _COLOURS[number % len(_COLOURS)]}
        places = [points.locate(row) for row, _ in members]
        ladder = all(re.search(r"\d", rest) for _, rest in members)
        if ladder:
            axes.plot(*zip(*places, strict=True), linewidth=1, alpha=0.6, zorder=2, **style)
        for i, ((row, rest), place) in enumerate(zip(members, places, strict=True)):
            noiseless = row.deviation <= _ROUNDING
            marker = {
                "marker": "v" if noiseless else _MARKERS[number % len(_MARKERS)],
                "markerfacecolor": style["color"] if row.biased else "white",
            }
            axes.plot(*place, markersize=7, markeredgewidth=1.5, zorder=3, clip_on=False, **marker, **style)
            label = (rest if ladder and i else row.name) + (": no noise" if noiseless else "")
            texts.append(axes.annotate(label, place, fontsize=9, annotation_clip=False, **style))
    return texts


def _split_name(name: str) -> tuple[str, str]:
    """Return the family and the rest of a name such as "direct, epsilon 0.1" or "Direct(epsilon=0.1)"."""
    family, rest = re.fullmatch(r"([^,(]*)[,(]?\s*(.*?)\)?", name).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return family, rest
