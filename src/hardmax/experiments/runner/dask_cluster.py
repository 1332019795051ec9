"""An executor that runs on the workers of a Dask cluster."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from hardmax.errors import ClusterError, MissingExtraError
from hardmax.experiments.runner.executors import AbstractExecutor
from hardmax.experiments.runner.job import Job, Outcome, run_job

T = TypeVar("T")


class DaskCluster(AbstractExecutor):
    """An existing Dask cluster, one job for each worker at a time.

    Args:
        address: address of its scheduler, such as tcp://host:8786.
        seconds: time to wait for it.

    Raises:
        MissingExtraError: Dask is not installed.
        ClusterError: no scheduler answers, or it has no workers, or workers with several threads.
    """

    tries = 1  # the scheduler itself submits a job again, up to its allowed-failures

    def __init__(self, address: str, seconds: float) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtraError(
                f"a Dask cluster needs distributed, which is not installed ({error}): pip install 'hardmax[cluster]'"
            ) from error
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # errors are raised as errors of hardmax
        self._address = address
        try:
            self._client: Any = Client(address, timeout=seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"no Dask scheduler answers at {address} within {seconds:g} seconds: {error}; start one with dask "
                "scheduler, or correct the address"
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            self._client.close()
            raise ClusterError(
                f"the Dask cluster at {address} has no worker after {seconds:g} seconds; start some with dask worker "
                f"{address} --nthreads 1"
            ) from error
        with_threads = {worker: threads for worker, threads in self._client.nthreads().items() if threads > 1}
        if with_threads:
            self._client.close()
            worker, threads = next(iter(with_threads.items()))
            raise ClusterError(
                f"the Dask worker {worker} has {threads} threads, and runs in one process would share torch; start "
                f"workers with --nthreads 1, and several on a machine with --nworkers"
            )
        self._executor = self._client.get_executor(pure=False)

    @property
    def size(self) -> int:
        """Number of workers at present."""
        self.check_alive()
        try:
            return len(self._client.nthreads())
        except OSError as error:
            raise self._make_lost_error() from error

    def submit(self, job: Job) -> "Future[Outcome]":
        """Submit a job to one of the workers."""
        return self._executor.submit(run_job, job)

    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function in every worker."""
        answers = self._client.run(function, *arguments, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, Exception):
                raise ClusterError(
                    f"the Dask worker {worker} cannot work for hardmax: {type(answer).__name__}: {answer}; install the "
                    "same hardmax on all machines"
                ) from answer
        return list(answers.values())

    def check_alive(self) -> None:
        """Check that the scheduler still answers."""
        if self._client.status != "running":
            raise self._make_lost_error()

    def _make_lost_error(self) -> ClusterError:
        return ClusterError(
            f"the Dask scheduler at {self._address} no longer answers; once it is back, the same command resumes"
        )

    def close(self, *, at_once: bool) -> None:
        """Disconnect from the cluster, which keeps running."""
        self._client.close()
