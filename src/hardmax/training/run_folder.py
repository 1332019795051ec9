"""The folder of a run: names of its files, writing and reading them. Imports no torch until a run is written.

`config.json` (resolved options, data, versions, commit), `metrics.jsonl` (a row for each epoch and split, no times),
`timing.jsonl` (seconds), `starts.jsonl` (results of several starts), `checkpoint-<step>/` with the files `latest`
and `best` that name one of them.
"""

import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax.errors import DataError
from hardmax.files import write_text
from hardmax.version import __version__, find_commit

if TYPE_CHECKING:
    from hardmax.training.config import TrainConfig
    from hardmax.training.task import Data

CONFIG, METRICS, TIMING, STARTS = "config.json", "metrics.jsonl", "timing.jsonl", "starts.jsonl"


def has_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return (folder / CONFIG).exists()


def write_config(folder: Path, config: "TrainConfig", data: "Data") -> None:
    """Write `config.json`: the resolved configuration, the data, versions and the commit."""
    import torch

    facts = {
        "config": {**config.to_dict(), "resume": False},
        "data": {
            "name": data.name,
            "source": data.source,
            **data.facts,
        },
        "versions": {
            "hardmax": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "commit": find_commit(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / CONFIG, json.dumps(facts, indent=2) + "\n")


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the contents of `config.json`; its key "config" holds the options.

    Raises:
        DataError: no run is there, or its configuration is broken.
    """
    path = folder / CONFIG
    try:
        facts = json.loads(path.read_text())
        if not isinstance(facts["config"], dict):
            raise TypeError("its config is no JSON object")
        return facts
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} holds no run: {path} is missing; make one with hardmax train --out {folder}"
        ) from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not the configuration of a run: {error}") from error


def find_checkpoint(folder: Path, pointer: str) -> str | None:
    """Return the checkpoint that the file `latest` or `best` names, or None if there is none."""
    try:
        name = (folder / pointer).read_text().strip()
    except FileNotFoundError:
        return None
    return name if (folder / name).is_dir() else None


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows to a file, and return when they are on the disk."""
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; an incomplete last row, which a kill leaves, is ignored.

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
            raise make_line_error(path, number, line)
        rows.append(row)
    return rows


def make_line_error(path: Path, number: int, line: str) -> DataError:
    """Return the error for a line that is not a row."""
    return DataError(f"line {number} of {path} is broken: {line.strip()[:80]!r}; remove the line, or train anew")


def remove_rows_after(path: Path, epoch: int) -> None:
    """Remove the rows after an epoch: they belong to work that was lost."""
    rows = [row for row in read_rows(path) if row["epoch"] <= epoch]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
