"""`metrics.jsonl` and `timing.jsonl`: one row per line, appended as a run goes, cut back when it resumes."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hardmax.errors import DataError
from hardmax.training.checkpoint import write_atomically


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows, and return when they are on the disk."""
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows; what a kill left half-written at the end is passed over.

    Raises:
        DataError: another line is broken, or the file cannot be read.
    """
    try:
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            row = None
            if number == len(lines) and not line.endswith("\n"):
                break
        if not isinstance(row, dict):
            raise broken_line(path, number, line)
        rows.append(row)
    return rows


def broken_line(path: Path, number: int, line: str) -> DataError:
    """Return the error of a line that is not a row."""
    return DataError(f"line {number} of {path} is broken: {line.strip()[:80]!r}; remove the line, or train anew")


def cut_back(path: Path, epoch: int) -> None:
    """Remove the rows after an epoch: they belong to work that was lost."""
    kept = [row for row in read_rows(path) if row["epoch"] <= epoch]
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in kept))
