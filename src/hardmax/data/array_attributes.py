"""The attributes in a file of arrays: `attributes` (or one array for each part) with `attribute_names`."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.attributes import check_names
from hardmax.errors import DataError

NAMES = "attribute_names"
ATTRIBUTES = {
    "train": ("train_attributes", "attributes"),
    "validation": ("validation_attributes", "val_attributes"),
    "test": ("test_attributes",),
}


def attribute_names(path: Path, arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return what the attributes are called; empty if the file does not say, and so has none.

    Raises:
        DataError: these are no names.
    """
    if NAMES not in arrays:
        return ()
    names = arrays[NAMES]
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise DataError(f"{path}: {NAMES} is {names.dtype} {list(names.shape)}, expected texts [A], one per attribute")
    texts = np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names
    return check_names(texts.tolist(), f"{path}, array {NAMES!r}")


def attribute_bits(
    path: Path, arrays: dict[str, np.ndarray], counts: dict[str, int], names: tuple[str, ...]
) -> dict[str, Int64[Tensor, "_ A"]]:
    """Return the attributes of each part: 0, 1, and -1 for what is not known.

    In the file they are the same; or -1 for no and 1 for yes, as CelebA has them, if there is no 0 at all.

    Args:
        path: of the file.
        arrays: what is in it.
        counts: how many images each part has.
        names: of the attributes.

    Raises:
        DataError: a part has none, or not one for each image, or other values.
    """
    bits: dict[str, np.ndarray] = {}
    for part, count in counts.items():
        name = next((name for name in ATTRIBUTES[part] if name in arrays), None)
        if name is None:
            wanted = " or ".join(map(repr, ATTRIBUTES[part]))
            raise DataError(f"{path} has {NAMES}, but no attributes for {part}: expected an array {wanted}")
        values = arrays[name]
        if values.shape != (count, len(names)):
            raise DataError(
                f"{path}: {name} is {list(values.shape)}, expected [{count}, {len(names)}]: a row for each image, a "
                f"column for each of {', '.join(names)}"
            )
        if values.dtype.kind not in "biuf" or not np.isin(values, (-1, 0, 1)).all():
            raise DataError(f"{path}: {name} has other values than 0 and 1 (or -1 for what is not known)")
        bits[part] = values.astype(np.int64)
    if not any((values == 0).any() for values in bits.values()):
        bits = {part: np.maximum(values, 0) for part, values in bits.items()}
    return {part: torch.from_numpy(values) for part, values in bits.items()}
