"""The quality image of a segmentation: three planes of a scan with the outlines of the structures. No torch here."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from jaxtyping import Integer
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hardmax.applications.segmentation.results.outline_colours import choose_outline_colours
from hardmax.applications.segmentation.results.slices import PLANES, Plane, choose_window
from hardmax.applications.segmentation.volumes.agreement import measure_volumes
from hardmax.applications.segmentation.volumes.geometry import Reorientation
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.drawing.style import use_plot_style
from hardmax.files import write_output
from hardmax.names import escape_control_characters

_MARGIN = 8.0  # mm around the labelled voxels
_LEGEND = 3.1  # inches: the longest names are those with a side, such as Left-Cerebellum-White-Matter
_APART = 12.0  # least distance in mm between the two slices of a plane
_PAPER, _INK, _PALE, _WARNING = "#000000", "#e8eaed", "#9aa3ae", "#ff9d6b"


def write_quality_image(
    path: Path, scan: Volume, labels: Integer[np.ndarray, "X Y Z"], table: LabelTable, *, title: str, flag: str = ""
) -> None:
    """Write the quality image as PNG: two slices in each of three planes, chosen to show every structure if possible.

    The planes are those of the voxels, reoriented to the nearest of sagittal, coronal and axial; the left of the person
    is on the left. Voxels that are not cubes have their true proportions.

    Args:
        path: path of the file.
        scan: the segmented scan.
        labels: `[X, Y, Z]`, indices in the table, in the scan's voxels.
        table: names and colours.
        title: title of the image.
        flag: a warning below the title.

    Raises:
        DataError: the file cannot be written.
    """
    with use_plot_style("qc"):
        figure = _draw_figure(scan, labels, table, title, flag)
        with write_output(path, "folder") as temporary:
            figure.savefig(temporary, format="png", dpi=110, facecolor=_PAPER, metadata={"Software": None})


def choose_slices(labels: Integer[np.ndarray, "X Y Z"], axis: int, apart: int, count: int) -> list[int]:
    """Choose two slices across an axis that show the structures best, at least `apart` voxels apart if there is room.

    The view of a structure in a slice is its area there, relative to its largest area in any slice. The first slice has
    the largest sum of views over structures; the second one adds most to the best view of each.

    Args:
        labels: `[X, Y, Z]`, 0 is the background.
        axis: the axis to cut.
        apart: least distance in voxels.
        count: number of labels.

    Example:
        >>> import numpy as np
        >>> labels = np.zeros((9, 4, 4), int)
        >>> labels[1, 1:3, 1:3], labels[7] = 1, 2
        >>> sorted(choose_slices(labels, axis=0, apart=2, count=3))
        [1, 7]
    """
    flat = np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1)
    areas = np.array([np.bincount(plane, minlength=count)[1:count] for plane in flat], dtype=np.float64)
    if not areas.any():
        return [len(flat) // 3, 2 * len(flat) // 3]
    views = areas / np.maximum(areas.max(0), 1)
    first = int(views.sum(1).argmax())
    gains = np.maximum(views, views[first]).sum(1)
    far = np.abs(np.arange(len(flat)) - first) >= apart
    second = int(np.where(far, gains, -1).argmax()) if far.any() else int(gains.argmax())
    return sorted([first, second])


def _draw_figure(scan: Volume, labels: np.ndarray, table: LabelTable, title: str, flag: str) -> Figure:
    reorientation = Reorientation(scan.grid)
    values, indices, spacing = (
        reorientation.forward(scan.values),
        reorientation.forward(labels),
        reorientation.canonical.spacing,
    )
    box = _bounding_box(indices, values, spacing)
    values, indices = values[box], indices[box]
    low, high = choose_window(values)
    sides = np.array(values.shape) * spacing
    # Widths of columns and heights of rows are those of the slices in mm; both rows show the same planes.
    widths, height = [sides[1], sides[0], sides[0]], float(max(sides[2], sides[1]))
    inches = 4.1 / height
    wide = float(sum(widths)) * inches + _LEGEND + 0.3
    warning = wrap(escape_control_characters(flag), int(13 * wide))
    head = 0.75 + 0.22 * len(warning)
    tall = 2 * height * inches + head + 0.25
    figure = Figure(figsize=(wide, tall), facecolor=_PAPER)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        2, 3, width_ratios=widths, left=0.01, right=1 - (_LEGEND + 0.15) / wide, bottom=0.15 / tall,
        top=1 - head / tall, wspace=0.02, hspace=0.08,
    )  # fmt: skip
    visible: set[int] = set()
    for column, plane in enumerate(PLANES):
        apart = int(np.ceil(_APART / spacing[plane.axis]))
        for row, index in enumerate(choose_slices(indices, plane.axis, apart, len(table))):
            axes = figure.add_subplot(grid[row, column])
            slice_values, slice_labels = (np.take(array, index, plane.axis).T for array in (values, indices))
            steps = np.delete(spacing, plane.axis)
            axes.imshow(
                slice_values, cmap="gray", vmin=low, vmax=high, origin="lower", aspect=steps[1] / steps[0],
                interpolation="bilinear",
            )  # fmt: skip
            axes.set_anchor("N")
            visible |= _draw_outlines(axes, slice_labels, table)
            _mark_sides(axes, plane, row == 0)
    _draw_legend(figure, labels, scan, table, visible, head + 0.25)
    figure.text(
        0.012, 1 - 0.3 / tall, escape_control_characters(title), color=_INK, fontsize=14, fontweight="bold", va="center"
    )
    for line, text in enumerate(warning):
        figure.text(0.012, 1 - (0.58 + 0.22 * line) / tall, text, color=_WARNING, fontsize=10.5, va="center")
    return figure


def _draw_outlines(axes: Axes, labels: Integer[np.ndarray, "H W"], table: LabelTable) -> set[int]:
    """Draw the outlines of the structures in a slice, small ones last, and return their indices."""
    sizes = np.bincount(labels.ravel(), minlength=len(table))
    present = [int(index) for index in np.argsort(-sizes) if index and sizes[index]]
    padded = np.pad(labels, 1)  # closes an outline that meets the edge
    colours = choose_outline_colours(table)
    y, x = np.arange(-1, labels.shape[0] + 1), np.arange(-1, labels.shape[1] + 1)
    for index in present:
        axes.contour(x, y, padded == index, levels=[0.5], colors=[colours[index]], linewidths=1.0)
    return set(present)


def _mark_sides(axes: Axes, plane: Plane, named: bool) -> None:
    """Write the letters of the sides, and the name of the plane above its first slice."""
    axes.set_axis_off()
    places = ((0.015, 0.5, "left"), (0.985, 0.5, "right"), (0.5, 0.02, "center"), (0.5, 0.98, "center"))
    for letter, (x, y, side), vertical in zip(
        plane.letters, places, ("center", "center", "bottom", "top"), strict=True
    ):
        axes.text(
            x, y, letter, transform=axes.transAxes, color="#ffd166", fontsize=9, ha=side, va=vertical, fontweight="bold"
        )  # fmt: skip
    if named:
        axes.set_title(plane.name, color=_INK, fontsize=11, pad=4)


def _draw_legend(
    figure: Figure, labels: np.ndarray, scan: Volume, table: LabelTable, visible: set[int], below: float
) -> None:
    """List the structures with their volumes in ml, `below` inches below the top; those in no slice are pale."""
    sizes = measure_volumes(labels, scan.grid, len(table)) / 1000
    wide, high = figure.get_size_inches()
    left, top, line = 1 - _LEGEND / wide, 1 - below / high, 0.245 / high
    present, colours = [index for index in range(1, len(table)) if sizes[index] > 0], choose_outline_colours(table)
    if not present:
        figure.text(left, top, "no structure was found", color=_WARNING, fontsize=10.5, va="center")
        return
    figure.text(1 - 0.12 / wide, top + line, "ml", color=_PALE, fontsize=10, va="center", ha="right")
    for place, index in enumerate(present):
        y, clear = top - place * line, 1 if index in visible else 0.4
        x = [left, left + 0.25 / wide]
        figure.add_artist(Line2D(x, [y, y], color=colours[index], linewidth=4, alpha=clear))
        name = escape_control_characters(table.names[index].replace("_", " "))
        figure.text(left + 0.35 / wide, y, name, color=_INK, fontsize=10, va="center", alpha=clear)
        size = _format_millilitres(sizes[index])
        figure.text(1 - 0.12 / wide, y, size, color=_INK, fontsize=10, va="center", ha="right", alpha=clear)


def _format_millilitres(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _bounding_box(labels: np.ndarray, values: np.ndarray, spacing: np.ndarray) -> tuple[slice, ...]:
    """Return the box around the labelled voxels, or, if there are none, around the bright ones."""
    mask = labels > 0 if (labels > 0).any() else values > np.percentile(values, 75)
    out: list[slice] = []
    for axis in range(3):
        others: Sequence[int] = tuple(other for other in range(3) if other != axis)
        occupied = np.flatnonzero(mask.any(axis=tuple(others)))
        if not len(occupied):
            out.append(slice(None))
            continue
        margin = int(np.ceil(_MARGIN / spacing[axis]))
        out.append(slice(max(int(occupied[0]) - margin, 0), int(occupied[-1]) + margin + 1))
    return tuple(out)
