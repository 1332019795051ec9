"""The rows of an experiment's folder, and the page rendered from them; several runners may add rows."""

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from hardmax.experiments.pages.render import render
from hardmax.experiments.runner.locks import lock_of, taken
from hardmax.experiments.runner.plan import Planned
from hardmax.experiments.runner.rows import ROWS, Row, find_row, mend_results, read_from
from hardmax.experiments.tables.declaration import AbstractTrainings
from hardmax.training.run_folder import append_rows

_EVERY = 5.0  # seconds between two pages, or
_SHARE = 0.05  # of all time for making them, whatever is rarer: a page of many rows takes long


class Ledger:
    """`results.jsonl` and what is rendered from it.

    Args:
        experiment: what the folder is for.
        runs: all of its runs.
        out: the folder.
        quick: whether this is the quick form.

    Attributes:
        broken: lines that were no rows, and have been removed.
        seen: how far the file has been read, in bytes.
    """

    def __init__(self, experiment: AbstractTrainings, runs: Sequence[Planned], out: Path, *, quick: bool) -> None:
        self._experiment, self._runs, self._out, self._quick = experiment, runs, out, quick
        self._path, self._lock = out / ROWS, FileLock(lock_of(out, "results"))
        self._rows: list[Row] = []
        self._by_run: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
        self._file, self.seen = -1, 0
        self._shown, self._due = 0, float("-inf")
        with self._lock:
            self.broken = mend_results(self._path)
            self.look()

    def look(self) -> None:
        """Read what has been added."""
        found = self._path.stat().st_ino if self._path.exists() else -1
        if found != self._file:  # another runner has removed broken lines
            self._file, self.seen, self._shown = found, 0, -1
            self._rows.clear()
            self._by_run.clear()
        rows, self.seen = read_from(self._path, self.seen)
        self._rows += rows
        for row in rows:
            self._by_run[row["cell"], row["seed"]].append(row)

    def find(self, planned: Planned) -> Row | None:
        """Return the row of a run, or None."""
        return find_row(self._by_run[planned.cell.name, planned.seed], planned)

    def add(self, planned: Planned, row: Row) -> None:
        """Add the row of a run unless another runner has."""
        with self._lock:
            self.look()
            if self.find(planned) is None:
                if self._path.exists() and self._path.stat().st_size > self.seen:
                    with self._path.open("ab") as file:
                        file.write(b"\n")  # ends the half of a line that a kill has left
                append_rows(self._path, [row])
                self.look()

    def show(self) -> None:
        """Render, if there is something new and the last time was long enough ago; another runner may be at it."""
        if len(self._rows) != self._shown and time.monotonic() >= self._due:
            with taken(lock_of(self._out, "page")) as ours:
                if ours:
                    self._render()

    def finish(self) -> None:
        """Render what is not yet."""
        with FileLock(lock_of(self._out, "page")):
            self.look()
            if len(self._rows) != self._shown:
                self._render()

    def _render(self) -> None:
        begin = time.monotonic()
        render(self._experiment, self._runs, self._rows, self._out, quick=self._quick)
        end = time.monotonic()
        self._shown, self._due = len(self._rows), end + max(_EVERY, (end - begin) / _SHARE)
