"""Images from files of arrays: .npz, .npy and IDX."""

import math
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from hardmax.data.attributes import ATTRIBUTES, NAMES, check_names, read_attribute_bits, read_names
from hardmax.data.idx import GZIP, read_idx
from hardmax.data.image_reading import SUFFIXES
from hardmax.data.images import BITS_NOTE, PARTS, UNKNOWN, Images, complete_splits, expand_bits
from hardmax.data.memory import IMAGE_OVERHEAD, check_memory
from hardmax.data.npz import list_arrays, read_npy, read_npz
from hardmax.errors import DataError

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
_CLASSES = "class_names"
_SHAPES = "[N, H, W], [N, H, W, C], [N, C, H, W] (C of 1 or 3) or [N, D] (D a square)"


def load_array(path: Path, *, seed: int = 0) -> Images:
    """Load images from a file of arrays.

    An .npz file has the arrays `images` (and `labels`), or `train` with `validation` and `test`, or `x_train` and
    `x_test` (and `y_train`, `y_test`). If validation or test is missing, a tenth of train takes its place. Names of the
    classes are in `class_names`. Attributes are in `attributes` (or `train_attributes`, ...), their names in
    `attribute_names`.

    An .npy file has only images. An IDX file of images, such as `train-images-idx3-ubyte`, is read with the labels
    beside it, `train-labels-idx1-ubyte`, and, if its name has "train", with the test images beside it: those with
    "t10k" or "test" in that place. Each of these files may be gzipped.

    Args:
        path: the file; its first bytes determine the format.
        seed: seed of the split.

    Returns:
        The images; their `source` reports the conversions.

    Raises:
        DataError: the file is broken, holds no images of a supported shape and dtype, or takes too much memory.
    """
    arrays = read_arrays(path)
    beside = _read_idx_files_beside(path, arrays) if _is_idx(_read_start(path)) else []
    images, notes = convert_parts(path, arrays)
    notes += beside
    columns = {"images": images}
    labels, left_out = _find_labels(path, arrays, images)
    names = check_names(read_names(path, arrays, NAMES), f"{path}, array {NAMES!r}")
    classes = read_names(path, arrays, _CLASSES)
    if labels is not None:
        columns["labels"] = labels
        if classes and (largest := max(int(values.max()) for values in labels.values())) >= len(classes):
            raise DataError(f"{path}: a label is {largest}, but {_CLASSES} has {len(classes)} names, for 0, 1, ...")
    elif classes:
        left_out.append(f"{_CLASSES} left out: there are no labels")
    count = sum(map(len, images.values()))
    check_memory((IMAGE_OVERHEAD + _ATTRIBUTE_BYTES * len(names)) * count, path.stat().st_size, str(path))
    if names:
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
        class_names=classes if labels is not None else (),
    )


_ATTRIBUTE_BYTES = 32  # that an attribute of an image takes, with all copies: integers of 8 bytes, and Python's lists


def convert_parts(
    path: Path, arrays: dict[str, np.ndarray]
) -> tuple[dict[str, UInt8[Tensor, "N channels H W"]], list[str]]:
    """Return the images of each part that a file has, and notes on their conversion; they are removed from `arrays`.

    Args:
        path: path of the file, for error messages.
        arrays: the arrays of the file.

    Raises:
        DataError: there are no images, or they have an unsupported shape, dtype or range of values.
    """
    single, names = len(arrays) == 1, ", ".join(arrays)
    images: dict[str, Tensor] = {}
    notes: dict[str, None] = {}
    kinds: set[str] = set()
    for part in PARTS:
        if name := next((name for name in _IMAGES[part] if name in arrays), None):
            array = arrays.pop(name)  # so that it does not stay in memory next to its conversion
            kinds.add(array.dtype.kind)
            images[part], note = to_images(array, str(path) if single else f"{path}, array {name!r}")
            notes[note] = None
    if "train" not in images:
        raise DataError(
            f"{path} has arrays {names or '(none)'}; expected 'images', or 'train' (with 'validation' and "
            "'test'), or 'x_train' and 'x_test'"
        )
    if len({pixels.shape[1:] for pixels in images.values()}) > 1:
        shapes = ", ".join(f"{part} {'x'.join(map(str, pixels.shape[1:]))}" for part, pixels in images.items())
        raise DataError(f"{path}: the parts have different sizes ({shapes}); save them in one")
    if kinds <= {"i", "u"} and expand_bits(*images.values()):
        notes[BITS_NOTE] = None
    return images, list(notes)


def to_images(array: np.ndarray, name: str) -> tuple[UInt8[Tensor, "N channels H W"], str]:
    """Convert an array of images in any layout to uint8 `[N, channels, H, W]`; also return a note on the conversion.

    Args:
        array: `[N, H, W]`, `[N, H, W, C]`, `[N, C, H, W]` or `[N, D]`; uint8, bool, floats in [0, 1], or other whole
            numbers if they are only 0 and 1, which are returned as 0 and 1.
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
    if array.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(array)), note
    pixels = np.empty(array.shape, np.uint8)
    if array.dtype == np.bool_:
        np.not_equal(array.view(np.uint8), 0, out=pixels.view(np.bool_))
        pixels *= 255
        return torch.from_numpy(pixels), note + ", True as 255"
    if array.dtype.kind not in "fiu":
        raise DataError(f"{name} has dtype {array.dtype}, expected uint8, bool, or floats from 0 to 1")
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 1):  # also if NaN
        if array.dtype.kind == "f":
            raise DataError(
                f"{name} has {array.dtype} values from {low:g} to {high:g}, expected 0 to 1; scale them, or save uint8"
            )
        raise DataError(
            f"{name} has dtype {array.dtype}, expected uint8, bool, floats from 0 to 1, or only the numbers 0 and 1; "
            f"its values go from {low} to {high}: if they are grey values 0..255, save array.astype('uint8')"
        )
    if array.dtype.kind == "f":
        for batch, values in zip(pixels, array, strict=True):  # one by one, since floats take several times the memory
            batch[...] = np.round(values * 255)
        return torch.from_numpy(pixels), note + ", 0..1 rounded to 256 grey values"
    pixels[...] = array
    return torch.from_numpy(pixels), note


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a file; the array of an .npy or IDX file is called "images".

    Raises:
        DataError: the file is broken, of another format, or takes too much memory.
    """
    start = _read_start(path)
    if start == b"\x93NUMPY":
        return {"images": read_npy(path)}
    if start.startswith(b"PK") or path.suffix == ".npz":
        known = (*_IMAGES.values(), *_LABELS.values(), *ATTRIBUTES.values(), (NAMES, _CLASSES))
        arrays = read_npz(path, only=tuple(name for names in known for name in names))
        return arrays or {name: np.empty(0) for name in list_arrays(path)}  # for the names in the error
    if _is_idx(start):
        return {"images": read_idx(path, dimensions=3)}
    if path.suffix.lower() in SUFFIXES:
        raise DataError(f"{path} is one image; give the folder that holds all of them")
    raise DataError(f"{path} is not an .npz, .npy or IDX file: it starts with {start!r}; or give a folder of images")


def _read_start(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(6)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_idx(start: bytes) -> bool:
    return start.startswith((GZIP, b"\0\0"))


def _read_idx_files_beside(path: Path, arrays: dict[str, np.ndarray]) -> list[str]:
    """Read the files that belong to an IDX file of images: labels, test images, and their labels; return notes."""
    notes: list[str] = []
    test = _find_beside(path, "train", ("t10k", "test"))
    if test is not None:
        arrays["test"] = read_idx(test, dimensions=3)
        notes.append(f"test images from {test.name}")
    for name, images in (("labels", path), ("test_labels", test)):
        if images is not None and (labels := _find_beside(images, "images", ("labels",), ("idx3", "idx1"))) is not None:
            arrays[name] = read_idx(labels, dimensions=1)
            notes.append(f"labels from {labels.name}")
    return notes


def _find_beside(path: Path, word: str, replacements: tuple[str, ...], then: tuple[str, str] = ("", "")) -> Path | None:
    """Return the file with another word in its name, gzipped or not; None if there is none.

    Args:
        path: path of the file.
        word: a word in its name.
        replacements: what the other file may have in its place.
        then: a word that may follow, and its replacement.
    """
    before, _, after = path.name.rpartition(word)
    if word not in path.name:
        return None
    for replacement in replacements:
        name = (before + replacement + after.replace(*then)).removesuffix(".gz")
        for suffix in (".gz", "") if path.suffix == ".gz" else ("", ".gz"):
            if (other := path.with_name(name + suffix)).is_file():
                return other
    return None


def _find_labels(
    path: Path, arrays: dict[str, np.ndarray], images: dict[str, Tensor]
) -> tuple[dict[str, Int64[Tensor, "_"]] | None, list[str]]:
    """Return the labels of each part, integers `[N]` or `[N, 1]`, or None; and notes on labels that are left out."""
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
            raise DataError(f"{path}: {name} has a label {labels[part].min()}, expected 0, 1, ..., or -1 for unknown")
    return labels, []
