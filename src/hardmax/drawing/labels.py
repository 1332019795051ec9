"""Place the labels of points in a figure, such that they overlap neither the points nor each other."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

_MARK = 5.0  # half the width of a marker, in typographic points
_LEAD = 16.0  # labels further away than this are connected to their points by a thin line
_LINE = 7.0  # spacing of the points that represent a line which labels avoid
# Candidate positions of a label, in typographic points from its marker: the nearest free one is used.
_PLACES = np.array([
    (distance * x, distance * y)
    for distance in (8, 13, 19, 26, 34, 44, 56, 70)
    for x, y in ((1, 0), (0.8, 0.7), (0.8, -0.7), (0, 1), (0, -1), (-0.8, 0.7), (-0.8, -0.7), (-1, 0))
])  # fmt: skip


def place_labels_around_points(axes: Axes, texts: Sequence[Annotation]) -> None:
    """Move annotations, created at the points that they label, to free positions; they also avoid lines of the axes.

    The figure must have its final layout: draw it once before the call.
    """
    if not texts:
        return
    renderer, scale = _get_renderer(axes)
    frame = axes.get_window_extent(renderer)
    centres = axes.transData.transform([text.xy for text in texts])
    mark = _MARK * scale
    obstacles = [np.concatenate([centres - mark, centres + mark], 1)]
    for line in axes.lines:
        if len(line.get_xydata()) > 1 and line.get_linestyle() != ":":  # pyright: ignore[reportArgumentType]
            points = _sample_line(axes.transData.transform(line.get_xydata()), _LINE * scale)
            obstacles.append(np.concatenate([points - scale, points + scale], 1))
    boxes = np.concatenate(obstacles)
    for text, centre in zip(texts, centres, strict=True):
        size = np.array(text.get_window_extent(renderer).size)
        candidates = _make_boxes(centre + _PLACES * scale, size)
        visible = _measure_overlaps(candidates, np.array([frame.extents]))[:, 0]
        hidden = _measure_overlaps(candidates, boxes).sum(1) + 4 * (size[0] * size[1] - visible)
        best = int(np.argmin(np.round(hidden, 3)))  # the nearest of those that hide the least
        _move(axes, text, centre, candidates[best], scale)
        boxes = np.concatenate([boxes, candidates[best : best + 1]])


def place_labels_in_column(axes: Axes, texts: Sequence[Annotation], x: float) -> None:
    """Move annotations into a column that begins at x, a fraction of the axes' width, each near its point.

    The figure must have its final layout: draw it once before the call.
    """
    if not texts:
        return
    renderer, scale = _get_renderer(axes)
    frame = axes.get_window_extent(renderer)
    order = sorted(texts, key=lambda text: text.xy[1])
    centres = axes.transData.transform([text.xy for text in order])
    heights = np.array([1.05 * text.get_window_extent(renderer).height for text in order])
    middles = _separate_boxes(centres[:, 1], heights, frame.y0, frame.y1)
    for text, centre, middle in zip(order, centres, middles, strict=True):
        width, height = text.get_window_extent(renderer).size
        left = frame.x0 + x * frame.width
        box = np.array([left, middle - height / 2, left + width, middle + height / 2])
        _move(axes, text, centre, box, scale)


def _get_renderer(axes: Axes) -> tuple[Any, float]:
    """Return the renderer, which measures texts, and the number of pixels in a typographic point."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure.canvas.get_renderer(), figure.dpi / 72  # pyright: ignore[reportAttributeAccessIssue]


def _separate_boxes(wanted: np.ndarray, heights: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the centres of boxes, near the increasing positions `wanted`, such that no two overlap.

    All boxes lie between `low` and `high`. Boxes that touch move together, to the mean of their wanted positions.
    """
    groups: list[tuple[list[int], float]] = []  # members, and the bottom of the first
    for i in range(len(wanted)):
        members = [i]
        while True:
            offsets = np.cumsum(heights[members]) - heights[members] / 2
            bottom = float(np.mean(wanted[members] - offsets))
            bottom = max(min(bottom, high - heights[members].sum()), low)
            if not groups or groups[-1][1] + heights[groups[-1][0]].sum() <= bottom:
                break
            members = groups.pop()[0] + members
        groups.append((members, bottom))
    middles = [bottom + np.cumsum(heights[members]) - heights[members] / 2 for members, bottom in groups]
    return np.concatenate([np.zeros(0), *middles])


def _move(axes: Axes, text: Annotation, centre: np.ndarray, box: np.ndarray, scale: float) -> None:
    """Move a label into a box, and draw a line to it if it is far from its point."""
    text.set(position=tuple((box[:2] - centre) / scale), anncoords="offset points", ha="left", va="bottom")
    nearest = np.clip(centre, box[:2], box[2:])
    if np.hypot(*(nearest - centre)) > _LEAD * scale:
        ends = axes.transData.inverted().transform([centre, nearest])
        axes.plot(ends[:, 0], ends[:, 1], color=text.get_color(), linewidth=0.6, zorder=1, clip_on=False)


def _sample_line(ends: np.ndarray, apart: float) -> np.ndarray:
    """Return evenly spaced points on the line through `ends`, about `apart` pixels from each other."""
    pieces: list[Any] = [ends[:1]]
    for a, b in pairwise(ends):
        count = max(int(np.hypot(*(b - a)) / apart), 1)
        pieces.append(a + np.linspace(0, 1, count + 1)[1:, None] * (b - a))
    return np.concatenate(pieces)


def _make_boxes(anchors: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return boxes `[P, 4]` of labels whose nearest edge or corner is at the anchors around the marker."""
    side = np.sign(np.round(_PLACES, 6))
    low = anchors - (1 - side) / 2 * size
    return np.concatenate([low, low + size], 1)


def _measure_overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the areas `[P, Q]` that boxes `[P, 4]` share with others `[Q, 4]`."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.clip(high - low, 0, None).prod(-1)
