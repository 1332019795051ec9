"""Executors of runs: this process, or several processes on this machine; clusters are beside."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor

from hardmax.errors import ArgumentError
from hardmax.experiments.runner.job import Job, Outcome, work

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


SECONDS = 30.0  # that a cluster has to answer


def choose_crew(workers: int | None, cluster: str | None) -> "AbstractCrew | None":
    """Return who makes the runs; None for this process alone.

    Args:
        workers: number of processes on this machine.
        cluster: address of a Dask or Ray cluster.

    Raises:
        ArgumentError: both, or no number or address that could be used.
        MissingExtraError: what the cluster needs is not installed.
        ClusterError: it does not answer, or cannot be used as it is.
    """
    if workers is not None and cluster is not None:
        raise ArgumentError("give either --workers, for this machine, or --cluster")
    if workers is not None:
        if workers < 1:
            raise ArgumentError(f"workers must be at least 1, got {workers}")

        return Processes(workers)
    if cluster is None:
        return None
    scheme, _, place = cluster.partition("://")
    if not place or scheme not in ("dask", "tcp", "ray"):
        raise ArgumentError(
            f"--cluster {cluster!r} is no address; give dask://HOST:PORT or tcp://HOST:PORT for Dask, "
            "ray://HOST:PORT or ray://auto for Ray"
        )
    if scheme == "ray":
        from hardmax.experiments.runner.ray_cluster import RayCluster

        return RayCluster("auto" if place == "auto" else cluster, SECONDS)
    from hardmax.experiments.runner.dask_cluster import DaskCluster

    return DaskCluster(f"tcp://{place}", SECONDS)
