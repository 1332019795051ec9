"""Progress of a table or figure: callbacks, progress of the runs, remaining time, and the final result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hardmax.errors import DataError
from hardmax.experiments.tables.declaration import PlannedRun
from hardmax.training.run_folder import read_rows


@dataclass(frozen=True)
class SweepStatus:
    """Progress of the runs of a table or figure.

    Attributes:
        done: number of runs that have a row.
        running: runs that have been submitted.
        waiting: runs that have not been submitted yet.
        elsewhere: runs that other runners are making.
        failed: runs that could not be made.
        size: number of runs made at a time.
    """

    done: int
    running: tuple[PlannedRun, ...] = ()
    waiting: tuple[PlannedRun, ...] = ()
    elsewhere: tuple[PlannedRun, ...] = ()
    failed: tuple[PlannedRun, ...] = ()
    size: int = 1

    @property
    def total(self) -> int:
        """Number of all runs."""
        return self.done + len(self.running) + len(self.waiting) + len(self.elsewhere) + len(self.failed)


@dataclass(frozen=True)
class ProgressCallbacks:
    """Callbacks that observe a table or figure while it is made; by default each does nothing.

    Attributes:
        say: gets lines of text.
        begin: gets the name of a measurement, the number done and the total, before it is made.
        step: gets the fraction of it that is done, between 0 and 1, and a description of the current work.
        status: gets the progress of the runs, whenever it changes and about every second while runs are made elsewhere.
        finished: gets the name of a run or measurement, and its result in a few words.
        stop: polled; returns whether to save and stop.
    """

    say: Callable[[str], None] = lambda text: None
    begin: Callable[[str, int, int], None] = lambda name, done, total: None
    step: Callable[[float, str], None] = lambda part, doing: None
    status: Callable[[SweepStatus], None] = lambda status: None
    finished: Callable[[str, str], None] = lambda name, result: None
    stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class ReproduceResult:
    """Result of `reproduce`: whether it was stopped, and the runs that failed.

    Attributes:
        stopped: whether a callback stopped it before the end.
        failed: reasons of the runs that could not be made, by name.
    """

    stopped: bool
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Attributes:
        epoch: number of finished epochs.
        epochs: total number of epochs.
        bound: -ELBO of the validation images after the last finished epoch; None where there is no bound.
        seconds: duration of the finished epochs.
    """

    epoch: int
    epochs: int
    bound: float | None
    seconds: float


def read_progress(planned: PlannedRun) -> Progress:
    """Return the progress of a run; zero if its rows are missing or cannot be read."""
    run, epochs = Path(planned.config.out), planned.config.epochs
    try:
        rows = [row for row in read_rows(run / "metrics.jsonl") if row["split"] == "validation"]
        seconds = sum(row["train"] + row["evaluate"] for row in read_rows(run / "timing.jsonl"))
    except (DataError, KeyError):
        return Progress(0, epochs, None, 0.0)
    if not rows:
        return Progress(0, epochs, None, 0.0)
    elbo = rows[-1].get("elbo")
    return Progress(rows[-1]["epoch"], epochs, None if elbo is None else -elbo, seconds)


class Pace:
    """The speed of the runs so far, and an estimate of the remaining time."""

    def __init__(self) -> None:
        self._progress: dict[str, Progress] = {}

    def update(self, status: SweepStatus) -> list[Progress]:
        """Read and return the progress of the running runs."""
        running = [read_progress(planned) for planned in status.running]
        self._progress |= {planned.name: progress for planned, progress in zip(status.running, running, strict=True)}
        return running

    def seconds_left(self, status: SweepStatus, running: Sequence[Progress]) -> float | None:
        """Return the remaining time in seconds, at the speed of the epochs so far; None before the first epoch.

        Args:
            status: status of all runs.
            running: progress of the running runs.
        """
        epochs = sum(progress.epoch for progress in self._progress.values())
        if not epochs:
            return None
        each = sum(progress.seconds for progress in self._progress.values()) / epochs
        remaining = [
            (progress.epochs - progress.epoch) * (progress.seconds / progress.epoch if progress.epoch else each)
            for progress in running
        ]
        rest = sum(planned.config.epochs for planned in status.waiting) * each
        return max([(sum(remaining) + rest) / max(status.size, 1), *remaining])
