"""Several processes on this machine, by joblib's loky."""

import signal
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor

from hardmax.experiments.crews.crew import AbstractCrew
from hardmax.experiments.job import Job, Outcome, work

T = TypeVar("T")

_IDLE = 10.0  # seconds after which a process without work ends, also one whose parent was killed
# Before anything is loaded; torch is told once more for every job.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Processes(AbstractCrew):
    """So many processes, each a pool of its own: a pool whose process is killed takes all of its others down with it.

    For the same reason no `joblib.Parallel`: it ends with the first process that is lost.

    Args:
        count: of processes, at least one.
    """

    def __init__(self, count: int) -> None:
        self._pools = [_Pool() for _ in range(count)]

    @property
    def size(self) -> int:
        """As many as there are processes."""
        return len(self._pools)

    def make(self, job: Job) -> "Future[Outcome]":
        """Have a job done by a process that has nothing to do; there must be one."""
        return next(pool for pool in self._pools if pool.idle).make(job)

    def everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function here: the processes are no different."""
        return [function(*arguments)]

    def check(self) -> None:
        """It is there: a process that is lost is replaced."""

    def close(self, *, at_once: bool) -> None:
        """End all processes."""
        for pool in self._pools:
            pool.close(at_once=at_once)


class _Pool:
    """One process, started when needed."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._executor = ProcessPoolExecutor(1, timeout=_IDLE, initializer=_ignore_interrupts, env=_ONE_THREAD)
        self._future: Future[Outcome] | None = None

    @property
    def idle(self) -> bool:
        return self._future is None or self._future.done()

    def make(self, job: Job) -> "Future[Outcome]":
        try:
            future = self._executor.submit(work, job)
        except BrokenProcessPool:  # by the job before
            self._start()
            future = self._executor.submit(work, job)
        self._future = future
        return future

    def close(self, *, at_once: bool) -> None:
        self._executor.shutdown(wait=True, kill_workers=at_once)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the runner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
