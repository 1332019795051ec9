"""Write label maps, masks and posteriors as NIfTI files. No torch here.

Each file has the voxels, the axes and the header of its scan.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer

from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume, import_nibabel
from hardmax.errors import ShapeError
from hardmax.files import write_output

_MAKER = b"hardmax segment"  # in the header of each written file
_LEVELS = 255  # a probability is written as a whole number of 255ths


def write_labels(
    path: Path, labels: Integer[np.ndarray, "X Y Z"], scan: Volume, table: LabelTable = STRUCTURES
) -> None:
    """Write a label map as .nii.gz, in the geometry and with the header of its scan.

    Args:
        path: path of the file.
        labels: `[X, Y, Z]`, indices in the table, in the scan's voxels.
        scan: the segmented scan.
        table: the labels; it gives the numbers that are written.

    Raises:
        ShapeError: the labels are not of the scan's shape.
        DataError: the file cannot be written.
    """
    _check_shape(labels, scan)
    _write_integers(path, table.to_numbers(labels), scan, top=int(table.numbers.max()), name="labels")


def write_mask(path: Path, mask: Bool[np.ndarray, "X Y Z"], scan: Volume) -> None:
    """Write the mask of the brain as .nii.gz, 1 inside and 0 outside, in the geometry and with the header of its scan.

    Raises:
        ShapeError: the mask is not of the scan's shape.
        DataError: the file cannot be written.
    """
    _check_shape(mask, scan)
    _write_integers(path, mask.astype(np.uint8), scan, top=1, name="brain mask")


def write_posterior(path: Path, posterior: Float[np.ndarray, "M X Y Z"], scan: Volume) -> None:
    """Write the probabilities of all labels as one 4-D .nii.gz, in the geometry of its scan.

    A probability is stored as one byte, in 255ths (`scl_slope` = 1/255; NIfTI has no float16): the error is at most
    0.002, and the file has a quarter of the size of floats. Frame m belongs to label m of the table.

    Args:
        path: path of the file.
        posterior: `[M, X, Y, Z]` in [0, 1], in the scan's voxels.
        scan: the segmented scan.

    Raises:
        ShapeError: the posterior is not of the scan's shape.
        DataError: the file cannot be written.
    """
    if posterior.ndim != 4:
        raise ShapeError(f"a posterior has the shape [M, X, Y, Z], got {list(posterior.shape)}")
    _check_shape(posterior, scan)
    stored = np.empty((*scan.grid.shape, len(posterior)), dtype=np.uint8, order="F")
    for label, probability in enumerate(posterior):
        stored[..., label] = np.round(np.clip(probability, 0, 1) * _LEVELS)
    image = _make_image(stored, scan)
    image.header.set_data_dtype(np.uint8)
    image.header.set_slope_inter(1 / _LEVELS, 0)  # nibabel writes the slope, and the values unchanged
    image.header["cal_min"], image.header["cal_max"] = 0, 1
    image.header.set_intent("none", name="posterior")
    _write_image(image, path)


def is_made_by_hardmax(path: Path) -> bool:
    """Return whether hardmax wrote a file, which may then be overwritten."""
    try:
        return bytes(import_nibabel().load(path).header["descrip"]).rstrip(b"\0") == _MAKER
    except Exception:  # a file that cannot be read is not ours
        return False


def _write_integers(path: Path, numbers: Integer[np.ndarray, "X Y Z"], scan: Volume, *, top: int, name: str) -> None:
    image = _make_image(numbers, scan)
    image.header.set_data_dtype(numbers.dtype)
    image.header.set_slope_inter(1, 0)
    image.header["cal_min"], image.header["cal_max"] = 0, top
    image.header.set_intent("label", name=name)
    _write_image(image, path)


def _make_image(values: np.ndarray, scan: Volume) -> Any:
    """Return a NIfTI image of values in the scan's geometry."""
    nibabel = import_nibabel()
    kind = nibabel.Nifti2Image if isinstance(scan.header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    if not isinstance(scan.header, nibabel.Nifti1Header):  # base class of Nifti2Header
        image = kind(values, scan.grid.affine)
        image.header.set_xyzt_units("mm")
        image.header["descrip"] = _MAKER
        image.set_qform(scan.grid.affine, code=1)
        image.set_sform(scan.grid.affine, code=1)
        return image
    header = scan.header.copy()
    header.extensions.clear()  # they describe the scan's intensities, its acquisition and, at times, the person
    header["descrip"], header["aux_file"] = _MAKER, b""
    return kind(values, scan.grid.affine, header)


def _write_image(image: Any, path: Path) -> None:
    # Neither name nor time in the gzip header, so that the same result gives the same bytes.
    with (
        write_output(path, "folder") as temporary,
        temporary.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed,
    ):
        image.to_stream(packed)


def _check_shape(values: np.ndarray, scan: Volume) -> None:
    if values.shape[-3:] != scan.grid.shape:
        raise ShapeError(
            f"expected values in the scan's own voxels, {list(scan.grid.shape)}, got {list(values.shape[-3:])}; "
            "resample them to the scan's grid first"
        )
