"""Attributes: zeros and ones with names, such as "smiling"."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from hardmax.data.images import Images
from hardmax.errors import ArgumentError, DataError


def choose_attributes(images: Images, names: Sequence[str]) -> Images:
    """Keep these attributes, in this order.

    Args:
        images: with attributes.
        names: of those to keep. Upper and lower case, "_", "-" and spaces do not matter: "mouth slightly open" is
            "Mouth_Slightly_Open".

    Returns:
        The same images, with the names as the data has them.

    Raises:
        DataError: the images have no attributes.
        ArgumentError: an attribute does not exist or is named twice, or none is named.

    Example:
        >>> import torch
        >>> pixels = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
        >>> bits = {part: torch.tensor([[0, 1], [1, 0]]) for part in ("train", "validation", "test")}
        >>> images = Images("two", "made up", pixels, pixels, pixels, None, bits, ("Male", "Smiling"))
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
    """Return the place of an attribute among these, as `choose_attributes` understands its name.

    Raises:
        ArgumentError: there is no such attribute; says which ones look like it.
    """
    return find_name(name, names, "attribute", "attributes")


def find_name(name: str, names: Sequence[str], what: str, plural: str) -> int:
    """Return the place of a name among these; upper and lower case, "_", "-" and spaces do not matter.

    Raises:
        ArgumentError: it is not among them; says which ones look like it, and what they are.
    """
    known = {_plain(known): column for column, known in enumerate(names)}
    if (column := known.get(_plain(name))) is not None:
        return column
    near = [repr(names[known[match]]) for match in get_close_matches(_plain(name), known)]
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise ArgumentError(f"there is no {what} {name!r}: {meant}the {plural} are {', '.join(names)}")


def check_names(names: Sequence[str], origin: str) -> tuple[str, ...]:
    """Return the names without the spaces around them.

    Raises:
        DataError: one is empty, or two are the same but for case, "_", "-" and spaces.
    """
    seen: dict[str, str] = {}
    for column, name in enumerate(names, 1):
        if not _plain(name):
            raise DataError(f"{origin}: attribute {column} of {len(names)} has no name")
        if (other := seen.get(_plain(name))) is not None:
            raise DataError(f"{origin}: the attributes {other!r} and {name!r} have the same name; rename one")
        seen[_plain(name)] = name
    return tuple(name.strip() for name in names)


def _plain(name: str) -> str:
    return name.casefold().translate(str.maketrans("", "", " _-\t"))
