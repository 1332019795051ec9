"""Read the tables `attributes.csv` and `labels.csv`, which describe the images of a folder. Imports no torch."""

import csv
import io
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from hardmax.data.memory import check_memory
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
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from error
    if not text.strip():
        raise DataError(f"{path} is empty")
    return text


_ATTRIBUTE_BYTES = 32  # that an attribute of an image takes, with all copies
_HEADINGS = ("image", "picture", "image_id", "file", "filename")  # the first column may be called any of these
_BITS = {"0": 0, "-1": 0, "false": 0, "no": 0, "1": 1, "true": 1, "yes": 1, "": -1}
_NUMBER = re.compile(r"\d{1,9}")
_LONGEST = 255  # characters of a name or value that an error message repeats


def read_attributes(path: Path, images: Sequence[str]) -> tuple[list[str], Int64[np.ndarray, "N A"]]:
    """Read a table of attributes: the line `image,NAME,...`, then one line for each image.

    A value is 0 or 1, -1 or 1, false or true, no or yes; an empty one is unknown.

    Args:
        path: the file.
        images: paths of the N images, relative to the table's folder, with "/".

    Returns:
        The names of the attributes, and their values: 0, 1, or -1 for unknown. The table need not list every image.

    Raises:
        DataError: the file is invalid; the message names the line.
    """
    header, rows = _read_table(path, images, "image,NAME,...")
    check_memory(_ATTRIBUTE_BYTES * len(images) * len(header), path.stat().st_size, str(path))
    values = np.full((len(images), len(header) - 1), -1)
    first: dict[str, int] = {}  # the first lines with 0 and with -1
    for line, image, cells in rows:
        for column, cell in enumerate(cells):
            value = cell.lower()
            if value not in _BITS:
                raise DataError(
                    f"{path}, line {line}: {header[column + 1]!r} is {cell[:_LONGEST]!r}, expected 0 or 1 (or -1 or 1, "
                    "no or yes, false or true), or nothing if it is unknown"
                )
            if value in ("0", "-1"):
                first.setdefault(value, line)
            values[image, column] = _BITS[value]
    if len(first) == 2:
        raise DataError(
            f"{path} has both 0 (line {first['0']}) and -1 (line {first['-1']}): is -1 'no' or 'unknown'? Write 0 "
            "for no, 1 for yes, and nothing for unknown"
        )
    return header[1:], values


def read_labels(path: Path, images: Sequence[str]) -> tuple[list[str], Int64[np.ndarray, "N"]]:
    """Read a table of classes: the line `image,label`, then one line for each image.

    Integer labels are kept; otherwise labels are names, and the classes are numbered in the order of the sorted names.

    Args:
        path: the file.
        images: paths of the N images, relative to the table's folder, with "/".

    Returns:
        The names of the classes (empty if the labels are numbers), and the labels: -1 for unknown. The table need not
        list every image.

    Raises:
        DataError: the file is invalid; the message names the line.
    """
    header, rows = _read_table(path, images, "image,label")
    if len(header) != 2:
        raise DataError(
            f"{path}, line 1: {len(header)} columns, expected 2: image,label; name a table of attributes attributes.csv"
        )
    cells: dict[int, str] = {}
    for line, image, (cell,) in rows:
        if re.fullmatch(r"-\d+", cell) and cell != "-1":
            raise DataError(f"{path}, line {line}: the label is {cell}, expected a name or a whole number from 0")
        if cell not in ("", "-1"):
            cells[image] = cell
    names = [] if all(map(_NUMBER.fullmatch, cells.values())) else sorted(set(cells.values()))
    number = {name: i for i, name in enumerate(names)}
    labels = np.full(len(images), -1)
    for image, cell in cells.items():
        labels[image] = number[cell] if names else int(cell)
    return names, labels


def _read_table(path: Path, images: Sequence[str], form: str) -> tuple[list[str], list[tuple[int, int, list[str]]]]:
    """Read a table: its header, and for each row the line number, the index of the image and the other cells."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        (_, header), *table = ((reader.line_num, [cell.strip() for cell in cells]) for cells in reader)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from error
    if len(header) < 2 or header[0].lower() not in _HEADINGS:
        line = ",".join(header)[:_LONGEST]
        raise DataError(f"{path}, line 1: {line!r}, expected a header such as {form}, with commas between")
    index_by_name = {name: index for index, name in enumerate(images)}
    lines: dict[int, int] = {}
    rows: list[tuple[int, int, list[str]]] = []
    for line, cells in table:
        if not any(cells):
            continue
        name = cells[0].replace("\\", "/").removeprefix("./")
        if len(cells) != len(header):
            raise DataError(f"{path}, line {line}: {len(cells)} columns, but line 1 names {len(header)}")
        if (image := index_by_name.get(name)) is None:
            name = name[:_LONGEST]
            raise DataError(
                f"{path}, line {line}: there is no image {name!r} in {path.parent}{_suggest_similar(name, images)}"
            )
        if image in lines:
            raise DataError(f"{path}, line {line}: {name!r} is here a second time; line {lines[image]} has it too")
        lines[image] = line
        rows.append((line, image, cells[1:]))
    if not rows:
        raise DataError(f"{path} names no image: it has only a header")
    return header, rows


def _suggest_similar(name: str, images: Sequence[str]) -> str:
    """Suggest similar images: the same name in another folder or with another suffix, else close matches."""
    stem = Path(name.lower()).stem
    similar = [image for image in images if Path(image.lower()).stem == stem] or get_close_matches(name, images)
    return f"; did you mean {' or '.join(map(repr, similar[:3]))}?" if similar else ""
