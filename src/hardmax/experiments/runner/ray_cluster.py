"""An executor that runs on the machines of a Ray cluster."""

import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hardmax.errors import ClusterError, MissingExtraError
from hardmax.experiments.runner.executors import AbstractExecutor
from hardmax.experiments.runner.job import Job, Outcome, run_job

T = TypeVar("T")


class RayCluster(AbstractExecutor):
    """An existing Ray cluster, one job for each of its CPUs at a time.

    It uses Ray's tasks, not its backend for joblib: the backend ends with the first lost process, returns no result
    before all are complete, and reserves no CPU for its tasks.

    Args:
        address: "auto" for the cluster that this machine belongs to (or `RAY_ADDRESS`), else ray://host:10001.
        seconds: time to wait for it.

    Raises:
        MissingExtraError: Ray is not installed.
        ClusterError: no cluster answers.
    """

    def __init__(self, address: str, seconds: float) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError(
                f"a Ray cluster needs ray, which is not installed ({error}): pip install 'hardmax[cluster]'"
            ) from error
        self._ray = ray
        address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
        try:
            _check_address(address, seconds)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            raise ClusterError(
                f"no Ray cluster answers at {address} within {seconds:g} seconds: {error}; start one with ray start "
                "--head, or correct the address"
            ) from error
        self._work = ray.remote(num_cpus=1, max_retries=0)(run_job)

    @property
    def size(self) -> int:
        """Number of CPUs at present."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def submit(self, job: Job) -> "Future[Outcome]":
        """Submit a job to one of the CPUs."""
        return self._work.remote(job).future()

    def call_everywhere(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a function on every machine that has a CPU."""
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node["NodeID"] for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not nodes:
            raise ClusterError("the Ray cluster has no machine with a CPU; start one with ray start")
        remote = self._ray.remote(num_cpus=0, max_retries=0)(function)
        calls = [
            remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(*arguments)
            for node in nodes
        ]
        try:
            return self._ray.get(calls)
        except RayError as error:
            raise ClusterError(
                f"a machine of the Ray cluster cannot work for hardmax: {error}; install the same hardmax on all of "
                "them"
            ) from error

    def check_alive(self) -> None:
        """Do nothing: without its cluster, Ray ends this process."""

    def close(self, *, at_once: bool) -> None:
        """Disconnect from the cluster, which keeps running; it ends our remaining tasks."""
        self._ray.shutdown()


def _check_address(address: str, seconds: float) -> None:
    """Check that a server listens at the address: Ray itself waits for minutes.

    Raises:
        OSError: no server listens.
    """
    if address != "auto":  # for "auto", Ray searches the processes of this machine
        place = urlsplit(address if "://" in address else f"//{address}")
        socket.create_connection((place.hostname or "", place.port or 10001), timeout=seconds).close()
