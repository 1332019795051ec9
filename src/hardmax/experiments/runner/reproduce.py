"""Train the missing runs of a table or figure, and render what is there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardmax.errors import DataError
from hardmax.experiments.runner.executors import AbstractCrew, Alone
from hardmax.experiments.runner.job import Job
from hardmax.experiments.runner.ledger import Ledger
from hardmax.experiments.runner.locks import Presence, claim
from hardmax.experiments.runner.plan import Planned, plan
from hardmax.experiments.runner.progress import Watcher
from hardmax.experiments.runner.rows import ROWS, find_row, read_results
from hardmax.experiments.runner.sweep import Sweep
from hardmax.experiments.runner.worker_check import check, greet
from hardmax.experiments.tables.declaration import AbstractTrainings
from hardmax.experiments.tables.registry import choose_cells, choose_seeds


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


_LOOKS = 100.0  # at the runner's lock in a second, by all who work for it


@dataclass(frozen=True)
class End:
    """How it ended.

    Attributes:
        stopped: by the watcher, before all was made.
        failed: runs that could not be made, by name, and why.
    """

    stopped: bool
    failed: dict[str, str]


def reproduce(
    experiment: AbstractTrainings,
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    data_dir: str | None = None,
    rows: Sequence[Path] = (),
    crew: AbstractCrew | None = None,
    watcher: Watcher | None = None,
) -> End:
    """Make what is missing, and render as it comes.

    A run is missing unless `results.jsonl` has a row with its very configuration. One that was stopped or killed goes
    on from its last checkpoint. Several runners may work in the same folder: no run is made twice.

    Args:
        experiment: what to make.
        out: the folder for rows, runs and what is rendered; all machines of a crew must see it under this name.
        quick: its quick form.
        only: names of cells, or patterns; without them, all.
        seeds: seeds of the table; without them, all.
        data_dir: folder that holds the named data sets.
        rows: files of rows that are taken where they fit.
        crew: who makes the runs; without it, this process.
        watcher: sees it go by.

    Raises:
        ArgumentError: no such cell or seed, the folder is for something else, or the crew cannot work in it.
        DataError: data cannot be read, or the folder cannot be written.
        ClusterError: the cluster is lost.
    """
    watcher = watcher or Watcher()
    crew = crew or Alone(watcher.stop)
    cells = choose_cells(experiment, only)
    chosen = choose_seeds(experiment, seeds, quick=quick)
    out = out.absolute()
    folder = None if data_dir is None else str(Path(data_dir).absolute())
    claim(out, experiment.name, quick=quick)
    everything = plan(experiment, experiment.cells, out, quick=quick, data_dir=folder)
    wanted = [
        planned for planned in plan(experiment, cells, out, quick=quick, data_dir=folder) if planned.seed in chosen
    ]
    ledger = Ledger(experiment, everything, out, quick=quick)
    if ledger.broken:
        watcher.say(f"{ledger.broken} broken lines of {out / ROWS} were removed; their runs are made again")
    if rows:
        watcher.say(f"{borrow(rows, everything, ledger)} runs are taken from other folders")
    missing = [planned for planned in wanted if ledger.find(planned) is None]
    if len(missing) < len(wanted):
        watcher.say(f"{len(wanted) - len(missing)} of {len(wanted)} runs are there already")
        ledger.show()
    if not missing:
        ledger.finish()
        return End(stopped=False, failed={})
    configs = {(run.config.model, run.config.data, run.config.data_dir): run.config for run in missing}
    with Presence(out) as presence:
        check(crew.everywhere(greet, presence.path, [*configs.values()]), presence.path)

        def job(planned: Planned) -> Job:
            seconds = max(1.0, crew.size / _LOOKS)
            return Job(experiment.name, quick, planned, out, presence.path, seconds, ledger.seen)

        sweep = Sweep(wanted, job, crew, ledger, watcher)
        whole = sweep.run(presence.end)
    ledger.finish()
    return End(stopped=not whole, failed=sweep.failed)
