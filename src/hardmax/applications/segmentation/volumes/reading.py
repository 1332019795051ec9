"""Read scans and label maps from NIfTI and MGH files. No torch here."""

import gzip
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Integer, Shaped
from scipy import ndimage

from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.data.memory import check_memory
from hardmax.errors import DataError, HardmaxError, MissingExtraError
from hardmax.files import report_read_error

SUFFIXES = (".nii.gz", ".nii", ".mgz", ".mgh")


@dataclass(frozen=True, eq=False)
class Volume:
    """A scan: intensities of voxels, and where the voxels are.

    Attributes:
        values: `[X, Y, Z]`, intensities, finite.
        grid: position of the voxels in the world.
        header: header of the file, copied to the files that are written about it; None gives a plain one.
        path: path of the file.
        notes: sentences about errors in the file.
    """

    values: Float32[np.ndarray, "X Y Z"]
    grid: Grid
    header: Any = None
    path: Path | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LabelMap:
    """A label map: the label of each voxel.

    Attributes:
        labels: `[X, Y, Z]`, indices in a table of labels.
        grid: position of the voxels in the world.
        path: path of the file.
        notes: sentences about how it was read.
    """

    labels: Integer[np.ndarray, "X Y Z"]
    grid: Grid
    path: Path | None = None
    notes: tuple[str, ...] = ()


def strip_suffix(path: Path) -> str:
    """Return the name of a scan's file without its suffix; .nii.gz counts as one suffix.

    Raises:
        DataError: the suffix is not that of a scan.
    """
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix) and len(path.name) > len(suffix):
            return path.name[: -len(suffix)]
    raise DataError(f"{path} does not have the name of a scan: expected a file that ends in {', '.join(SUFFIXES)}")


def import_nibabel() -> Any:
    """Import nibabel, which reads and writes the files, and return the module.

    Raises:
        MissingExtraError: nibabel is not installed.
    """
    try:
        import nibabel
    except ImportError as error:
        raise MissingExtraError("nibabel, which reads scans, is missing: pip install 'hardmax[imaging]'") from error
    return nibabel


_MOST_BESIDES = 2**24  # bytes of header, extensions and notes that a file may have in addition to its volume
_TOLERANCE = 1.0  # mm; the two transforms of a NIfTI header disagree if their corners are further apart


def read_volume(path: Path) -> Volume:
    """Read a scan.

    Voxels that are NaN or infinite become 0, or the smallest value if some values are negative. For a NIfTI file, the
    sform is used, or else the qform, as in nibabel (the two transforms from voxels to the world in its header).

    Args:
        path: a file .nii, .nii.gz, .mgh or .mgz with one volume of any axes, voxel size and dtype.

    Returns:
        Its values in float32, scaled as in its header.

    Raises:
        DataError: the file is missing, broken or not a scan, has several volumes, or is empty.

    Example:
        >>> import nibabel, numpy as np, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "scan.nii.gz"
        >>> scan = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
        >>> nibabel.save(nibabel.Nifti1Image(scan, np.diag([-1.0, 1.0, 2.0, 1.0])), path)
        >>> volume = read_volume(path)
        >>> volume.values.shape, volume.grid.axes, volume.grid.voxel_volume
        ((3, 4, 5), 'LAS', 2.0)
    """
    values, grid, header, notes = _read_file(path)
    with np.errstate(over="ignore"):  # values too large for float32 become infinite, and are handled as such
        values = values.astype(np.float32)
    finite = np.isfinite(values)
    if not (all_finite := bool(finite.all())):
        if not finite.any():
            raise DataError(f"{path} has no finite value: all of its voxels are NaN or infinite")
        low = min(0.0, float(values[finite].min()))
        count = int(values.size - finite.sum())
        notes.append(f"{count:,} voxels ({count / values.size:.1%}) are NaN or infinite: read as {low:g}")
        values[~finite] = low
    if values.min() == values.max():
        raise DataError(
            f"{path} is empty: {'all of its voxels' if all_finite else 'its finite voxels'} are {values.flat[0]:g}, "
            "expected a scan; look at the file in a viewer"
        )
    return Volume(values, grid, header, path, tuple(notes))


def read_numbers(path: Path) -> tuple[Shaped[np.ndarray, "X Y Z"], Grid, list[str]]:
    """Read the numbers of a label map, whatever they mean; return them with their grid, and notes on the file's errors.

    Raises:
        DataError: as for `read_volume`, or the values are not whole numbers, or all of them are 0.
    """
    values, grid, _, notes = _read_file(path)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all() or (values != np.round(values)).any():
            raise DataError(
                f"{path} is not a label map: its values, from {np.nanmin(values):g} to {np.nanmax(values):g}, are not "
                "all whole numbers; give a map of labels, not a scan or a probability"
            )
        values = values.astype(np.int32)
    if not values.any():
        raise DataError(f"{path} is empty: all of its voxels are 0, expected a map of labels")
    return values, grid, notes


_MOST_LABELS = 300  # different values; parcellations of the cortex have about 200
_LEAST_CONSTANT = 0.2  # label maps: .50 at 1 mm, .24 at 2 mm; scans with 256 values: .001, with 32 values: at most .11


def check_is_scan(volume: Volume) -> None:
    """Check that a volume is a scan, not a label map or a mask.

    A label map has few different values, all of them whole numbers, in regions: many voxels outside of the background
    (the most frequent value) have the value of all their six neighbours. In a scan, noise makes such voxels rare.

    Raises:
        DataError: it is a label map.
    """
    values = volume.values
    # A million voxels in a block in the middle decide most cases at once.
    x, y, z = (slice(max(side // 2 - 50, 0), side // 2 + 50) for side in values.shape)
    for part in (values[x, y, z], values):
        different, counts = np.unique(part, return_counts=True)
        if len(different) > _MOST_LABELS or (different != np.round(different)).any():
            return
    inside = values != different[counts.argmax()]
    cross = ndimage.generate_binary_structure(3, 1)
    highest, lowest = (rank(values, footprint=cross) for rank in (ndimage.maximum_filter, ndimage.minimum_filter))
    constant = float((inside & (highest == lowest)).sum() / inside.sum())
    if constant > _LEAST_CONSTANT:
        raise DataError(
            f"{volume.path} is a label map or a mask, not a scan: it has {len(different)} different values, all whole "
            f"numbers, and {constant:.0%} of its voxels are as all their neighbours; give the scan itself, and a true "
            "label map with --compare"
        )


def read_labels(path: Path, table: LabelTable = STRUCTURES) -> LabelMap:
    """Read a label map, in the numbers of the table or of FreeSurfer.

    Args:
        path: a file .nii, .nii.gz, .mgh or .mgz of integers.
        table: the labels.

    Returns:
        The label map, with indices in the table; see `LabelTable.to_indices`.

    Raises:
        DataError: as for `read_volume`, or the values are not whole numbers, or none of them is known.

    Example:
        >>> import nibabel, numpy as np, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "map.nii.gz"
        >>> nibabel.save(nibabel.Nifti1Image(np.array([[[0, 2, 41]]], np.int16), np.eye(4)), path)
        >>> read_labels(path).labels.tolist()
        [[[0, 1, 1]]]
    """
    values, grid, notes = read_numbers(path)
    try:
        labels, messages = table.to_indices(values)
    except DataError as error:
        raise DataError(f"{path} cannot be read as a label map: {error}") from error
    return LabelMap(labels, grid, path, tuple(notes + messages))


def _read_file(path: Path) -> tuple[Shaped[np.ndarray, "X Y Z"], Grid, Any, list[str]]:
    """Read the single volume of a file, its grid, its header, and notes on its errors."""
    nibabel = import_nibabel()
    strip_suffix(path)
    with report_read_error(path):
        is_file, is_folder = path.is_file(), path.is_dir()
    if not is_file:
        raise DataError(f"{path} {'is a folder, expected a file' if is_folder else 'does not exist'}")
    try:
        with nibabel.imageglobals.LoggingOutputSuppressor():  # its repairs of a header are checked below
            # nibabel leaves an .mgh file open.
            plain = path.name.lower().endswith(".mgh")
            image = nibabel.MGHImage.from_bytes(path.read_bytes()) if plain else nibabel.load(path)
        _check_kind(path, image)
        grid, notes = _read_geometry(path, image)
        values = np.asanyarray(image.dataobj).reshape(grid.shape)
        if path.name.lower().endswith(("gz", "mgz")):
            _check_checksum(path, values.nbytes)
    except HardmaxError:
        raise
    except Exception as error:  # nibabel raises nearly anything on broken files
        raise DataError(f"{path} cannot be read as a scan: {_describe_error(error)}; get the file again") from error
    return values, grid, image.header, notes


def _check_checksum(path: Path, size: int) -> None:
    """Read a compressed file to its end, so that its checksum is verified; nibabel stops before.

    Args:
        path: path of the file.
        size: number of bytes of its values, at most; the file may be a little longer.
    """
    with gzip.open(path) as file:
        count = 0
        while piece := file.read(2**22):
            count += len(piece)
            if count > size + _MOST_BESIDES:
                raise ValueError("it goes on after its volume")


def _check_kind(path: Path, image: Any) -> None:
    """Check the shape and dtype in the header, before any value is read."""
    shape, kind = tuple(image.shape), image.get_data_dtype()
    if min(shape, default=1) < 1:  # an MGH header has signed numbers
        raise DataError(f"{path} is empty: its shape is {shape}")
    frames = int(np.prod(shape[3:], dtype=np.int64))
    if frames > 1:
        raise DataError(
            f"{path} has {frames} volumes (its shape is {shape}), expected one; take one out first, with nibabel: "
            "nibabel.save(nibabel.four_to_three(nibabel.load(path))[0], 'one.nii.gz')"
        )
    if len(shape) < 3:
        raise DataError(f"{path} is an image of shape {shape}, expected a volume with three axes")
    if kind.names or kind.kind not in "iuf":
        raise DataError(f"{path} holds {'colours' if kind.names else kind}, expected one number for each voxel")
    # The values as they are stored, scaled to float64 if the header says so, and as float32.
    is_scaled = (getattr(image.dataobj, "slope", 1), getattr(image.dataobj, "inter", 0)) != (1, 0)
    bytes_per_voxel = kind.itemsize + 4 + (8 if is_scaled else 0)
    check_memory(math.prod(map(int, shape)) * bytes_per_voxel, path.stat().st_size, str(path))


def _read_geometry(path: Path, image: Any) -> tuple[Grid, list[str]]:
    """Return the grid of the voxels, and notes on doubtful headers."""
    x, y, z = (int(side) for side in image.shape[:3])
    shape, notes, grids = (x, y, z), [], {}
    if hasattr(image.header, "get_sform"):
        for name, (affine, code) in {
            "sform": image.header.get_sform(coded=True),
            "qform": image.header.get_qform(coded=True),
        }.items():
            if code:
                try:
                    grids[name] = Grid(shape, affine)
                except HardmaxError as error:
                    notes.append(f"the {name} of the header cannot be used: {error}")
        if not grids:
            notes.append(
                "the header does not say where left and right are: the first axis is assumed to run to the left, as "
                "in nibabel; sides may be swapped"
            )
    if grids:
        # As in nibabel: the sform, if there is one.
        grid = next(iter(grids.values()))
    else:
        try:
            grid = Grid(shape, image.affine)
        except HardmaxError as error:
            raise DataError(f"{path} does not say where its voxels are: {error}; repair the header") from error
    if len(grids) == 2:
        apart = float(np.linalg.norm(grids["sform"].corners() - grids["qform"].corners(), axis=1).max())
        if apart > _TOLERANCE:
            notes.append(
                f"the sform and the qform of the header disagree by {apart:.0f} mm: the sform is used; if the result "
                "is not on the brain in a viewer, repair the header"
            )
    if grid.spacing.min() < 0.1 or grid.spacing.max() > 12:
        sides = " x ".join(f"{side:g}" for side in grid.spacing)
        notes.append(f"voxels of {sides} mm are strange for a scan of a head: is the header in mm?")
    return grid, notes


def _describe_error(error: Exception) -> str:
    if isinstance(error, gzip.BadGzipFile) or "not a gzip file" in str(error):
        return "it is not compressed by gzip, as its name says"
    if isinstance(error, EOFError) or re.search("Expected .* bytes", str(error)):
        return "it breaks off before its end"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
