"""`metrics.jsonl` and `timing.jsonl`: one row per line, appended as a run goes, cut back when it resumes."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hardmax.training.checkpoint import write_atomically


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows, and return when they are on the disk."""
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows; what a kill left half-written at the end is passed over."""
    rows = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
    return rows


def cut_back(path: Path, step: int) -> None:
    """Remove the rows after a step: they belong to work that was lost."""
    kept = [row for row in read_rows(path) if row["step"] <= step]
    write_atomically(path, "".join(json.dumps(row) + "\n" for row in kept))
