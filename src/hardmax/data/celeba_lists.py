"""The text files of CelebA: attributes and parts of its pictures. No torch here."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from hardmax.data.text import read_text
from hardmax.errors import DataError

_BITS = {"-1": 0, "1": 1}
_PARTS = {"0": "train", "1": "validation", "2": "test"}


def read_attribute_list(path: Path) -> tuple[list[str], list[str], Int64[np.ndarray, "N A"]]:
    """Read `list_attr_celeba.txt`: the number of pictures, the names of the attributes, then a line per picture.

    Returns:
        The pictures' file names, the attributes' names, and zeros and ones.

    Raises:
        DataError: something in the file is wrong; says in which line.
    """
    lines = read_text(path).rstrip().splitlines()
    if not lines[0].strip().isdecimal() or len(lines) < 2:
        raise DataError(
            f"{path}, line 1: {lines[0][:40]!r}, expected the number of pictures, then a line with the names of the "
            "attributes, then lines such as '000001.jpg -1 1 ...'"
        )
    count, names = int(lines[0]), lines[1].split()
    pictures: dict[str, int] = {}
    values: list[list[int]] = []
    for number, line in enumerate(lines[2:], 3):
        picture, *said = line.split() or [""]
        if len(said) != len(names):
            raise DataError(f"{path}, line {number}: {len(said)} values, but line 2 names {len(names)} attributes")
        if picture in pictures:
            raise DataError(f"{path}, line {number}: {picture} is here a second time; line {pictures[picture]} has it")
        pictures[picture] = number
        try:
            values.append([_BITS[value] for value in said])
        except KeyError as error:
            raise DataError(f"{path}, line {number}: a value is {error.args[0]!r}, expected -1 or 1") from error
    if len(pictures) != count or not count:
        raise DataError(f"{path}: line 1 says {count:,} pictures, but {len(pictures):,} lines follow; get it again")
    return list(pictures), names, np.array(values)


def read_partition(path: Path, pictures: Sequence[str]) -> list[str]:
    """Read `list_eval_partition.txt`, lines such as `000001.jpg 0`: 0 to train, 1 to validate, 2 to test.

    Args:
        path: the file; it may have more pictures than are asked for.
        pictures: file names.

    Returns:
        The part of each picture.

    Raises:
        DataError: a line is wrong, or a picture is missing.
    """
    parts: dict[str, str] = {}
    for number, line in enumerate(read_text(path).rstrip().splitlines(), 1):
        match line.split():
            case [picture, value] if value in _PARTS:
                parts[picture] = _PARTS[value]
            case _:
                raise DataError(
                    f"{path}, line {number}: {line[:40]!r}, expected a picture and 0, 1 or 2, such as '000001.jpg 0'"
                )
    if missing := next((picture for picture in pictures if picture not in parts), None):
        raise DataError(f"{path} does not have {missing}, which the list of attributes has; get it again, or remove it")
    return [parts[picture] for picture in pictures]
