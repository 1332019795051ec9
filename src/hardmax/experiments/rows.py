"""Rows of `results.jsonl`, one for each finished run or measurement: reading them, and finding one. No torch here."""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from hardmax.errors import DataError
from hardmax.files import write_text
from hardmax.json_files import parse_json
from hardmax.training.config import PLACES, TrainConfig

Row = dict[str, Any]

ROWS = "results.jsonl"


class AbstractPlannedRow(ABC):
    """Plan of a row, finished or not: a run, or a measurement.

    Attributes:
        fields: fields that such a row must have.
        key_fields: fields by which the rows of a folder are indexed; rows that differ in one never match the same plan.
    """

    fields: ClassVar[frozenset[str]]
    key_fields: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the run or measurement in messages."""

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """Values of the key fields in its row."""

    @abstractmethod
    def matches(self, row: Row) -> bool:
        """Whether a row has exactly this configuration."""


@dataclass(frozen=True)
class ModelFigure:
    """A grid of images that a trained model draws, with numbers about them; a row stores it under `exhibit`.

    Attributes:
        image: the grid as one PNG in a data URI.
        heads: headings of the columns of the grid.
        rows: number of rows of the grid.
        numbers: lines of numbers, by the keys of metrics; if there are several lines, `of` is the name of each.
    """

    image: str
    heads: Sequence[str]
    rows: int
    numbers: Sequence[Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; the key of the image is "picture", as in earlier versions."""
        fields = asdict(self)
        return {"picture": fields.pop("image"), **fields}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ModelFigure":
        """Return the figure that a row stores."""
        return cls(fields["picture"], fields["heads"], fields["rows"], fields["numbers"])


def identify_run(config: TrainConfig) -> dict[str, Any]:
    """Return the options that identify a run: all but `PLACES`, which define where it is stored and executed."""
    return {name: value for name, value in config.to_dict().items() if name not in PLACES}


def hash_options(options: dict[str, Any]) -> str:
    """Return a hash of the options that identify a run."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:16]


def is_same_run(options: dict[str, Any], config: TrainConfig) -> bool:
    """Whether stored options identify the run of a configuration.

    Options added since then count as their defaults, and options that the run does not use do not count.
    """
    stored, planned = {**identify_run(type(config)()), **options}, identify_run(config)
    unused = config.unused_options
    return all(stored.get(name) == planned.get(name) for name in stored.keys() | planned.keys() if name not in unused)


def find_row(rows: Sequence[Row], planned: AbstractPlannedRow) -> Row | None:
    """Return the newest row that matches, or None."""
    return next((row for row in reversed(rows) if planned.matches(row)), None)


def seal_row(row: Row) -> Row:
    """Return a row with a checksum of all its fields, by which a later change of any of them is noticed."""
    fields = json.loads(json.dumps({name: value for name, value in row.items() if name != _CHECKSUM}))
    return {**fields, _CHECKSUM: _hash_fields(fields)}


def read_results(path: Path, fields: Set[str]) -> tuple[list[Row], list[str]]:
    """Return the rows, and for each line that is not a valid row a phrase that says why.

    A row is valid if its configuration has its hash and all its fields have its checksum; rows of earlier versions have
    no checksum.

    Args:
        path: the file.
        fields: fields that a row must have.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise _read_error(path, error) from error
    rows, reasons = [], []
    for number, line in enumerate(lines, 1):
        row = _parse_row(line, fields)
        if isinstance(row, str):
            reasons.append(f"line {number} {row}")
        else:
            rows.append(row)
    return rows, reasons


def read_rows_from(path: Path, offset: int, fields: Set[str]) -> tuple[list[Row], int]:
    """Return the rows after an offset in bytes, and the offset after the last complete line.

    If the file is shorter than the offset, it has been replaced, and all rows are returned.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(offset := offset if offset <= size else 0)
            text = file.read()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise _read_error(path, error) from error
    text = text[: text.rfind(b"\n") + 1]
    rows = (_parse_row(line, fields) for line in text.decode(errors="replace").splitlines())
    return [row for row in rows if not isinstance(row, str)], offset + len(text)


def remove_broken_lines(path: Path, fields: Set[str]) -> list[str]:
    """Remove the lines that are not valid rows, such as a partial line of a killed process; return why, for each."""
    rows, reasons = read_results(path, fields)
    if reasons:
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return reasons


_CHECKSUM = "checksum"


def _hash_fields(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _parse_row(line: str, fields: Set[str]) -> Row | str:
    """Return the row of a line, or a phrase that says why it is not a valid one."""
    try:
        row = parse_json(line, "the line")
    except DataError:
        return "is cut off or not a row"
    if not row.keys() >= fields or not isinstance(row["config"], dict):
        return "is not a row of this table or figure"
    if row["hash"] != hash_options(row["config"]):
        return "was altered: its configuration does not have its hash"
    if _CHECKSUM in row and row != seal_row(row):
        return "was altered after it was written: its content does not have its checksum"
    return row


def _read_error(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {path}: {error}; move it away, and its runs are made again")
