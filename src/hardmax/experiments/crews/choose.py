"""From `--workers` and `--cluster` to a crew. No torch here until one is made: a wrong option fails at once."""

from typing import TYPE_CHECKING

from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax.experiments.crews.crew import AbstractCrew

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
        from hardmax.experiments.crews.processes import Processes

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
        from hardmax.experiments.crews.ray import RayCluster

        return RayCluster("auto" if place == "auto" else cluster, SECONDS)
    from hardmax.experiments.crews.dask import DaskCluster

    return DaskCluster(f"tcp://{place}", SECONDS)
