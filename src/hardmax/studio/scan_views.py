"""What the page of scans shows, without the page: sources of a scan, three slices, and the table of structures."""

import threading
from dataclasses import dataclass
from functools import lru_cache
from math import isnan, nan
from pathlib import Path
from statistics import fmean

import numpy as np
from jaxtyping import Integer
from markupsafe import Markup
from PIL import Image

from hardmax.applications.segmentation.results.slices import (
    PLANES,
    DisplayScan,
    Plane,
    Voxel,
    colour_labels,
    cut_slice,
    find_centre,
    load_display_scan,
    load_other_labels,
    locate_in_slice,
    mark_differences,
)
from hardmax.applications.segmentation.volumes.agreement import dice, measure_volumes
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.drawing.images import encode_data_uri
from hardmax.errors import DataError
from hardmax.studio.work import CheckCancelled

_CROSS = "#ffd166"
_MOST_LOADED = 2  # scans in memory: with two label maps, 48 MB for 256^3 voxels
_loading = threading.Lock()


@dataclass(frozen=True)
class ScanFiles:
    """The files of a scan that is shown.

    Attributes:
        scan: the scan; None if it may not be read or does not exist.
        labels: its label map.
        other: the label map to compare with, if there is one.
    """

    scan: Path | None
    labels: Path
    other: Path | None = None


@dataclass(frozen=True, eq=False)
class LoadedScan:
    """A scan in memory.

    Attributes:
        display: brightness and labels.
        other: `[X, Y, Z]`, the other label map.
        volumes: ml of each label.
        other_volumes: ml of each label of the other map.
        overlap: Dice of each label.
    """

    display: DisplayScan
    other: Integer[np.ndarray, "X Y Z"] | None
    volumes: tuple[float, ...]
    other_volumes: tuple[float, ...] = ()
    overlap: tuple[float, ...] = ()

    @property
    def mean_overlap(self) -> float:
        """Mean Dice of the structures that count in comparisons and that at least one map has."""
        known = [self.overlap[index] for index in STRUCTURES.judged_indices if not isnan(self.overlap[index])]
        return fmean(known) if known else nan

    @property
    def shape(self) -> Voxel:
        """Number of voxels to the right, the front and the top."""
        return self.display.grid.shape


@dataclass(frozen=True)
class PlaneView:
    """A slice of one plane, for the element `<grid-view>`.

    Attributes:
        rows: number of rows.
        columns: number of columns.
        image: the scan, as data URI; empty without a scan.
        layer: the labels, as data URI.
        drawing: the cross at the voxel, as SVG.
        cursor: row and column of the voxel.
    """

    rows: int
    columns: int
    image: str
    layer: str
    drawing: str
    cursor: tuple[int, int]


def load_scan(check: CheckCancelled, files: ScanFiles) -> LoadedScan:
    """Return a scan; the last two stay in memory until their files change.

    Raises:
        DataError: a file is missing or broken.
    """
    with _loading:  # two pages that open a scan at once read it once
        check()
        stamps = tuple(_read_stamp(path) for path in (files.scan, files.labels, files.other))
        return _load(files, stamps)


def _read_stamp(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; was it deleted or renamed?") from error
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=_MOST_LOADED)
def _load(files: ScanFiles, stamps: tuple[tuple[int, int] | None, ...]) -> LoadedScan:
    display, count = load_display_scan(files.scan, files.labels), len(STRUCTURES)
    volumes = tuple((measure_volumes(display.labels, display.grid, count) / 1000).tolist())
    if files.other is None:
        return LoadedScan(display, None, volumes)
    other = load_other_labels(files.other, display)
    overlap = tuple(dice(display.labels, other, count).tolist())
    return LoadedScan(
        display, other, volumes, tuple((measure_volumes(other, display.grid, count) / 1000).tolist()), overlap
    )


def choose_voxel(scan: LoadedScan, voxel: Voxel | None, structure: int | None) -> Voxel:
    """Return a voxel of the scan: the given one, or the centre of a structure, of the labels or of the scan."""
    if voxel is not None:
        x, y, z = (min(max(at, 0), side - 1) for at, side in zip(voxel, scan.shape, strict=True))
        return x, y, z
    centre = None if structure is None else find_centre(scan.display.labels, structure)
    if centre is not None:
        return centre
    x, y, z = (side // 2 for side in scan.shape)
    return x, y, z


def draw_planes(
    check: CheckCancelled, scan: LoadedScan, voxel: Voxel, show: str, structure: int | None
) -> list[PlaneView]:
    """Draw the three slices through a voxel.

    Args:
        check: raises an error once newer work has replaced this one.
        scan: the scan.
        voxel: the voxel.
        show: "labels", "other" or "differences".
        structure: index of the structure that is marked.
    """
    views = []
    for plane in PLANES:
        check()
        views.append(_draw_plane(scan, plane, voxel, show, structure))
    return views


def _draw_plane(scan: LoadedScan, plane: Plane, voxel: Voxel, show: str, structure: int | None) -> PlaneView:
    index = voxel[plane.axis]
    labels = cut_slice(scan.display.labels, plane, index)
    other = labels if scan.other is None else cut_slice(scan.other, plane, index)
    if show == "differences":
        layer = mark_differences(labels, other, STRUCTURES, structure)
    else:
        layer = colour_labels(other if show == "other" else labels, STRUCTURES, structure)
    grey = scan.display.grey
    image = ""
    if grey is not None:
        image = encode_data_uri(Image.fromarray(np.ascontiguousarray(cut_slice(grey, plane, index))), optimize=False)
    row, column = locate_in_slice(plane, voxel, scan.shape)
    rows, columns = labels.shape
    cross = Markup(
        '<path d="M0 {0}H{3}M{2} 0V{1}" stroke="{4}" stroke-opacity=".75" vector-effect="non-scaling-stroke"/>'
    ).format(row + 0.5, rows, column + 0.5, columns, _CROSS)
    return PlaneView(rows, columns, image, encode_data_uri(layer, optimize=False), str(cross), (row, column))


def describe_voxel(scan: LoadedScan, voxel: Voxel) -> str:
    """Return where a voxel is, and its structure."""
    x, y, z = scan.display.grid.to_world(np.array([voxel], dtype=np.float64))[0]
    name = STRUCTURES.names[scan.display.labels[voxel]].replace("_", " ")
    other = "" if scan.other is None else f"; in the other map: {STRUCTURES.names[scan.other[voxel]].replace('_', ' ')}"
    return (
        f"{abs(x):.1f} mm {'right' if x >= 0 else 'left'}, {abs(y):.1f} mm {'front' if y >= 0 else 'back'}, "
        f"{abs(z):.1f} mm {'up' if z >= 0 else 'down'}: {name}{other}"
    )


def write_code(files: ScanFiles) -> str:
    """Return a program that reads the scan, and prints the volumes and the overlap."""
    scan = "None" if files.scan is None else f"Path({str(files.scan)!r})"
    lines = [
        "from pathlib import Path",
        "from hardmax.applications.segmentation.results.slices import *",
        "from hardmax.applications.segmentation.volumes.agreement import dice, measure_volumes",
        "from hardmax.applications.segmentation.volumes.labels import STRUCTURES",
        "",
        f"scan = load_display_scan({scan}, Path({str(files.labels)!r}))",
        "ml = measure_volumes(scan.labels, scan.grid, len(STRUCTURES)) / 1000",
        "for name, size in zip(STRUCTURES.names[1:], ml[1:]):",
        '    print(f"{name:24} {size:8.2f} ml")',
        "axial = cut_slice(scan.labels, PLANES[2], scan.grid.shape[2] // 2)  # [H, W]",
    ]
    if files.other is not None:
        lines += [
            f"other = load_other_labels(Path({str(files.other)!r}), scan)",
            "overlap = dice(scan.labels, other, len(STRUCTURES))",
            "print(dict(zip(STRUCTURES.names, overlap.round(3).tolist())))",
        ]
    return "\n".join(lines) + "\n"
