"""The folder of a run: names of its files, and functions that write and read them. Imports torch only to write.

`config.json` (resolved options, data, versions, commit), `metrics.jsonl` (a row for each epoch and split, no times),
`timing.jsonl` (seconds), `starts.jsonl` (results of several starts), `checkpoint-<step>/` with the file `latest` that
names the latest one. A checkpoint stores the name of the best one so far, so that one atomic write replaces both; the
file `best` repeats it. While a process trains, it holds the lock `.lock`.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from hardmax.errors import DataError
from hardmax.files import report_read_error, write_text
from hardmax.json_files import check_finite, parse_json, read_json
from hardmax.training.config import TrainConfig, make_absolute
from hardmax.version import __version__, find_commit

if TYPE_CHECKING:
    from torch import Tensor

    from hardmax.training.task import Data

CONFIG, METRICS, TIMING, STARTS = "config.json", "metrics.jsonl", "timing.jsonl", "starts.jsonl"
_OBJECTS = ("config", "data", "versions")  # of `config.json`
TRAINING_FILES = ("training.safetensors", "training.json")
"""Files of a checkpoint in addition to those of its model: tensors, and the progress of the run."""


def has_run(folder: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return (folder / CONFIG).exists()


def write_config(folder: Path, config: TrainConfig, data: "Data") -> None:
    """Write `config.json`: the resolved configuration, the data, versions and the commit.

    Raises:
        DataError: the file cannot be written.
    """
    import torch

    facts = {
        "config": {**config.to_dict(), "resume": False},
        "data": {
            "name": data.name,
            "source": data.source,
            **data.facts,
            **summarize_data(data),
        },
        "versions": {
            "hardmax": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "commit": find_commit(),
    }
    with report_write_error(folder / CONFIG):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / CONFIG, json.dumps(facts, indent=2) + "\n")


def summarize_data(data: "Data") -> dict[str, Any]:
    """Return the shape and the sum of all training examples, and a hash of every tensor, by name."""
    return {
        "train": {"shape": list(data.train.shape), "sum": int(data.train.sum())},
        "hashes": {name: _hash_tensor(tensor) for name, tensor in data.tensors.items()},
    }


def _hash_tensor(tensor: "Tensor") -> str:
    digest = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}".encode())
    digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def check_data(folder: Path, data: str, summary: dict[str, Any]) -> None:
    """Check that data are those that a run was started with, wherever they are now.

    Runs of earlier versions store only the shape and the sum of their training examples, or nothing.

    Args:
        folder: folder of the run.
        data: option --data of the resumed run.
        summary: the result of `summarize_data`.

    Raises:
        DataError: the data differ, or they have moved and the run does not store what they were.
    """
    facts = read_facts(folder)
    before, stored = make_absolute(str(facts["config"].get("data"))), facts.get("data", {})
    if "train" not in stored and data == before:
        return
    if changed := ", ".join(find_changed_data(stored, summary)):
        if data == before:
            raise DataError(f"the data have changed since the run was started: {changed}; train a new run")
        raise DataError(
            f"--data {data} holds other data than the run was started with, those of {before}: {changed}; say where "
            "these are now, or train a new run"
        )


def find_changed_data(stored: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """Return the names of tensors that are not as a run stores them in the data of its `config.json`."""
    hashes = stored.get("hashes")
    if isinstance(hashes, dict):
        names = sorted({*hashes, *summary["hashes"]})
        return [name for name in names if hashes.get(name) != summary["hashes"].get(name)]
    return [] if stored.get("train") == summary["train"] else ["train examples"]


@contextmanager
def report_write_error(path: Path) -> Iterator[None]:
    """Raise `DataError` if the block cannot write a file, or to a folder: the disk is full, for example."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; make room, or choose another --out"
        ) from error


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the contents of `config.json`; its key "config" holds the options.

    Raises:
        DataError: the folder holds no run, or its configuration is broken.
    """
    path = folder / CONFIG
    with report_read_error(path):
        exists = path.exists()
    if not exists:
        raise DataError(f"{folder} holds no run: {path} is missing; make one with hardmax train --out {folder}")
    try:
        facts = read_json(path)
        check_finite(facts, "it")
        if "config" not in facts or not all(isinstance(facts.get(name, {}), dict) for name in _OBJECTS):
            raise DataError(f"its {', '.join(_OBJECTS)} are not JSON objects")
    except DataError as error:
        raise DataError(f"{path} is not the configuration of a run: {error}") from error
    return facts


def find_checkpoint(folder: Path, pointer: Literal["latest", "best"]) -> str | None:
    """Return the name of the latest or best checkpoint, or None if there is none.

    The latest checkpoint stores the name of the best one; in folders of earlier versions only the file `best` does.

    Raises:
        DataError: a file that names a checkpoint is broken, or the checkpoint is missing, as in an incomplete copy.
    """
    while (latest := _read_pointer(folder / "latest")) is not None:
        name, problem = None, None
        try:
            _check_complete(folder, latest, "latest")
            name = latest if pointer == "latest" else _find_best(folder, latest)
        except DataError as error:
            problem = error
        if latest == _read_pointer(folder / "latest"):  # else a run in training has replaced it in the meantime
            if problem is not None:
                raise problem
            return name
    return None


def _find_best(folder: Path, latest: str) -> str | None:
    """Return the name of the best checkpoint that the latest one stores, or None."""
    has_progress = (folder / latest / TRAINING_FILES[1]).exists()  # it may be copied without its training state
    progress = read_progress(folder / latest) if has_progress else {}
    if "best_checkpoint" not in progress:
        name = _read_pointer(folder / "best")
        return name if name is not None and (folder / name).is_dir() else None
    name = progress["best_checkpoint"]
    if name is not None:
        _check_complete(folder, name, "best")
    return name


def _check_complete(folder: Path, name: str, pointer: str) -> None:
    """Check that a checkpoint exists which a run names as its latest or best one."""
    if not (folder / name).is_dir():
        other = ", or use --checkpoint latest" if pointer == "best" else ""
        raise DataError(f"{folder} is not complete: its {pointer} checkpoint, {name}, is missing; copy it, too{other}")


def _read_pointer(path: Path) -> str | None:
    """Return the name of the checkpoint in a file, or None if there is no such file."""
    try:
        name = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} does not name a checkpoint: {error}") from error
    if not _CHECKPOINT.fullmatch(name):
        raise DataError(f"{path} does not name a checkpoint, such as checkpoint-100: it holds {name[:80]!r}")
    return name


_CHECKPOINT = re.compile(r"checkpoint-[0-9]{1,100}")


def read_progress(checkpoint: Path) -> dict[str, Any]:
    """Return the progress of the run that a checkpoint stores: the fields of `hardmax.training.state.Progress`.

    Raises:
        DataError: the file is missing or broken.
    """
    path = checkpoint / TRAINING_FILES[1]
    progress = read_json(path)
    name = progress.get("best_checkpoint")
    if name is not None and not (isinstance(name, str) and _CHECKPOINT.fullmatch(name)):
        raise DataError(f"{path} is not the progress of a run: best_checkpoint is {str(name)[:80]!r}")
    return progress


def append_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows to a file, one JSON object per line, and wait until they are on the disk.

    An incomplete last row, left by a killed process, is removed first.

    Raises:
        DataError: the file cannot be written.
    """
    with report_write_error(path), path.open("ab+") as file:
        _end_last_line(file)
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())


def _end_last_line(file: BinaryIO) -> None:
    """End the last line of a file: a complete row gets its newline, an incomplete one is removed."""
    if not file.seekable() or file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    text = file.read()
    begin = text.rfind(b"\n") + 1
    try:
        parse_json(text[begin:].decode(), "the last row")
        file.write(b"\n")
    except ValueError:
        file.truncate(begin)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; an incomplete last row, left by a killed process, is ignored.

    Raises:
        DataError: any other line is broken, or the file cannot be read.
    """
    try:
        lines = path.read_bytes().decode().splitlines(keepends=True) if path.exists() else []
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(parse_json(line, f"line {number} of {path}"))
        except DataError as error:
            if number < len(lines) or line.endswith("\n"):
                raise make_line_error(path, number, line) from error
    return rows


def make_line_error(path: Path, number: int, line: str) -> DataError:
    """Return the error for a line that is not a row."""
    return DataError(f"line {number} of {path} is broken: {line.strip()[:80]!r}; remove the line, or train again")


def check_rows_until(path: Path, epoch: int) -> None:
    """Check that a file has rows of all epochs up to one: rows are written before the checkpoint of their epoch.

    Raises:
        DataError: rows are missing or broken, or the file cannot be read.
    """
    missing = set(range(1, epoch + 1)) - {row.get("epoch") for row in read_rows(path)}
    if missing:
        raise DataError(
            f"{path} has no rows of epoch {min(missing)}, but the checkpoint was written after epoch {epoch}; restore "
            "the file, or train again"
        )


def remove_rows_after(path: Path, epoch: int) -> None:
    """Remove the rows after an epoch: the run resumes from there and writes them again.

    Raises:
        DataError: a row is broken or has no epoch, or the file cannot be read or written.
    """
    rows = read_rows(path)
    for number, row in enumerate(rows, 1):
        if not isinstance(row.get("epoch"), int):
            raise make_line_error(path, number, json.dumps(row))
    with report_write_error(path):
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows if row["epoch"] <= epoch))
