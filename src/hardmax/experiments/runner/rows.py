"""`results.jsonl`: one row for every finished run or measurement."""

import hashlib
import json
import os
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from hardmax.applications.registry import find_application
from hardmax.applications.runs import read_config
from hardmax.errors import DataError
from hardmax.experiments.runner.plan import Planned
from hardmax.files import write_text
from hardmax.report.tables import command
from hardmax.training.config import PLACES, TrainConfig
from hardmax.training.run_folder import read_rows

Row = dict[str, Any]

ROWS = "results.jsonl"
_FIELDS = frozenset({"experiment", "cell", "seed", "config", "hash", "command", "seconds", "test", "validation"})


def identity(config: TrainConfig) -> dict[str, Any]:
    """Return what makes a run what it is."""
    return {name: value for name, value in config.to_dict().items() if name not in PLACES}


def fingerprint(said: dict[str, Any]) -> str:
    """Return a hash of an identity."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def same_run(said: dict[str, Any], config: TrainConfig) -> bool:
    """Whether an identity that was written down is a configuration's; options that came later were at defaults."""
    return {**identity(type(config)()), **said} == identity(config)


def row_of(experiment: str, planned: Planned, *, quick: bool) -> Row:
    """Return the row of a finished run, from its folder.

    Args:
        experiment: the name of the table or figure.
        planned: the run.
        quick: whether this is the quick form.

    Raises:
        DataError: the folder holds no finished run.
    """
    run = Path(planned.config.out)
    _, said = read_config(run)
    measured = read_rows(run / "metrics.jsonl")
    timing = read_rows(run / "timing.jsonl")
    seconds = [row["train"] for row in timing]
    config = identity(planned.config)
    kept = find_application(planned.config.model).row_metrics
    rows = {split: [_epoch(row, kept) for row in measured if row["split"] == split] for split in ("validation", "test")}
    if not seconds or not rows["test"]:
        raise DataError(f"{run} holds no finished run: metrics.jsonl or timing.jsonl is empty; remove the folder")
    return {
        "experiment": experiment,
        "quick": quick,
        "cell": planned.cell.name,
        "seed": planned.seed,
        "hash": fingerprint(config),
        "config": config,
        "command": command(replace(planned.config, out=f"runs/{planned.name}", data_dir=None)),
        "commit": said.get("commit"),
        "versions": said.get("versions"),
        "seconds_per_epoch": median(seconds),
        "seconds": seconds,
        # Of one thread on a busy machine, this is what an idle one would take.
        "processor_seconds": [row.get("processor") for row in timing],
        "starts": read_rows(run / "starts.jsonl"),
        "evaluations": _evaluations([row for row in measured if row["split"] == "train"]),
        **rows,
    }


def _evaluations(rows: list[dict[str, Any]]) -> float | None:
    """Return the mean over epochs; None where they were not told, or no bound took part."""
    known = [row["evaluations"] for row in rows if row.get("evaluations") is not None]
    return mean(known) if known else None


def _epoch(row: dict[str, Any], kept: Sequence[str]) -> dict[str, Any]:
    """Return what a result row keeps of an epoch: the bound, and these metrics where they were measured."""
    bound = {} if row.get("elbo") is None else {"negative_elbo": -row["elbo"]}
    return {"epoch": row["epoch"], **bound, **{key: row[key] for key in kept if row.get(key) is not None}}


def read_results(path: Path, fields: Set[str] = _FIELDS) -> tuple[list[Row], int]:
    """Return the rows, and how many lines are broken: no JSON, or not the configuration that their hash is of.

    Args:
        path: of the file.
        fields: that a row must have; those of a run.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    rows = [row for row in (_parsed(line, fields) for line in lines) if row is not None]
    return rows, len(lines) - len(rows)


def read_from(path: Path, offset: int) -> tuple[list[Row], int]:
    """Return the rows of runs from a place in the file on, in bytes, and the place after the last whole line.

    Of a file that is no longer so long, all rows: it has been written anew.
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
    rows = (_parsed(line, _FIELDS) for line in text.decode(errors="replace").splitlines())
    return [row for row in rows if row is not None], offset + len(text)


def mend_results(path: Path, fields: Set[str] = _FIELDS) -> int:
    """Remove broken lines, such as the half of one that a kill leaves, and return how many there were."""
    rows, broken = read_results(path, fields)
    if broken:
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return broken


def find_row(rows: list[Row], planned: Planned) -> Row | None:
    """Return the newest row of a run with this very configuration, looked at in this very way, or None."""
    look = None if planned.look is None else planned.look.options
    for row in reversed(rows):
        same = (row["cell"], row["seed"], row.get("look")) == (planned.cell.name, planned.seed, look)
        if same and same_run(row["config"], planned.config):
            return row
    return None


def _parsed(line: str, fields: Set[str]) -> Row | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:
        return None
    if not isinstance(row, dict) or not row.keys() >= fields or not isinstance(row["config"], dict):
        return None
    return row if fingerprint(row["config"]) == row["hash"] else None


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {path}: {error}; move it away, and its runs are made again")
