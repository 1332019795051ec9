"""Check the workers: do they run the same code, and see the same folder and data?"""

import platform
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from hardmax.applications.registry import find_application
from hardmax.errors import ArgumentError, DataError, HardmaxError
from hardmax.experiments.runner.locks import is_free
from hardmax.training.config import TrainConfig
from hardmax.version import __version__, hash_source


@dataclass(frozen=True)
class Greeting:
    """What a process says about itself.

    Attributes:
        host: name of its machine.
        versions: as by `versions`.
        sees: whether it sees the runner's file.
        respects: whether it finds the file locked.
        missing: what is wrong with the data; empty if nothing.
    """

    host: str
    versions: dict[str, str]
    sees: bool
    respects: bool
    missing: str = ""


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on; of hardmax, the code itself."""
    return {
        "hardmax": f"{__version__} ({hash_source()})",
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }


def compare(there: dict[str, str], here: dict[str, str]) -> str | None:
    """Say in which versions two processes differ; None if in none."""
    unlike = [name for name in here if there.get(name) != here[name]]
    if not unlike:
        return None
    told = (", ".join(f"{name} {said.get(name, 'missing')}" for name in unlike) for said in (there, here))
    return "a worker has {}, the runner has {}; install the same on all machines".format(*told)


def greet(presence: Path, configs: Iterable[TrainConfig]) -> Greeting:
    """Look around, in the process that is to do the work.

    Args:
        presence: file that the runner holds locked.
        configs: of runs to be made, one for every data set.
    """
    sees = presence.exists()
    missing = ""
    try:
        for config in configs:
            find_application(config.model).load_task().load(config)
    except HardmaxError as error:
        missing = str(error)
    return Greeting(socket.gethostname(), versions(), sees, sees and not is_free(presence), missing)


def check(greetings: Iterable[Greeting], presence: Path) -> None:
    """Refuse workers that could not do the work, or would do other work.

    Raises:
        ArgumentError: other versions, or a folder that is not shared.
        DataError: data that cannot be read there.
    """
    for greeting in greetings:
        if (unlike := compare(greeting.versions, versions())) is not None:
            raise ArgumentError(f"{greeting.host}: {unlike}")
        if not greeting.sees:
            raise ArgumentError(
                f"a worker on {greeting.host} does not see {presence.parent.parent}; choose with --out a folder that "
                "all machines share, under the same name"
            )
        if not greeting.respects:
            raise ArgumentError(
                f"a worker on {greeting.host} could lock a file that is locked on {socket.gethostname()}: the file "
                f"system of {presence.parent.parent} has no locks between machines; choose with --out a folder of one "
                "that has"
            )
        if greeting.missing:
            where = "" if greeting.host == socket.gethostname() else f"{greeting.host}: "
            raise DataError(where + greeting.missing)
