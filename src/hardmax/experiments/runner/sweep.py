"""Gives out runs to a crew until all are made; other runners may be at work in the same folder."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from hardmax.applications.registry import find_application
from hardmax.experiments.runner.executors import AbstractCrew
from hardmax.experiments.runner.job import Job, Outcome
from hardmax.experiments.runner.ledger import Ledger
from hardmax.experiments.runner.locks import is_free
from hardmax.experiments.runner.plan import Planned
from hardmax.experiments.runner.progress import Standing, Watcher
from hardmax.experiments.runner.rows import Row

_SECONDS = 1.0  # between two looks at the runs of others, and at whether to stop


class Sweep:
    """The runs that are missing, on their way to a row.

    A run whose lock is held is passed over and looked at again, until it has a row or its lock is free. One whose
    process was lost is given out again, a few times. One that fails is told of, and the others go on.

    Args:
        runs: those wanted.
        job: from a run to its job.
        crew: makes them.
        ledger: gets their rows.
        watcher: sees it go by.

    Attributes:
        failed: why runs failed, by name.
    """

    def __init__(
        self,
        runs: Sequence[Planned],
        job: Callable[[Planned], Job],
        crew: AbstractCrew,
        ledger: Ledger,
        watcher: Watcher,
    ) -> None:
        self._job, self._crew, self._ledger, self._watcher = job, crew, ledger, watcher
        self._waiting = deque(planned for planned in runs if ledger.find(planned) is None)
        self._done = len(runs) - len(self._waiting)
        self._running: dict[Future[Outcome], Planned] = {}
        self._elsewhere: list[Planned] = []
        self._given: Counter[str] = Counter()
        self._failed: list[Planned] = []
        self.failed: dict[str, str] = {}

    def run(self, end: Callable[[], None]) -> bool:
        """Make all runs; return False if the watcher stopped it before the end.

        Args:
            end: called when the watcher stops it: has the crew save and stop.
        """
        while self._waiting or self._running or self._elsewhere:
            if self._watcher.stop():
                end()
                self._drain()
                return False
            self._give_out()
            self._collect()
            self._look_elsewhere()
            self._ledger.show()
        return True

    def _give_out(self) -> None:
        for _ in range(min(len(self._waiting), self._crew.size - len(self._running))):
            if self._watcher.stop():
                return
            planned = self._waiting.popleft()
            self._tell(planned)
            self._given[planned.name] += 1
            self._running[self._crew.make(self._job(planned))] = planned

    def _collect(self) -> None:
        """Take what is finished, after a second at most."""
        self._crew.check()
        self._tell()
        if not self._running:
            time.sleep(_SECONDS)  # all that is left is with others, or the crew is empty
            return
        for future in wait(self._running, timeout=_SECONDS, return_when="FIRST_COMPLETED").done:
            planned = self._running.pop(future)
            if (error := _lost(future)) is None:
                self._take(planned, future.result())
            else:
                self._crew.check()
                self._give_again(planned, "its process was lost", f"{type(error).__name__}: {error}")

    def _give_again(self, planned: Planned, what: str, why: str) -> None:
        """Have a run go on from its last checkpoint, unless that has been tried often enough."""
        given = self._given[planned.name]
        if given < self._crew.tries:
            self._watcher.say(f"{planned.name}: {what}; it goes on from its last checkpoint")
            self._waiting.appendleft(planned)
        else:
            self._fail(planned, f"{what}{f', {given} times' if given > 1 else ''}; {why}")

    def _take(self, planned: Planned, outcome: Outcome) -> None:
        for line in outcome.said:
            self._watcher.say(line)
        if outcome.kind == "failed":
            self._fail(planned, outcome.reason)
        elif outcome.kind == "held":
            self._given[planned.name] -= 1
            self._elsewhere.append(planned)
            self._watcher.say(f"{planned.name} is with another runner")
        elif outcome.row is None:
            if not self._watcher.stop():
                self._give_again(planned, "it stopped by itself", "it did not find the lock of its runner held")
        else:
            self._ledger.add(planned, outcome.row)
            self._finish(planned, outcome.row)

    def _look_elsewhere(self) -> None:
        """See whether others have made the runs that they were at, or have left them."""
        if not self._elsewhere:
            return
        self._ledger.look()
        left, self._elsewhere = self._elsewhere, []
        for planned in left:
            if (row := self._ledger.find(planned)) is not None:
                self._finish(planned, row)
            elif is_free(self._job(planned).lock):
                self._waiting.append(planned)
            else:
                self._elsewhere.append(planned)

    def _drain(self) -> None:
        """Wait until all that runs has been saved; what was finished meanwhile counts."""
        while self._running:
            for future in wait(self._running, timeout=_SECONDS).done:
                planned = self._running.pop(future)
                if _lost(future) is None:
                    self._take(planned, future.result())
            self._crew.check()

    def _finish(self, planned: Planned, row: Row) -> None:
        self._done += 1
        self._watcher.finished(planned.name, summarize_row(row, planned.config.model))

    def _fail(self, planned: Planned, reason: str) -> None:
        self._failed.append(planned)
        self.failed[planned.name] = reason = " ".join(reason.split())
        self._watcher.say(f"{planned.name} failed: {reason}")

    def _tell(self, *next_one: Planned) -> None:
        self._watcher.standing(
            Standing(
                self._done,
                (*self._running.values(), *next_one),
                tuple(self._waiting),
                tuple(self._elsewhere),
                tuple(self._failed),
                self._crew.size,
            )
        )


def _lost(future: "Future[Outcome]") -> BaseException | None:
    """Return the error that a lost process leaves, or None."""
    try:
        future.result()
    except Exception as error:
        return error
    return None


def summarize_row(row: Row, model: str) -> str:
    """Return the numbers of a finished run that its application shows, in one line."""
    test = row["test"][-1]
    numbers = [
        f"{shown.label} {test[shown.key]:{shown.format}}"
        for shown in find_application(model).summary
        if shown.key in test
    ]
    return "  ".join([*numbers, f"{row['seconds_per_epoch']:.1f} s per epoch"])
