"""Binary attributes of images, such as "smiling": select them by name, and read them from files of arrays."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.images import Images
from hardmax.errors import ArgumentError, DataError


def choose_attributes(images: Images, names: Sequence[str]) -> Images:
    """Return the same images with only these attributes, in this order.

    Args:
        images: images with attributes.
        names: names of the attributes to keep. Upper and lower case, "_", "-" and spaces do not matter: "mouth
            slightly open" is "Mouth_Slightly_Open".

    Returns:
        The images; the attributes are spelled as in the data.

    Raises:
        DataError: the images have no attributes.
        ArgumentError: an attribute is unknown or named twice, or `names` is empty.

    Example:
        >>> import torch
        >>> pixels = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
        >>> bits = {part: torch.tensor([[0, 1], [1, 0]]) for part in ("train", "validation", "test")}
        >>> images = Images("two", "an example", pixels, pixels, pixels, None, bits, ("Male", "Smiling"))
        >>> smiling = choose_attributes(images, ["smiling"])
        >>> smiling.attribute_names, smiling.attributes["train"].tolist()
        (('Smiling',), [[1], [0]])
    """
    if images.attributes is None:
        raise DataError(f"{images.name} has no attributes to choose from ({images.source})")
    if not names:
        raise ArgumentError(f"name at least one attribute; there are {', '.join(images.attribute_names)}")
    chosen = [find_attribute(name, images.attribute_names) for name in names]
    kept = tuple(images.attribute_names[column] for column in chosen)
    if twice := next((name for name in kept if kept.count(name) > 1), None):
        raise ArgumentError(f"the attribute {twice!r} is named twice in {', '.join(names)}")
    attributes = {part: bits[:, chosen] for part, bits in images.attributes.items()}
    return replace(images, attributes=attributes, attribute_names=kept)


def find_attribute(name: str, names: Sequence[str]) -> int:
    """Return the index of an attribute in a list of names, matched as by `choose_attributes`.

    Raises:
        ArgumentError: an unknown attribute; the message suggests similar ones.
    """
    return find_name(name, names, "attribute", "attributes")


def find_name(name: str, names: Sequence[str], what: str, plural: str) -> int:
    """Return the index of a name in a list; upper and lower case, "_", "-" and spaces do not matter.

    Raises:
        ArgumentError: an unknown name; the message suggests similar ones, and lists all of them.
    """
    columns = {_normalize(known): column for column, known in enumerate(names)}
    if (column := columns.get(_normalize(name))) is not None:
        return column
    similar = [repr(names[columns[match]]) for match in get_close_matches(_normalize(name), columns)]
    suggestion = f"did you mean {' or '.join(similar)}? " if similar else ""
    raise ArgumentError(f"there is no {what} {name!r}: {suggestion}the {plural} are {', '.join(names)}")


def check_names(names: Sequence[str], origin: str) -> tuple[str, ...]:
    """Return the names without leading and trailing spaces.

    Raises:
        DataError: a name is empty, or two are equal up to case, "_", "-" and spaces.
    """
    names_by_key: dict[str, str] = {}
    for column, name in enumerate(names, 1):
        if not _normalize(name):
            raise DataError(f"{origin}: attribute {column} of {len(names)} has no name")
        if (other := names_by_key.get(_normalize(name))) is not None:
            raise DataError(f"{origin}: the attributes {other!r} and {name!r} have the same name; rename one")
        names_by_key[_normalize(name)] = name
    return tuple(name.strip() for name in names)


def _normalize(name: str) -> str:
    return name.casefold().translate(str.maketrans("", "", " _-\t"))


NAMES = "attribute_names"
ATTRIBUTES = {
    "train": ("train_attributes", "attributes"),
    "validation": ("validation_attributes", "val_attributes"),
    "test": ("test_attributes",),
}


_MOST_NAMES = 100_000


def read_names(path: Path, arrays: dict[str, np.ndarray], array: str) -> tuple[str, ...]:
    """Return the names of attributes or classes that an array holds; empty if the file has no such array.

    Args:
        path: path of the file.
        arrays: the arrays of the file.
        array: name of the array.

    Raises:
        DataError: the array does not hold names.
    """
    if array not in arrays:
        return ()
    names = arrays[array]
    if names.ndim != 1 or names.dtype.kind not in "US" or len(names) > _MOST_NAMES:
        raise DataError(
            f"{path}: {array} is {names.dtype} {list(names.shape)}, expected texts [A], at most {_MOST_NAMES:,} of them"
        )
    texts = np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names
    return tuple(texts.tolist())


def read_attribute_bits(
    path: Path, arrays: dict[str, np.ndarray], counts: dict[str, int], names: tuple[str, ...]
) -> dict[str, Int64[Tensor, "_ A"]]:
    """Return the attributes of each part: 0, 1, and -1 for unknown.

    The file has the same values; or, if it has no 0 at all, -1 for no and 1 for yes, as in CelebA.

    Args:
        path: path of the file.
        arrays: the arrays of the file.
        counts: number of images of each part.
        names: names of the attributes.

    Raises:
        DataError: a part has no attributes, another number of rows than images, or other values.
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
            raise DataError(f"{path}: {name} has other values than 0 and 1 (or -1 for unknown)")
        bits[part] = values.astype(np.int64)
    if not any((values == 0).any() for values in bits.values()):
        bits = {part: np.maximum(values, 0) for part, values in bits.items()}
    return {part: torch.from_numpy(values) for part, values in bits.items()}
