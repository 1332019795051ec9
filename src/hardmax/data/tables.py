"""Text files that describe images: `attributes.csv` and `labels.csv`. Does not import torch."""

import csv
import io
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from hardmax.errors import DataError


def read_text(path: Path) -> str:
    """Read a text file, without the byte order mark that some editors write.

    Raises:
        DataError: the file cannot be read, is empty, or is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if not data.strip():
        raise DataError(f"{path} is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from error


_PICTURE = ("picture", "image", "image_id", "file", "filename")  # the first column may be called any of these
_BITS = {"0": 0, "-1": 0, "false": 0, "no": 0, "1": 1, "true": 1, "yes": 1, "": -1}
_NUMBER = re.compile(r"\d{1,9}")


def read_attributes(path: Path, pictures: Sequence[str]) -> tuple[list[str], Int64[np.ndarray, "N A"]]:
    """Read a table of attributes: the line `picture,NAME,...`, then one line for each picture.

    A value is 0 or 1, -1 or 1, false or true, no or yes; an empty one is unknown.

    Args:
        path: the file.
        pictures: paths of the N pictures, relative to the table's folder, with "/".

    Returns:
        The names of the attributes, and their values: 0, 1, or -1 for unknown. The table need not list every picture.

    Raises:
        DataError: the file is invalid; the message names the line.
    """
    header, rows = _read(path, pictures, "picture,NAME,...")
    values = np.full((len(pictures), len(header) - 1), -1)
    first: dict[str, int] = {}  # the first lines with 0 and with -1
    for line, picture, cells in rows:
        for column, cell in enumerate(cells):
            value = cell.lower()
            if value not in _BITS:
                raise DataError(
                    f"{path}, line {line}: {header[column + 1]!r} is {cell!r}, expected 0 or 1 (or -1 or 1, no or yes, "
                    "false or true), or nothing if it is not known"
                )
            if value in ("0", "-1"):
                first.setdefault(value, line)
            values[picture, column] = _BITS[value]
    if len(first) == 2:
        raise DataError(
            f"{path} has both 0 (line {first['0']}) and -1 (line {first['-1']}): is -1 'no' or 'not known'? Write 0 "
            "for no, 1 for yes, and nothing for what is not known"
        )
    return header[1:], values


def read_labels(path: Path, pictures: Sequence[str]) -> tuple[list[str], Int64[np.ndarray, "N"]]:
    """Read a table of classes: the line `picture,label`, then one line for each picture.

    Whole numbers are kept; otherwise the labels are names, and the classes are numbered in sorted order.

    Args:
        path: the file.
        pictures: paths of the N pictures, relative to the table's folder, with "/".

    Returns:
        The names of the classes (empty if the labels are numbers), and the labels: -1 for unknown. The table need not
        list every picture.

    Raises:
        DataError: the file is invalid; the message names the line.
    """
    header, rows = _read(path, pictures, "picture,label")
    if len(header) != 2:
        raise DataError(
            f"{path}, line 1: {len(header)} columns, expected 2: picture,label; a table of attributes is to be called "
            "attributes.csv"
        )
    cells: dict[int, str] = {}
    for line, picture, (cell,) in rows:
        if re.fullmatch(r"-\d+", cell) and cell != "-1":
            raise DataError(f"{path}, line {line}: the label is {cell}, expected a name or a whole number from 0")
        if cell not in ("", "-1"):
            cells[picture] = cell
    names = [] if all(map(_NUMBER.fullmatch, cells.values())) else sorted(set(cells.values()))
    number = {name: i for i, name in enumerate(names)}
    labels = np.full(len(pictures), -1)
    for picture, cell in cells.items():
        labels[picture] = number[cell] if names else int(cell)
    return names, labels


def _read(path: Path, pictures: Sequence[str], form: str) -> tuple[list[str], list[tuple[int, int, list[str]]]]:
    """Read a table: its header, and for each row the line number, the index of the picture and the other cells."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        (_, header), *table = ((reader.line_num, [cell.strip() for cell in cells]) for cells in reader)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from error
    if len(header) < 2 or header[0].lower() not in _PICTURE:
        raise DataError(f"{path}, line 1: {','.join(header)!r}, expected a header such as {form}, with commas between")
    known = {name: index for index, name in enumerate(pictures)}
    lines: dict[int, int] = {}
    rows: list[tuple[int, int, list[str]]] = []
    for line, cells in table:
        if not any(cells):
            continue
        name = cells[0].replace("\\", "/").removeprefix("./")
        if len(cells) != len(header):
            raise DataError(f"{path}, line {line}: {len(cells)} columns, but line 1 names {len(header)}")
        if (picture := known.get(name)) is None:
            raise DataError(
                f"{path}, line {line}: there is no picture {name!r} in {path.parent}{_near(name, pictures)}"
            )
        if picture in lines:
            raise DataError(f"{path}, line {line}: {name!r} is here a second time; line {lines[picture]} has it too")
        lines[picture] = line
        rows.append((line, picture, cells[1:]))
    if not rows:
        raise DataError(f"{path} names no picture: it has a header and nothing else")
    return header, rows


def _near(name: str, pictures: Sequence[str]) -> str:
    """Suggest similar pictures: the same name in another folder or with another suffix, else close matches."""
    stem = Path(name.lower()).stem
    near = [picture for picture in pictures if Path(picture.lower()).stem == stem] or get_close_matches(name, pictures)
    return f"; did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""
