"""Whoever wants to see a table or figure being made."""

from collections.abc import Callable
from dataclasses import dataclass

from hardmax.experiments.plan import Planned


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
