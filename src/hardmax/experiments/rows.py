"""`results.jsonl`: one row for every finished run or measurement, and the search for a row. No torch here."""

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
    """A grid of images drawn by a trained model, and numbers below it; a row stores it under `exhibit`.

    Attributes:
        picture: the whole grid as one PNG in a data URI.
        heads: headings of the columns of the grid.
        rows: number of rows of the grid.
        numbers: lines of numbers by the keys of metrics; `of` names the subject of a line, where there are several.
    """

    picture: str
    heads: Sequence[str]
    rows: int
    numbers: Sequence[Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


def identify_run(config: TrainConfig) -> dict[str, Any]:
    """Return the options that identify a run: all but `PLACES`, which define where it is stored and executed."""
    return {name: value for name, value in config.to_dict().items() if name not in PLACES}


def hash_options(options: dict[str, Any]) -> str:
    """Return a hash of the options that identify a run."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:16]


def is_same_run(options: dict[str, Any], config: TrainConfig) -> bool:
    """Whether stored options identify the run of a configuration; options added since then count as their defaults."""
    return {**identify_run(type(config)()), **options} == identify_run(config)


def find_row(rows: Sequence[Row], planned: AbstractPlannedRow) -> Row | None:
    """Return the newest row that matches, or None."""
    return next((row for row in reversed(rows) if planned.matches(row)), None)


def read_results(path: Path, fields: Set[str]) -> tuple[list[Row], int]:
    """Return the rows, and the number of broken lines: no JSON, or a hash that is not that of the configuration.

    Args:
        path: the file.
        fields: fields that a row must have.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    rows = [row for row in (_parse_row(line, fields) for line in lines) if row is not None]
    return rows, len(lines) - len(rows)


def read_from(path: Path, offset: int, fields: Set[str]) -> tuple[list[Row], int]:
    """Return the rows from an offset in bytes on, and the offset after the last whole line.

    For a file shorter than the offset, return all rows: it has been written again.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(offset := offset if offset <= size else 0)
            text = file.read()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise _unreadable(path, error) from error
    text = text[: text.rfind(b"\n") + 1]
    rows = (_parse_row(line, fields) for line in text.decode(errors="replace").splitlines())
    return [row for row in rows if row is not None], offset + len(text)


def remove_broken_lines(path: Path, fields: Set[str]) -> int:
    """Remove broken lines, such as the half of one that a kill leaves, and return their number."""
    rows, broken = read_results(path, fields)
    if broken:
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return broken


def _parse_row(line: str, fields: Set[str]) -> Row | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    if not isinstance(row, dict) or not row.keys() >= fields or not isinstance(row["config"], dict):
        return None
    return row if hash_options(row["config"]) == row["hash"] else None


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {path}: {error}; move it away, and its runs are made again")
