"""A scan with its label map for display: as bytes, in the orientation nearest to RAS, and its slices. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Integer, Shaped, UInt8
from PIL import Image

from hardmax.applications.segmentation.volumes.geometry import Grid, Reorientation, resample_labels
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume, read_labels, read_volume
from hardmax.errors import DataError

_MOST_VOXELS = 2**28  # of a scan: 256 MB as bytes
_LOOKED_AT = 2**21  # voxels from which the brightness is chosen

Voxel = tuple[int, int, int]


@dataclass(frozen=True)
class Plane:
    """A plane of a volume in RAS.

    Attributes:
        name: its name.
        axis: the axis normal to it.
        letters: the directions at its left, right, bottom and top.
    """

    name: str
    axis: int
    letters: str

    @property
    def axes(self) -> tuple[int, int]:
        """The axis that runs to the right, and the one that runs up."""
        first, second = (axis for axis in range(3) if axis != self.axis)
        return first, second


PLANES = (Plane("sagittal", 0, "PAIS"), Plane("coronal", 1, "LRIS"), Plane("axial", 2, "LRPA"))


@dataclass(frozen=True, eq=False)
class DisplayScan:
    """A scan and its label map, in the same voxels, in the orientation nearest to RAS.

    Attributes:
        grey: `[X, Y, Z]`, brightness as bytes; None if there are labels alone.
        labels: `[X, Y, Z]`, indices in the table.
        grid: position of the voxels in the world.
        notes: sentences about errors in the files.
    """

    grey: UInt8[np.ndarray, "X Y Z"] | None
    labels: Integer[np.ndarray, "X Y Z"]
    grid: Grid
    notes: tuple[str, ...] = ()


def load_display_scan(scan: Path | None, labels: Path, table: LabelTable = STRUCTURES) -> DisplayScan:
    """Read a scan and its label map; two bytes per voxel stay in memory.

    Args:
        scan: file of the scan; None for the labels alone.
        labels: file of the label map; it is resampled to the voxels of the scan if it has others.
        table: the labels.

    Raises:
        DataError: a file is missing, broken or too large.
    """
    volume = None if scan is None else read_volume(scan)
    grey = None if volume is None else _convert_to_bytes(volume)
    notes, grid = (() if volume is None else volume.notes), (None if volume is None else volume.grid)
    del volume  # four bytes per voxel
    label_map = read_labels(labels, table)
    notes += label_map.notes
    values, own = label_map.labels, label_map.grid
    if grid is None:
        _check_size(labels, own.shape)
        grid = own
    elif not own.same_as(grid):
        values = resample_labels(values, own, grid)
        notes += ("the label map has other voxels than the scan: it is shown in the scan's",)
    reorientation = Reorientation(grid)
    forward = reorientation.forward
    return DisplayScan(None if grey is None else forward(grey), forward(values), reorientation.canonical, notes)


def load_other_labels(path: Path, scan: DisplayScan, table: LabelTable = STRUCTURES) -> Integer[np.ndarray, "X Y Z"]:
    """Read a second label map, in the voxels of a scan that is displayed.

    Raises:
        DataError: the file is missing or broken, or does not overlap the scan.
    """
    label_map = read_labels(path, table)
    reorientation = Reorientation(label_map.grid)
    labels = reorientation.forward(label_map.labels)
    if not reorientation.canonical.same_as(scan.grid):
        labels = resample_labels(labels, reorientation.canonical, scan.grid)
        if not labels.any():
            raise DataError(f"{path} does not overlap the scan: none of its labels is on it; are the headers right?")
    return labels


def choose_window(values: Float[np.ndarray, "..."]) -> tuple[float, float]:
    """Return the values that map to black and white."""
    low = float(values.min())
    inside = values[values > low]
    if not len(inside):
        return low, low + 1
    # White is above the brightest value, so that a light outline is visible on white matter too.
    return low, low + 1.25 * (float(np.percentile(inside, 99.5)) - low)


def _convert_to_bytes(volume: Volume) -> UInt8[np.ndarray, "X Y Z"]:
    values = volume.values
    _check_size(volume.path, values.shape)
    stride = max(1, round((values.size / _LOOKED_AT) ** (1 / 3)))
    low, high = choose_window(values[::stride, ::stride, ::stride])
    out = np.empty(values.shape, np.uint8)
    for part, target in zip(values, out, strict=True):
        target[...] = np.clip((part - low) * (255 / (high - low)), 0, 255)
    return out


def _check_size(path: Path | None, shape: Sequence[int]) -> None:
    if np.prod(shape, dtype=np.int64) > _MOST_VOXELS:
        sides = " x ".join(map(str, shape))
        raise DataError(f"{path} has {sides} voxels, and at most {_MOST_VOXELS:,} are shown; resample it first")


# ------------------------------------------------------------------------------- slices
def cut_slice(values: Shaped[np.ndarray, "X Y Z"], plane: Plane, index: int) -> Shaped[np.ndarray, "H W"]:
    """Return a slice as it is looked at: the first row is the top one, the left of the person is on the left."""
    return np.take(values, index, plane.axis).T[::-1]


def locate_in_slice(plane: Plane, voxel: Voxel, shape: Sequence[int]) -> tuple[int, int]:
    """Return row and column of a voxel in its slice.

    Example:
        >>> locate_in_slice(PLANES[2], (1, 0, 5), (4, 3, 9)), find_voxel(PLANES[2], 2, 1, (0, 0, 5), (4, 3, 9))
        ((2, 1), (1, 0, 5))
    """
    across, up = plane.axes
    return shape[up] - 1 - voxel[up], voxel[across]


def find_voxel(plane: Plane, row: int, column: int, voxel: Voxel, shape: Sequence[int]) -> Voxel:
    """Return the voxel at a row and a column of the slice through a voxel."""
    across, up = plane.axes
    out = list(voxel)
    out[across], out[up] = column, shape[up] - 1 - row
    return out[0], out[1], out[2]


def measure_aspect(plane: Plane, grid: Grid) -> float:
    """Return the width of a slice divided by its height, in mm."""
    across, up = plane.axes
    return float(grid.shape[across] * grid.spacing[across] / (grid.shape[up] * grid.spacing[up]))


def colour_labels(labels: Integer[np.ndarray, "H W"], table: LabelTable, only: int | None = None) -> Image.Image:
    """Return the labels of a slice in their colours, on transparent background.

    Args:
        labels: `[H, W]`, indices in the table.
        table: the colours.
        only: index of the one structure that is opaque; the others are faint.
    """
    colours = np.array([(*label.colour, 255 if only in (None, i) else 70) for i, label in enumerate(table.labels)])
    colours[0] = 0  # the background is transparent
    return Image.fromarray(colours.astype(np.uint8)[labels])


def mark_differences(
    labels: Integer[np.ndarray, "H W"], other: Integer[np.ndarray, "H W"], table: LabelTable, only: int | None = None
) -> Image.Image:
    """Return the pixels where two maps differ, orange, on transparent background.

    Args:
        labels: `[H, W]`, indices in the table.
        other: `[H, W]`, indices in the table.
        table: the labels; those that do not count in comparisons are compared as background.
        only: index of the one structure whose extent is compared; None: all.
    """
    indices = np.zeros(len(table), dtype=np.int64)
    compared = table.judged_indices if only is None else [only]
    indices[compared] = compared
    differs = indices[labels] != indices[other]
    return Image.fromarray(np.where(differs[..., None], (217, 123, 41, 255), 0).astype(np.uint8))


def find_centre(labels: Integer[np.ndarray, "X Y Z"], index: int) -> Voxel | None:
    """Return the voxel of a structure that is nearest to its centre; None if no voxel has this label."""
    if not (mask := labels == index).any():
        return None
    places = np.argwhere(mask)
    nearest = places[np.square(places - places.mean(0)).sum(1).argmin()]
    return int(nearest[0]), int(nearest[1]), int(nearest[2])
