"""Make the missing rows of a table or figure, and render its page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hardmax.experiments.rows import ROWS
from hardmax.experiments.runner.executors import AbstractExecutor
from hardmax.experiments.runner.locks import claim_folder
from hardmax.experiments.runner.measure import measure_missing
from hardmax.experiments.runner.progress import ProgressCallbacks, ReproduceResult
from hardmax.experiments.runner.results_folder import ResultsFolder
from hardmax.experiments.runner.sweep import run_missing
from hardmax.experiments.tables.declaration import AbstractExperiment

_MOST_SHOWN = 5  # broken lines that are explained


def reproduce(
    experiment: AbstractExperiment,
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    seeds: Sequence[int] = (),
    data_dir: str | None = None,
    rows: Sequence[Path] = (),
    executor: AbstractExecutor | None = None,
    callbacks: ProgressCallbacks | None = None,
) -> ReproduceResult:
    """Make the missing rows, and render the page as they arrive.

    A run or measurement is missing unless `results.jsonl` has a row with exactly its configuration. A run that was
    stopped or killed is resumed from its last checkpoint. Several runners may work in the same folder: no run is made
    twice.

    Args:
        experiment: the table or figure.
        out: the folder for rows, runs and the page; all machines of an executor must see it under this name.
        quick: its quick form.
        only: names of cells or parts, or patterns; default: all.
        seeds: seeds of the table; default: all.
        data_dir: folder that holds the named data sets.
        rows: files of rows that are imported where they match.
        executor: makes the runs; default: this process, which always makes the measurements.
        callbacks: observe it.

    Raises:
        ArgumentError: unknown cell, part or seed, a folder of another table, or the executor cannot work in it.
        DataError: data cannot be read, or the folder cannot be written.
        ClusterError: the cluster is lost.
    """
    callbacks = callbacks or ProgressCallbacks()
    out = out.absolute()
    data_dir = None if data_dir is None else str(Path(data_dir).absolute())
    everything = experiment.plan(out, quick=quick, data_dir=data_dir)
    wanted = experiment.plan(out, quick=quick, data_dir=data_dir, only=only, seeds=seeds)
    claim_folder(out, experiment.name, quick=quick)
    folder = ResultsFolder(experiment, everything, out, quick=quick)
    if folder.broken:
        shown = "; ".join(folder.broken[:_MOST_SHOWN]) + ("; ..." if len(folder.broken) > _MOST_SHOWN else "")
        callbacks.say(
            f"{len(folder.broken)} broken lines of {out / ROWS} were removed, and their {experiment.work} are made "
            f"again: {shown}"
        )
    if rows:
        callbacks.say(f"{folder.import_rows(rows)} {experiment.work} are copied from other folders")
    done = sum(folder.find_row(planned) is not None for planned in wanted)
    if done:
        callbacks.say(f"{done} of {len(wanted)} {experiment.work} are finished already")
        folder.render_if_due()
    result = ReproduceResult(stopped=False)
    if done < len(wanted):
        make_missing = {"runs": partial(run_missing, executor=executor), "measurements": measure_missing}
        result = make_missing[experiment.work](folder, wanted, callbacks)
    folder.finish()
    return result
