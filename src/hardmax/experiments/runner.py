"""Makes the runs of a table or figure that are not there yet, and renders what is there."""

from collections.abc import Sequence
from pathlib import Path

from hardmax.experiments.catalogue import choose_cells
from hardmax.experiments.declaration import Experiment
from hardmax.experiments.folder import claim
from hardmax.experiments.making import make_run
from hardmax.experiments.plan import Planned, plan
from hardmax.experiments.render import render
from hardmax.experiments.results import ROWS, Row, find_row, mend_results, read_results, row_of
from hardmax.experiments.watcher import Watcher
from hardmax.training.log import append_rows
from hardmax.training.loop import Observer


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    data_dir: str | None = None,
    watcher: Watcher | None = None,
) -> bool:
    """Make what is missing, render after every run; return False if the watcher stopped it before the end.

    A run is missing unless `results.jsonl` has a row with its very configuration. One that was stopped or killed goes
    on from its last checkpoint.

    Args:
        experiment: what to make.
        out: the folder for rows, runs and what is rendered.
        quick: its quick form.
        only: names of cells; without them, all.
        data_dir: folder that holds the named data sets.
        watcher: sees it go by.

    Raises:
        ArgumentError: no such cell, or the folder is for something else.
        DataError: data cannot be read, or the folder cannot be written.
    """
    watcher = watcher or Watcher()
    cells = choose_cells(experiment, only)
    claim(out, experiment.name, quick=quick)
    if broken := mend_results(out / ROWS):
        watcher.say(f"{broken} broken lines of {out / ROWS} were removed; their runs are made again")
    everything = plan(experiment, experiment.cells, out, quick=quick, data_dir=data_dir)
    wanted = plan(experiment, cells, out, quick=quick, data_dir=data_dir)
    rows, _ = read_results(out / ROWS)
    missing = [planned for planned in wanted if find_row(rows, planned) is None]
    done = len(wanted) - len(missing)
    if done:
        watcher.say(f"{done} of {len(wanted)} runs are there already")
        render(experiment, everything, rows, out, quick=quick)
    for planned in missing:
        watcher.begin(planned.name, done, len(wanted))
        if not make_run(planned.config, _observer(planned, watcher), watcher.say):
            return False
        row = row_of(experiment, planned, quick=quick)
        append_rows(out / ROWS, [row])
        rows.append(row)
        done += 1
        render(experiment, everything, rows, out, quick=quick)
        watcher.finished(planned.name, _told(row))
    return True


def _observer(planned: Planned, watcher: Watcher) -> Observer:
    epochs = planned.config.epochs

    def step(epoch: int, done: int, total: int) -> None:
        watcher.step((epoch + done / total) / epochs, f"{planned.name}, epoch {epoch + 1}/{epochs}")

    return Observer(step=step, stop=watcher.stop)


def _told(row: Row) -> str:
    test = row["test"][-1]
    return f"-ELBO {test['negative_elbo']:.2f}  -log p {test['nll']:.2f}  {row['seconds_per_epoch']:.1f} s per epoch"
