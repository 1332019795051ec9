"""Check that workers have the same code and versions as the runner, and access to its folder and data."""

import platform
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from hardmax.applications.registry import find_application
from hardmax.errors import ArgumentError, DataError, HardmaxError
from hardmax.training.config import TrainConfig
from hardmax.training.locks import is_free
from hardmax.version import __version__, hash_source


@dataclass(frozen=True)
class WorkerReport:
    """Report of a worker process about itself.

    Attributes:
        host: name of its machine.
        versions: result of `collect_versions`.
        sees_folder: whether it sees the runner's lock file.
        respects_locks: whether that file is locked for it.
        data_error: error of reading the data; empty if there is none.
    """

    host: str
    versions: dict[str, str]
    sees_folder: bool
    respects_locks: bool
    data_error: str = ""


def collect_versions() -> dict[str, str]:
    """Return the versions that a result may depend on; for hardmax, with a hash of the code."""
    return {
        "hardmax": f"{__version__} ({hash_source()})",
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }


def compare_versions(there: dict[str, str], here: dict[str, str]) -> str | None:
    """Return a message on the versions in which two processes differ; None if they are the same."""
    different = [name for name in here if there.get(name) != here[name]]
    if not different:
        return None
    lists = (", ".join(f"{name} {versions.get(name, 'missing')}" for name in different) for versions in (there, here))
    return "a worker has {}, the runner has {}; install the same on all machines".format(*lists)


def inspect_worker(runner_lock: Path, configs: Iterable[TrainConfig]) -> WorkerReport:
    """Report whether this worker process can access the runner's folder and the data.

    Args:
        runner_lock: file that the runner holds locked.
        configs: configurations of the runs to be made, one for every data set.
    """
    sees_folder = runner_lock.exists()
    data_error = ""
    try:
        for config in configs:
            find_application(config.model).load_task().load_data(config)
    except HardmaxError as error:
        data_error = str(error)
    respects_locks = sees_folder and not is_free(runner_lock)
    return WorkerReport(socket.gethostname(), collect_versions(), sees_folder, respects_locks, data_error)


def check_workers(reports: Iterable[WorkerReport], runner_lock: Path) -> None:
    """Refuse workers that cannot do the work, or would give different results.

    Raises:
        ArgumentError: versions differ, or the folder is not shared.
        DataError: a worker cannot read the data.
    """
    folder = runner_lock.parent.parent
    for report in reports:
        if (difference := compare_versions(report.versions, collect_versions())) is not None:
            raise ArgumentError(f"{report.host}: {difference}")
        if not report.sees_folder:
            raise ArgumentError(
                f"a worker on {report.host} does not see {folder}; choose with --out a folder that all machines share, "
                "under the same name"
            )
        if not report.respects_locks:
            raise ArgumentError(
                f"a worker on {report.host} could lock a file that is locked on {socket.gethostname()}: the file "
                f"system of {folder} has no locks between machines; choose with --out a folder of one that has"
            )
        if report.data_error:
            where = "" if report.host == socket.gethostname() else f"{report.host}: "
            raise DataError(where + report.data_error)
