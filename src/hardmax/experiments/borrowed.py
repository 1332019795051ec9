"""Rows of other folders: runs that another table or figure has made already."""

from collections.abc import Iterable
from pathlib import Path

from hardmax.errors import DataError
from hardmax.experiments.ledger import Ledger
from hardmax.experiments.plan import Planned
from hardmax.experiments.results import find_row, read_results


def borrow(files: Iterable[Path], runs: Iterable[Planned], ledger: Ledger) -> int:
    """Copy the rows that fit runs which have none, in cell, seed and configuration; return how many there were.

    Args:
        files: each a `results.jsonl`.
        runs: that rows are looked for.
        ledger: gets the rows.

    Raises:
        DataError: a file is missing or broken.
    """
    rows = []
    for path in files:
        if not path.is_file():
            raise DataError(f"there is no file of rows {path}; give the results.jsonl of a folder made by reproduce")
        found, broken = read_results(path)
        if broken:
            raise DataError(f"{path} is no file of rows, or broken: {broken} lines of it are no finished run")
        rows += found
    count = 0
    for planned in runs:
        if ledger.find(planned) is None and (row := find_row(rows, planned)) is not None:
            ledger.add(planned, row)
            count += 1
    return count
