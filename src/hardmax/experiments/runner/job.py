"""A run as a job that any process on any machine can do: it gets plain arguments and returns a row."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal

from hardmax.applications.registry import find_application
from hardmax.applications.runs import read_config, train
from hardmax.errors import ArgumentError, DataError, HardmaxError
from hardmax.experiments.rows import ROWS, Row, find_row, hash_options, identify_run, is_same_run, read_rows_from
from hardmax.experiments.runner.locks import lock_path
from hardmax.experiments.runner.worker_check import collect_versions, compare_versions
from hardmax.experiments.tables.declaration import PlannedRun
from hardmax.report.tables import format_command
from hardmax.threads import use_one_thread
from hardmax.training.config import TrainConfig
from hardmax.training.locks import is_free, remove_run, try_lock
from hardmax.training.loop import Observer
from hardmax.training.run_folder import has_run, read_rows

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A run to be made.

    Attributes:
        experiment: the name of the table or figure.
        quick: whether this is its quick form.
        planned: the run.
        out: folder of the table or figure, the same on all machines.
        runner_lock: lock that the runner holds as long as it wants the run.
        poll_seconds: seconds between two checks of that lock.
        offset: position in bytes up to which the runner has read `results.jsonl`.
        versions: versions that the runner uses.
    """

    experiment: str
    quick: bool
    planned: PlannedRun
    out: Path
    runner_lock: Path
    poll_seconds: float
    offset: int
    versions: dict[str, str] = field(default_factory=collect_versions)

    @property
    def lock(self) -> Path:
        """The lock of the run."""
        return lock_path(self.out, self.planned.name)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job.

    Attributes:
        kind: "made", now or before; "stopped" and saved; "held" by another runner; "failed".
        row: row of a run that was made.
        reason: reason of a failure.
        messages: lines for the reader.
    """

    kind: Literal["made", "stopped", "held", "failed"]
    row: Row | None = None
    reason: str = ""
    messages: tuple[str, ...] = ()


def run_job(job: Job, stop: Callable[[], bool] | None = None) -> Outcome:
    """Train a run, or resume it from its last checkpoint, unless another process is training it.

    Torch gets one thread: the last digits of sums depend on the number of threads. An error of the run is part of the
    returned outcome, so a raised error means that the process itself is lost.

    Args:
        job: the job.
        stop: polled after every step; returns whether to save and stop. By default, whether the runner is gone.
    """
    stop = stop or _poll_runner(job.runner_lock, job.poll_seconds)
    messages: list[str] = []
    try:
        with try_lock(job.lock) as held:
            if not held:
                return Outcome("held")
            new_rows, _ = read_rows_from(job.out / ROWS, job.offset, job.planned.fields)
            if (row := find_row(new_rows, job.planned)) is not None:
                return Outcome("made", row)  # by another runner, in the meantime
            if (difference := compare_versions(collect_versions(), job.versions)) is not None:
                raise ArgumentError(difference)
            with use_one_thread():
                if stop() or not train_or_resume(job.planned.config, Observer(should_stop=stop), messages.append):
                    return Outcome("stopped", messages=tuple(messages))
                row = make_row(job.experiment, job.planned, quick=job.quick)
            return Outcome("made", row, messages=tuple(messages))
    except HardmaxError as error:
        return Outcome("failed", reason=str(error), messages=tuple(messages))
    except Exception as error:
        _log.exception("the run %s failed", job.planned.name)
        return Outcome("failed", reason=f"{type(error).__name__}: {error}", messages=tuple(messages))


def _poll_runner(runner_lock: Path, seconds: float) -> Callable[[], bool]:
    """Return a function that returns whether the runner is gone; it checks at most once in `seconds` seconds."""
    checked, gone = float("-inf"), False

    def stop() -> bool:
        nonlocal checked, gone
        if time.monotonic() - checked >= seconds:
            checked, gone = time.monotonic(), is_free(runner_lock)
        return gone

    return stop


def train_or_resume(config: TrainConfig, observer: Observer, say: Callable[[str], None]) -> bool:
    """Train, or resume training; a run of another configuration in this folder is replaced.

    Args:
        config: the configuration of the run; `config.out` is its folder.
        observer: observes the training.
        say: gets a message when a run is replaced.

    Returns:
        False if the observer stopped it before the end.
    """
    run = Path(config.out)
    if holds_run(config):
        config = replace(config, resume=True)
    elif has_run(run):
        say(f"{run} was made with other options and is made again")
        remove_run(run)
    return train(config, observer)


def holds_run(config: TrainConfig) -> bool:
    """Whether the folder holds a run of exactly this configuration, finished or not."""
    run = Path(config.out)
    return has_run(run) and is_same_run(identify_run(read_config(run)[0]), config)


def make_row(experiment: str, planned: PlannedRun, *, quick: bool) -> Row:
    """Return the row of a finished run, from its folder; for a gallery, with the figure that its model draws.

    Args:
        experiment: the name of the table or figure.
        planned: the run.
        quick: whether this is the quick form.

    Raises:
        DataError: the folder does not hold a finished run.
    """
    run = Path(planned.config.out)
    _, provenance = read_config(run)
    metrics = read_rows(run / "metrics.jsonl")
    timing = read_rows(run / "timing.jsonl")
    seconds = [row["train"] for row in timing]
    config = identify_run(planned.config)
    metric_keys = find_application(planned.config.model).row_metrics
    rows = {
        split: [_select_metrics(row, metric_keys) for row in metrics if row["split"] == split]
        for split in ("validation", "test")
    }
    if not seconds or not rows["test"]:
        raise DataError(
            f"{run} does not hold a finished run: metrics.jsonl or timing.jsonl is empty; remove the folder"
        )
    train = [row for row in metrics if row["split"] == "train"]
    bounds = {row["epoch"]: -row["elbo"] for row in train if row.get("elbo") is not None}
    for row in rows["test"]:
        if row["epoch"] in bounds:
            row["train_negative_elbo"] = bounds[row["epoch"]]
    row = {
        "experiment": experiment,
        "quick": quick,
        "cell": planned.cell.name,
        "seed": planned.seed,
        "hash": hash_options(config),
        "config": config,
        "command": format_command(replace(planned.config, out=f"runs/{planned.name}", data_dir=None)),
        "commit": provenance.get("commit"),
        "versions": provenance.get("versions"),
        "seconds_per_epoch": median(seconds),
        "seconds": seconds,
        # With one thread, this is the time on an idle machine, also if the machine was busy.
        "processor_seconds": [row.get("processor") for row in timing],
        "starts": read_rows(run / "starts.jsonl"),
        "evaluations": _mean_evaluations(train),
        **rows,
    }
    if (figure := planned.figure) is not None:
        from hardmax.experiments.runner.model_figures import draw_model_figure

        row |= {"look": figure.options, "exhibit": draw_model_figure(figure, planned.config).to_dict()}
    return row


def _mean_evaluations(rows: list[dict[str, Any]]) -> float | None:
    """Return the mean over epochs; None if evaluations were not counted, or there is no bound."""
    known = [row["evaluations"] for row in rows if row.get("evaluations") is not None]
    return mean(known) if known else None


def _select_metrics(row: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an epoch in a result row: the bound, and the metrics in `keys` that were measured."""
    bound = {} if row.get("elbo") is None else {"negative_elbo": -row["elbo"]}
    return {"epoch": row["epoch"], **bound, **{key: row[key] for key in keys if row.get(key) is not None}}
