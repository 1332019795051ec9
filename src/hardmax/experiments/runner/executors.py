"""Executors of runs: this process, or several processes on this machine; clusters are beside."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from loky import BrokenProcessPool, ProcessPoolExecutor

from hardmax.errors import ArgumentError
from hardmax.experiments.runner.job import Job, Outcome, run_job

T = TypeVar("T")


class AbstractExecutor(ABC):
    """Makes runs, in this process or others.

    A future that raises means that the process which had the job is lost, and no other one.

    Attributes:
        tries: how many times a job is submitted before it is taken to be the reason why its processes die.
    """

    tries = 3

    @property
    @abstractmethod
    def size(self) -> int:
        """How many jobs are done at a time; may change."""

    @abstractmethod
    def submit(self, job: Job) -> "Future[Outcome]":
        """Have a job done."""

    @abstractmethod
    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function on every machine, and return what it returned.

        Raises:
            ClusterError: one of them could not.
        """

    @abstractmethod
    def check_alive(self) -> None:
        """Check that the executor still works.

        Raises:
            ClusterError: it does not.
        """

    @abstractmethod
    def close(self, *, at_once: bool) -> None:
        """Let go of all processes; `at_once`, also of those at work."""

    def __enter__(self) -> "AbstractExecutor":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(at_once=kind is not None)


class ThisProcess(AbstractExecutor):
    """This process, one job after the other.

    Args:
        stop: polled after every step for whether to save and stop.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop

    @property
    def size(self) -> int:
        """One."""
        return 1

    def submit(self, job: Job) -> "Future[Outcome]":
        """Do a job, and return when it is done."""
        future: Future[Outcome] = Future()
        future.set_result(run_job(job, self._stop))
        return future

    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function here."""
        return [function(*arguments)]

    def check_alive(self) -> None:
        """This process is alive."""

    def close(self, *, at_once: bool) -> None:
        """There is no other process to let go."""


_IDLE = 10.0  # seconds after which a process without work ends, also one whose parent was killed
# Set before anything is loaded; the number of torch's threads is set once more for every job.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Processes(AbstractExecutor):
    """Several processes, each a pool of its own: a pool whose process is killed takes all of its others down with it.

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

    def submit(self, job: Job) -> "Future[Outcome]":
        """Have a job done by an idle process; there must be one."""
        return next(pool for pool in self._pools if pool.idle).submit(job)

    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function here: the processes are no different."""
        return [function(*arguments)]

    def check_alive(self) -> None:
        """It always works: a process that is lost is replaced."""

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

    def submit(self, job: Job) -> "Future[Outcome]":
        try:
            future = self._executor.submit(run_job, job)
        except BrokenProcessPool:  # by the job before
            self._start()
            future = self._executor.submit(run_job, job)
        self._future = future
        return future

    def close(self, *, at_once: bool) -> None:
        self._executor.shutdown(wait=True, kill_workers=at_once)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the runner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


TIMEOUT = 30.0  # seconds that a cluster has to answer


def choose_executor(workers: int | None, cluster: str | None) -> "AbstractExecutor | None":
    """Return the executor that options ask for; None for this process alone.

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

        return RayCluster("auto" if place == "auto" else cluster, TIMEOUT)
    from hardmax.experiments.runner.dask_cluster import DaskCluster

    return DaskCluster(f"tcp://{place}", TIMEOUT)
