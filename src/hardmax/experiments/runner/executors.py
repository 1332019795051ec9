"""Executors of runs: this process, or several processes on this machine; `choose_executor` also knows clusters."""

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
    """Interface of executors, which make runs in this process or in other processes.

    If a future raises an error, the process of that job is lost, and no other one.

    Attributes:
        tries: maximum number of times that a job is submitted; then it counts as the cause of its lost processes.
    """

    tries = 3

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of jobs that run at the same time; may change."""

    @abstractmethod
    def submit(self, job: Job) -> "Future[Outcome]":
        """Submit a job."""

    @abstractmethod
    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function on every machine, and return the results.

        Raises:
            ClusterError: a machine cannot call it.
        """

    @abstractmethod
    def check_alive(self) -> None:
        """Check that the executor still works.

        Raises:
            ClusterError: it does not work.
        """

    @abstractmethod
    def close(self, *, at_once: bool) -> None:
        """Release all processes; with `at_once`, also the busy ones."""

    def __enter__(self) -> "AbstractExecutor":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(at_once=kind is not None)


class ThisProcess(AbstractExecutor):
    """This process, one job after the other.

    Args:
        stop: polled after every step; returns whether to save and stop.
    """

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop

    @property
    def size(self) -> int:
        """One."""
        return 1

    def submit(self, job: Job) -> "Future[Outcome]":
        """Run a job, and return when it is done."""
        future: Future[Outcome] = Future()
        future.set_result(run_job(job, self._stop))
        return future

    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function here."""
        return [function(*arguments)]

    def check_alive(self) -> None:
        """Do nothing: this process is alive."""

    def close(self, *, at_once: bool) -> None:
        """Do nothing: there is no other process to release."""


_IDLE = 10.0  # seconds after which an idle process exits, also one whose parent was killed
# Set before any library is loaded; the number of torch's threads is set again for every job.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Processes(AbstractExecutor):
    """Several processes, each in a separate pool: in a shared pool, one killed process ends all of them.

    For the same reason it does not use `joblib.Parallel`, which ends with the first process that is lost.

    Args:
        count: number of processes, at least one.
    """

    def __init__(self, count: int) -> None:
        self._pools = [_Pool() for _ in range(count)]

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self._pools)

    def submit(self, job: Job) -> "Future[Outcome]":
        """Submit a job to an idle process; there must be one."""
        return next(pool for pool in self._pools if pool.is_idle).submit(job)

    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function here: the processes have the same code and files."""
        return [function(*arguments)]

    def check_alive(self) -> None:
        """Do nothing: a process that is lost is replaced."""

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
    def is_idle(self) -> bool:
        return self._future is None or self._future.done()

    def submit(self, job: Job) -> "Future[Outcome]":
        try:
            future = self._executor.submit(run_job, job)
        except BrokenProcessPool:  # broken by the job before
            self._start()
            future = self._executor.submit(run_job, job)
        self._future = future
        return future

    def close(self, *, at_once: bool) -> None:
        self._executor.shutdown(wait=True, kill_workers=at_once)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes: the runner handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


TIMEOUT = 30.0  # seconds to wait for the answer of a cluster


def choose_executor(workers: int | None, cluster: str | None) -> "AbstractExecutor | None":
    """Return the executor for the given options; None for this process only.

    Args:
        workers: number of processes on this machine.
        cluster: address of a Dask or Ray cluster.

    Raises:
        ArgumentError: both are given, or an invalid number or address.
        MissingExtraError: the packages of the cluster are not installed.
        ClusterError: the cluster does not answer, or cannot be used as it is.
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
            f"--cluster {cluster!r} is not an address; give dask://HOST:PORT or tcp://HOST:PORT for Dask, "
            "ray://HOST:PORT or ray://auto for Ray"
        )
    if scheme == "ray":
        from hardmax.experiments.runner.ray_cluster import RayCluster

        return RayCluster("auto" if place == "auto" else cluster, TIMEOUT)
    from hardmax.experiments.runner.dask_cluster import DaskCluster

    return DaskCluster(f"tcp://{place}", TIMEOUT)
