"""Progress of a table or figure: callbacks that observe it, how far its runs are, and how it ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hardmax.errors import DataError
from hardmax.experiments.tables.declaration import PlannedRun
from hardmax.training.run_folder import read_rows


@dataclass(frozen=True)
class SweepStatus:
    """How far the runs of a table or figure are.

    Attributes:
        done: number of runs that have a row.
        running: runs that have been submitted.
        waiting: runs that have not been submitted yet.
        elsewhere: runs that other runners are making.
        failed: runs that could not be made.
        size: how many are made at a time.
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
        begin: gets the name of a measurement and how many of all are done, before it is made.
        step: gets how much of it is done, between 0 and 1, and what is being done.
        status: gets how far the runs are, whenever that changes and about every second while runs are made elsewhere.
        finished: gets the name of a run or measurement, and its result in a few words.
        stop: polled for whether to save and stop.
    """

    say: Callable[[str], None] = lambda text: None
    begin: Callable[[str, int, int], None] = lambda name, done, total: None
    step: Callable[[float, str], None] = lambda part, doing: None
    status: Callable[[SweepStatus], None] = lambda status: None
    finished: Callable[[str, str], None] = lambda name, result: None
    stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class ReproduceResult:
    """How the making of a table or figure ended.

    Attributes:
        stopped: whether a callback stopped it before all was made.
        failed: runs that could not be made, by name, and why.
    """

    stopped: bool
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        epoch: epochs done.
        epochs: in all.
        bound: -ELBO of the validation pictures after the last of them; None where there is no bound.
        seconds: that they took.
    """

    epoch: int
    epochs: int
    bound: float | None
    seconds: float


def read_progress(planned: PlannedRun) -> Progress:
    """Return how far a run is; one that has written nothing yet, or nothing that can be read now, is at its start."""
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
    """Speed of the runs observed so far, and the time left that follows from it."""

    def __init__(self) -> None:
        self._progress: dict[str, Progress] = {}

    def update(self, status: SweepStatus) -> list[Progress]:
        """Read how far the runs are that are being made, and return it."""
        running = [read_progress(planned) for planned in status.running]
        self._progress |= {planned.name: progress for planned, progress in zip(status.running, running, strict=True)}
        return running

    def seconds_left(self, status: SweepStatus, running: Sequence[Progress]) -> float | None:
        """Return the time until the last run is done, each epoch as long as those so far; None before the first.

        Args:
            status: which runs there are.
            running: how far those are that are being made.
        """
        epochs = sum(progress.epoch for progress in self._progress.values())
        if not epochs:
            return None
        each = sum(progress.seconds for progress in self._progress.values()) / epochs
        own = [(one.epochs - one.epoch) * (one.seconds / one.epoch if one.epoch else each) for one in running]
        rest = sum(planned.config.epochs for planned in status.waiting) * each
        return max([(sum(own) + rest) / max(status.size, 1), *own])
