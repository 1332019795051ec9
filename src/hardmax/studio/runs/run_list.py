"""The runs below the folders of the studio: where they are, their state, and their rows while they are in training."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

from hardmax.applications.registry import Application, find_application
from hardmax.applications.runs import read_config
from hardmax.errors import DataError
from hardmax.json_files import read_json
from hardmax.training.config import TrainConfig
from hardmax.training.live_rows import RowReader
from hardmax.training.run_folder import CONFIG, METRICS, TIMING
from hardmax.training.run_status import RunStatus, read_status

_DEPTH = 6  # levels of folders below a given one
_MOST_FOLDERS = 20_000  # that are searched, so that a home folder does not take minutes
MOST_RUNS = 500


def find_runs(roots: Sequence[Path]) -> list[Path]:
    """Return the folders of runs in and below some folders, sorted; at most 500.

    Symbolic links are not followed, hidden folders and those inside of runs are not searched. A folder with a broken
    `config.json` counts as a run, but one with a saved model alone does not.
    """
    runs: set[Path] = set()
    searched = 0
    for root in dict.fromkeys(roots):
        for folder, is_run in _walk(root, _DEPTH):
            searched += 1
            if is_run:
                runs.add(folder)
            if len(runs) >= MOST_RUNS or searched >= _MOST_FOLDERS:
                return sorted(runs)
    return sorted(runs)


def _walk(folder: Path, depth: int) -> Iterator[tuple[Path, bool]]:
    """Yield a folder and those below it, but not those inside of runs; and whether each is a run."""
    is_run = _is_run(folder)
    yield folder, is_run
    if depth == 0 or is_run:
        return
    try:
        with os.scandir(folder) as entries:
            below = sorted(
                entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."
            )
    except OSError:
        return
    for path in below:
        yield from _walk(Path(path), depth - 1)


def _is_run(folder: Path) -> bool:
    path = folder / CONFIG
    try:
        if not path.is_file():
            return False
        return "config" in read_json(path)
    except OSError:
        return False
    except DataError:  # broken, but a file of this name next to metrics is a run's
        return (folder / METRICS).exists()


def name_run(folder: Path) -> str:
    """Return the path of a run as the user would type it: relative to the current folder if it is below it."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder != here and here in folder.parents else str(folder)


@final
class WatchedRun:
    """A run that is read again and again; reading it changes none of its files.

    Args:
        folder: folder of the run, which may be deleted at any moment.

    Attributes:
        name: its path as the user would type it.
        config: its options; None if they cannot be read.
        facts: the contents of its `config.json`.
        status: its state; "broken" also if it has been deleted.
        rows: rows of `metrics.jsonl`.
        timing: rows of `timing.jsonl`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, name_run(folder)
        self.config: TrainConfig | None = None
        self.facts: dict[str, Any] = {}
        self.status = RunStatus("broken", 0, 0, f"{folder} has not been read yet")
        self._metrics, self._timing = RowReader(folder / METRICS), RowReader(folder / TIMING)
        self._signature: tuple[object, ...] = (None,)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of `metrics.jsonl`."""
        return self._metrics.rows

    @property
    def timing(self) -> list[dict[str, Any]]:
        """Rows of `timing.jsonl`."""
        return self._timing.rows

    @property
    def application(self) -> Application | None:
        """The application of the run; None if its options cannot be read."""
        return None if self.config is None else find_application(self.config.model)

    @property
    def score(self) -> float | None:
        """The best value of its criterion on the validation examples; None if there is none."""
        if self.application is None:
            return None
        metrics = self.application.metrics
        values = [row.get(metrics.criterion) for row in self.rows if row.get("split") == "validation"]
        numbers = [value for value in values if isinstance(value, int | float) and value == value]
        return max(numbers, key=metrics.score, default=None)

    def refresh(self) -> bool:
        """Read what has changed, and return whether anything has; errors become the state "broken"."""
        signature = self._read_signature()
        if signature == self._signature and self.status.state != "training":
            return False
        before = self.status, self.rows, self.timing
        try:
            if not self.folder.is_dir():
                raise DataError(f"{self.name} does not exist any more; it may have been deleted or renamed")
            config = self.config
            if config is None or signature[0] != self._signature[0]:
                config, self.facts = read_config(self.folder)
            self.config = config
            self._metrics.read()
            self._timing.read()
            self.status = read_status(self.folder, config)
        except (DataError, OSError) as error:
            if not self.folder.is_dir():
                self.config, self.facts = None, {}
            self.status = RunStatus("broken", 0, 0, str(error))
        self._signature = signature
        return before != (self.status, self.rows, self.timing)

    def _read_signature(self) -> tuple[object, ...]:
        """Return size and time of the files of which a change matters."""
        return tuple(_stat(self.folder / name) for name in (CONFIG, METRICS, TIMING, "latest", ".lock"))


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
