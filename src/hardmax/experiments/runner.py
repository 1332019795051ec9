"""Makes the runs of a table or figure that are not there yet, and renders what is there."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hardmax.errors import ArgumentError, DataError
from hardmax.experiments.catalogue import choose_cells
from hardmax.experiments.declaration import Experiment
from hardmax.experiments.plan import Planned, plan
from hardmax.experiments.render import render
from hardmax.experiments.results import Row, find_row, identity, mend_results, read_results, row_of, same_run
from hardmax.training.checkpoint import write_atomically
from hardmax.training.config import read_config
from hardmax.training.log import append_rows
from hardmax.training.loop import Observer, train

ROWS = "results.jsonl"
_KIND = "experiment.json"  # what a folder is for


@dataclass(frozen=True)
class Watcher:
    """Whoever wants to see an experiment go by; every field may be left at doing nothing.

    Attributes:
        say: gets lines of text.
        begin: gets a run and how many of all are done, before it is made.
        step: gets the run, its epoch, steps done of that and steps in it.
        finished: gets a run and its row.
        stop: asked after every step whether to save and stop.
    """

    say: Callable[[str], None] = lambda text: None
    begin: Callable[[Planned, int, int], None] = lambda planned, done, total: None
    step: Callable[[Planned, int, int, int], None] = lambda planned, epoch, done, total: None
    finished: Callable[[Planned, Row], None] = lambda planned, row: None
    stop: Callable[[], bool] = lambda: False


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
    _claim(out, experiment, quick)
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
        watcher.begin(planned, done, len(wanted))
        if not _make(planned, watcher):
            return False
        row = row_of(experiment, planned, quick=quick)
        append_rows(out / ROWS, [row])
        rows.append(row)
        done += 1
        render(experiment, everything, rows, out, quick=quick)
        watcher.finished(planned, row)
    return True


def _make(planned: Planned, watcher: Watcher) -> bool:
    """Train, or go on training; a run of another configuration under this name is replaced."""
    run, config = Path(planned.config.out), planned.config
    if (run / "config.json").exists():
        if same_run(identity(read_config(run)[0]), config):
            config = replace(config, resume=True)
        else:
            watcher.say(f"{run} was made with other options and is made anew")
            shutil.rmtree(run)

    def step(epoch: int, done: int, total: int) -> None:
        watcher.step(planned, epoch, done, total)

    return train(config, Observer(step=step, stop=watcher.stop))


def _claim(out: Path, experiment: Experiment, quick: bool) -> None:
    """Write down what a folder is for, or refuse one that is for something else: runs would replace each other."""
    kind = {"experiment": experiment.name, "quick": quick}
    path = out / _KIND
    try:
        if path.exists():
            found = json.loads(path.read_text())
        else:
            out.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(kind) + "\n")
            return
    except (OSError, ValueError) as error:
        raise DataError(f"cannot use the folder {out}: {error}; choose another with --out") from error
    if found != kind:
        form = "the quick form" if isinstance(found, dict) and found.get("quick") else "the full form"
        name = found.get("experiment") if isinstance(found, dict) else "something else"
        raise ArgumentError(f"{out} holds {form} of {name}; choose another folder with --out")
