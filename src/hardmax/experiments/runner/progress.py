"""Progress of a table or figure: callbacks that observe it, and how far its runs are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardmax.errors import DataError
from hardmax.experiments.runner.plan import Planned
from hardmax.training.run_folder import read_rows


@dataclass(frozen=True)
class Standing:
    """How far the runs of a table or figure are.

    Attributes:
        done: number of runs that have a row.
        running: those given out.
        waiting: those that are not yet.
        elsewhere: those that other runners are at.
        failed: those that could not be made.
        size: how many are made at a time.
    """

    done: int
    running: tuple[Planned, ...] = ()
    waiting: tuple[Planned, ...] = ()
    elsewhere: tuple[Planned, ...] = ()
    failed: tuple[Planned, ...] = ()
    size: int = 1

    @property
    def total(self) -> int:
        """Number of all runs."""
        return self.done + len(self.running) + len(self.waiting) + len(self.elsewhere) + len(self.failed)


@dataclass(frozen=True)
class Watcher:
    """Sees it go by; every field may be left at doing nothing.

    Attributes:
        say: gets lines of text.
        begin: gets the name of a measurement and how many of all are done, before it is made.
        step: gets how much of it is done, between 0 and 1, and what is being done.
        standing: gets how far the runs are, whenever that changes and about every second while runs are made elsewhere.
        finished: gets the name of a run or measurement, and what came out in a few words.
        stop: asked again and again whether to save and stop.
    """

    say: Callable[[str], None] = lambda text: None
    begin: Callable[[str, int, int], None] = lambda name, done, total: None
    step: Callable[[float, str], None] = lambda part, doing: None
    standing: Callable[[Standing], None] = lambda standing: None
    finished: Callable[[str, str], None] = lambda name, told: None
    stop: Callable[[], bool] = lambda: False


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


def read_progress(planned: Planned) -> Progress:
    """Return how far a run is; one that has written nothing yet, or nothing that can be read now, is at its start."""
    run, epochs = Path(planned.config.out), planned.config.epochs
    try:
        found = [row for row in read_rows(run / "metrics.jsonl") if row["split"] == "validation"]
        seconds = sum(row["train"] + row["evaluate"] for row in read_rows(run / "timing.jsonl"))
    except (DataError, KeyError):
        return Progress(0, epochs, None, 0.0)
    if not found:
        return Progress(0, epochs, None, 0.0)
    elbo = found[-1].get("elbo")
    return Progress(found[-1]["epoch"], epochs, None if elbo is None else -elbo, seconds)


class Pace:
    """How fast the runs go that have been seen, and so when all of them will be done."""

    def __init__(self) -> None:
        self._seen: dict[str, Progress] = {}

    def look(self, standing: Standing) -> list[Progress]:
        """Return how far the runs are that are being made."""
        found = [read_progress(planned) for planned in standing.running]
        self._seen |= {planned.name: progress for planned, progress in zip(standing.running, found, strict=True)}
        return found

    def seconds_left(self, standing: Standing, running: Sequence[Progress]) -> float | None:
        """Return the time until the last run is done, each epoch as long as those so far; None before the first.

        Args:
            standing: which runs there are.
            running: how far those are that are being made.
        """
        epochs = sum(progress.epoch for progress in self._seen.values())
        if not epochs:
            return None
        each = sum(progress.seconds for progress in self._seen.values()) / epochs
        own = [(one.epochs - one.epoch) * (one.seconds / one.epoch if one.epoch else each) for one in running]
        rest = sum(planned.config.epochs for planned in standing.waiting) * each
        return max([(sum(own) + rest) / max(standing.size, 1), *own])
