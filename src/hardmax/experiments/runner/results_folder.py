"""The folder of a table or figure: its rows, and the page rendered from them; several runners may add rows."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from hardmax.errors import DataError
from hardmax.experiments.pages.render import render
from hardmax.experiments.rows import (
    ROWS,
    AbstractPlannedRow,
    Row,
    find_row,
    read_results,
    read_rows_from,
    remove_broken_lines,
    seal_row,
)
from hardmax.experiments.runner.locks import lock_path
from hardmax.experiments.tables.declaration import AbstractExperiment
from hardmax.training.locks import try_lock
from hardmax.training.run_folder import append_rows, report_write_error

# The page is rendered at most every 5 seconds, and for at most a twentieth of the time: many rows take long.
_MIN_INTERVAL = 5.0
_MAX_SHARE = 0.05


class ResultsFolder:
    """`results.jsonl` and the page rendered from it.

    Args:
        experiment: the table or figure of the folder.
        planned: all of its runs or measurements.
        out: the folder.
        quick: whether this is the quick form.

    Attributes:
        experiment: as above.
        out: as above.
        quick: as above.
        broken: for each line that was not a valid row and has been removed, a phrase that says why.
        offset: position up to which the file has been read, in bytes.
    """

    def __init__(
        self, experiment: AbstractExperiment, planned: Sequence[AbstractPlannedRow], out: Path, *, quick: bool
    ) -> None:
        self.experiment, self.out, self.quick = experiment, out, quick
        self._planned, self._kind = planned, experiment.planned_row
        self._path, self._lock = out / ROWS, FileLock(lock_path(out, "results"))
        self._rows: list[Row] = []
        self._by_key: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        self._inode, self.offset = -1, 0
        self._rendered, self._due = 0, float("-inf")
        with report_write_error(out), self._lock:
            self.broken = remove_broken_lines(self._path, self._kind.fields)
            self.read_new_rows()

    def read_new_rows(self) -> None:
        """Read the rows that have been added."""
        inode = self._path.stat().st_ino if self._path.exists() else -1
        if inode != self._inode:  # another runner has removed broken lines
            self._inode, self.offset, self._rendered = inode, 0, -1
            self._rows.clear()
            self._by_key.clear()
        rows, self.offset = read_rows_from(self._path, self.offset, self._kind.fields)
        self._rows += rows
        for row in rows:
            self._by_key[tuple(row[name] for name in self._kind.key_fields)].append(row)

    def find_row(self, planned: AbstractPlannedRow) -> Row | None:
        """Return the row of a run or measurement, or None."""
        return find_row(self._by_key[planned.key], planned)

    def add_row(self, planned: AbstractPlannedRow, row: Row) -> None:
        """Add the row of a run or measurement unless another runner has."""
        with self._lock:
            self.read_new_rows()
            if self.find_row(planned) is None:
                append_rows(self._path, [seal_row(row)])
                self.read_new_rows()

    def import_rows(self, files: Iterable[Path]) -> int:
        """Copy the rows of other folders that match missing ones; return their number.

        Args:
            files: each a `results.jsonl`.

        Raises:
            DataError: a file is missing or broken.
        """
        rows: list[Row] = []
        for path in files:
            if not path.is_file():
                raise DataError(
                    f"there is no file of rows {path}; give the results.jsonl of a folder made by reproduce"
                )
            file_rows, broken = read_results(path, self._kind.fields)
            if broken:
                raise DataError(
                    f"{path} is not a file of rows, or broken: {len(broken)} of its lines are not finished runs; "
                    f"{broken[0]}"
                )
            rows += file_rows
        count = 0
        for planned in self._planned:
            if self.find_row(planned) is None and (row := find_row(rows, planned)) is not None:
                self.add_row(planned, row)
                count += 1
        return count

    def render_if_due(self) -> None:
        """Render if there are new rows and the last rendering is long enough ago, unless another runner renders now."""
        if len(self._rows) != self._rendered and time.monotonic() >= self._due:
            with try_lock(lock_path(self.out, "page")) as held:
                if held:
                    self._render()

    def finish(self) -> None:
        """Render the rows that have not been rendered yet."""
        with FileLock(lock_path(self.out, "page")):
            self.read_new_rows()
            if len(self._rows) != self._rendered:
                self._render()

    def _render(self) -> None:
        begin = time.monotonic()
        with report_write_error(self.out):
            render(self.experiment, self._planned, self._rows, self.out, quick=self.quick)
        end = time.monotonic()
        self._rendered, self._due = len(self._rows), end + max(_MIN_INTERVAL, (end - begin) / _MAX_SHARE)
