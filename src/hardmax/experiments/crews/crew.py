"""A crew takes up jobs and gives back futures; the simplest is this process alone."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from hardmax.experiments.job import Job, Outcome, work

T = TypeVar("T")


class AbstractCrew(ABC):
    """Who makes runs.

    A future that raises means that the process which was at the job is lost, and no other one.

    Attributes:
        tries: how many times a job is given out before it is thought to be what its processes die of.
    """

    tries = 3

    @property
    @abstractmethod
    def size(self) -> int:
        """How many jobs are done at a time; may change."""

    @abstractmethod
    def make(self, job: Job) -> "Future[Outcome]":
        """Have a job done."""

    @abstractmethod
    def everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function on every machine, and return what it returned.

        Raises:
            ClusterError: one of them could not.
        """

    @abstractmethod
    def check(self) -> None:
        """Find out whether the crew is still there.

        Raises:
            ClusterError: it is not.
        """

    @abstractmethod
    def close(self, *, at_once: bool) -> None:
        """Let go of all processes; `at_once`, also of those at work."""

    def __enter__(self) -> "AbstractCrew":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(at_once=kind is not None)


class Alone(AbstractCrew):
    """This process, one job after the other.

    Args:
        stop: asked after every step whether to save and stop.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop

    @property
    def size(self) -> int:
        """One."""
        return 1

    def make(self, job: Job) -> "Future[Outcome]":
        """Do a job, and return when it is done."""
        future: Future[Outcome] = Future()
        future.set_result(work(job, self._stop))
        return future

    def everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function here."""
        return [function(*arguments)]

    def check(self) -> None:
        """It is there."""

    def close(self, *, at_once: bool) -> None:
        """There is nobody to let go."""
