"""Arrays of images in .npz, .npy and IDX files, read without unpickling."""

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from hardmax.data.attributes import ATTRIBUTES, NAMES, read_attribute_bits, read_attribute_names
from hardmax.data.idx import GZIP, read_idx
from hardmax.data.image_reading import SUFFIXES
from hardmax.data.images import PARTS, UNKNOWN, Images, complete_splits
from hardmax.errors import DataError
from hardmax.files import write_output


def read_npz(path: Path, only: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file, all of them or only those in `only` that exist.

    Raises:
        DataError: the file cannot be read, is broken, or holds pickled objects.
    """
    arrays: dict[str, np.ndarray] = {}
    name = None
    try:
        with path.open("rb") as stream:  # opened here, since numpy leaves a broken file open
            zipfile.ZipFile(stream).close()  # its errors are clearer than numpy's
            stream.seek(0)
            members = np.load(stream, allow_pickle=False)
            for name in members.files:
                if only is None or name in only:
                    arrays[name] = members[name]
                    if not isinstance(arrays[name], np.ndarray):  # numpy returns members of unknown formats as bytes
                        raise ValueError("it is not in numpy's format")
    except _BROKEN as error:
        raise _explain_error(path, name, error) from error
    return arrays


def read_npy(path: Path) -> np.ndarray:
    """Read the array of an .npy file; raises as `read_npz` does."""
    try:
        return np.load(path, allow_pickle=False)
    except _BROKEN as error:
        raise _explain_error(path, None, error) from error


def write_npz(path: Path, **arrays: np.ndarray) -> None:
    """Write arrays under a temporary name, then rename it.

    Raises:
        DataError: the file cannot be written.
    """
    with write_output(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


_BROKEN = (ValueError, OSError, EOFError, KeyError, NotImplementedError, MemoryError, zipfile.BadZipFile, zlib.error)


def _explain_error(path: Path, member: str | None, error: Exception) -> DataError:
    what = f"{path}, array {member!r}," if member else f"{path}"
    if "Object arrays" in str(error):
        return DataError(
            f"{what} holds pickled Python objects, which are never loaded, since they can run any code; save plain "
            "numbers of one shape and dtype: np.savez(path, images=images.astype('uint8'))"
        )
    if isinstance(error, OSError) and error.strerror:
        return DataError(f"{path} cannot be read: {error.strerror}")
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ValueError) and "pickled data" in reason:  # numpy's guess for unknown formats
        reason = "it is not in numpy's format"
    return DataError(f"{what} is broken or not a numpy file: {reason}; get the file again")


# Names of arrays in an .npz file, by part: images, then labels.
_IMAGES = {
    "train": ("train", "x_train", "train_images", "images"),
    "validation": ("validation", "x_validation", "x_val", "validation_images", "val_images"),
    "test": ("test", "x_test", "test_images"),
}
_LABELS = {
    "train": ("train_labels", "y_train", "labels"),
    "validation": ("validation_labels", "y_validation", "y_val", "val_labels"),
    "test": ("test_labels", "y_test"),
}
_SHAPES = "[N, H, W], [N, H, W, C], [N, C, H, W] (C of 1 or 3) or [N, D] (D a square)"


def load_array(path: Path, *, seed: int = 0) -> Images:
    """Load images from a file of arrays.

    An .npz file has `images` (and `labels`), or `train` with `validation` and `test`, or `x_train` and `x_test` (and
    `y_train`, `y_test`); an .npy or IDX file has the images. Where validation or test are missing, each is a tenth
    of train. Attributes are `attributes` (or `train_attributes`, ...) with `attribute_names`.

    Args:
        path: the file; its format is read from its first bytes.
        seed: seed of the split.

    Returns:
        The images; their `source` reports the conversions.

    Raises:
        DataError: the file is broken, or holds no images of a supported shape and dtype.
    """
    arrays, images, notes = read_parts(path)
    columns = {"images": images}
    labels, left_out = _labels(path, arrays, images)
    if labels is not None:
        columns["labels"] = labels
    if names := read_attribute_names(path, arrays):
        counts = {part: len(pixels) for part, pixels in images.items()}
        columns["attributes"] = read_attribute_bits(path, arrays, counts, names)
    elif any(name in arrays for name in ATTRIBUTES["train"]):
        left_out.append(f"attributes left out: there is no array {NAMES!r}")
    columns = complete_splits(columns, seed=seed, origin=str(path))
    return Images(
        path.stem,
        "; ".join([f"{path}", *notes, *left_out]),
        **columns["images"],
        labels=columns.get("labels"),
        attributes=columns.get("attributes"),
        attribute_names=names,
        class_names=(),
    )


def read_parts(path: Path) -> tuple[dict[str, np.ndarray], dict[str, UInt8[Tensor, "N channels H W"]], list[str]]:
    """Read all arrays of a file, the images of each part that it has, and notes on their conversion.

    Raises:
        DataError: as `load_array`.
    """
    arrays = _read(path)
    images: dict[str, Tensor] = {}
    notes: dict[str, None] = {}
    for part in PARTS:
        if name := next((name for name in _IMAGES[part] if name in arrays), None):
            images[part], note = to_images(arrays[name], f"{path}, array {name!r}" if len(arrays) > 1 else str(path))
            notes[note] = None
    if "train" not in images:
        raise DataError(
            f"{path} has arrays {', '.join(arrays) or '(none)'}; expected 'images', or 'train' (with 'validation' and "
            "'test'), or 'x_train' and 'x_test'"
        )
    if len({pixels.shape[1:] for pixels in images.values()}) > 1:
        shapes = ", ".join(f"{part} {'x'.join(map(str, pixels.shape[1:]))}" for part, pixels in images.items())
        raise DataError(f"{path}: the parts have different sizes ({shapes}); save them in one")
    return arrays, images, list(notes)


def to_images(array: np.ndarray, name: str) -> tuple[UInt8[Tensor, "N channels H W"], str]:
    """Turn an array of images in any layout into uint8 `[N, channels, H, W]`, with a note on the conversion.

    Args:
        array: `[N, H, W]`, `[N, H, W, C]`, `[N, C, H, W]` or `[N, D]`; uint8, bool or floats in [0, 1].
        name: name of the array in error messages.

    Raises:
        DataError: an unsupported shape, dtype or range of values.
    """
    shape = array.shape
    note = f"{array.dtype} [{', '.join(map(str, shape))}]"
    side = math.isqrt(shape[1]) if len(shape) == 2 else 0
    if 0 in shape:
        raise DataError(f"{name} is empty: its shape is {list(shape)}")
    if len(shape) == 2 and side * side == shape[1]:
        array, note = array.reshape(-1, 1, side, side), f"{note} read as {side}x{side}"
    elif len(shape) == 3:
        array = array[:, None]
    elif len(shape) == 4 and shape[1] in (1, 3):
        note += " read as [N, C, H, W]"
    elif len(shape) == 4 and shape[3] in (1, 3):
        array, note = array.transpose(0, 3, 1, 2), note + " read as [N, H, W, C]"
    else:
        raise DataError(f"{name} has shape {list(shape)}, expected {_SHAPES}")
    if array.dtype == np.bool_:
        array, note = array * np.uint8(255), note + ", True as 255"
    elif array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= 1):  # also if NaN
            raise DataError(
                f"{name} has {array.dtype} values from {low:g} to {high:g}, expected 0 to 1; scale them, or save uint8"
            )
        array, note = np.round(array * 255).astype(np.uint8), note + ", 0..1 rounded to 256 grey values"
    elif array.dtype != np.uint8:
        raise DataError(
            f"{name} has dtype {array.dtype}, expected uint8, bool, or floats from 0 to 1; if its values are 0..255, "
            "save array.astype('uint8')"
        )
    return torch.from_numpy(np.ascontiguousarray(array)), note


def _read(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays; the array of an .npy or IDX file is called "images"."""
    try:
        with path.open("rb") as stream:
            start = stream.read(6)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if start == b"\x93NUMPY":
        return {"images": read_npy(path)}
    if start.startswith(b"PK") or path.suffix == ".npz":
        known = (*_IMAGES.values(), *_LABELS.values(), *ATTRIBUTES.values(), (NAMES,))
        arrays = read_npz(path, only=tuple(name for names in known for name in names))
        return arrays or read_npz(path)  # for the names in the error
    if start.startswith((GZIP, b"\0\0")):
        return {"images": read_idx(path, dimensions=3)}
    if path.suffix.lower() in SUFFIXES:
        raise DataError(f"{path} is one picture; give the folder that holds all of them")
    raise DataError(f"{path} is no .npz, .npy or IDX file: it starts with {start!r}; or give a folder of pictures")


def _labels(
    path: Path, arrays: dict[str, np.ndarray], images: dict[str, Tensor]
) -> tuple[dict[str, Int64[Tensor, "_"]] | None, list[str]]:
    """Find the labels of each part, whole numbers `[N]` or `[N, 1]`; other labels are left out, with a note."""
    labels: dict[str, Tensor] = {}
    for part, pixels in images.items():
        name = next((name for name in _LABELS[part] if name in arrays), None)
        if name is None:
            return None, ["labels left out: not all parts have them"] if labels else []
        values = arrays[name]
        if values.dtype.kind not in "iu" or values.ndim not in (1, 2) or values[:1].size != 1:
            return None, [f"{name} left out: {values.dtype} {list(values.shape)}, not whole numbers [N]"]
        if len(values) != len(pixels):
            raise DataError(f"{path}: {name} has {len(values):,} labels for {len(pixels):,} images")
        labels[part] = torch.from_numpy(values.reshape(-1).astype(np.int64))
        if labels[part].min() < UNKNOWN:
            raise DataError(f"{path}: {name} has a label {labels[part].min()}, expected 0, 1, ..., or -1 for not known")
    return labels, []
