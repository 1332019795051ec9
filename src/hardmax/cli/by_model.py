"""What a command does depends on the model that a run holds. No torch here."""

from importlib import import_module
from types import ModuleType
from typing import Any

from hardmax.errors import ArgumentError, DataError
from hardmax.training.catalogue import folder_of
from hardmax.training.config import read_config

# command: the models that have a cli/<folder>/<command>.py
SERVED = {
    "complete": ("completion",),
    "edit": ("mixed",),
    "detokenize": ("dvae",),
    "evaluate": ("discrete", "mixed", "dvae", "token-prior", "sequence-gan", "hashing", "completion"),
    "index": ("hashing",),
    "sample": ("discrete", "mixed", "dvae", "token-prior", "sequence-gan", "completion"),
    "tokenize": ("dvae",),
}


def module_for(command: str, run: str) -> ModuleType:
    """Return the module that does a command for the model of a run.

    Raises:
        DataError: no run is there, or the command is not for its model.
    """
    model = read_config(run)[0].model
    if model not in SERVED[command]:
        served = " or ".join(SERVED[command])
        raise DataError(f"hardmax {command} is for runs of --model {served}, but {run} is one of --model {model}")
    return import_module(f"hardmax.cli.{folder_of(model)}.{command}")


def refuse(options: Any, *names: str) -> None:
    """Complain of options that mean nothing for the model of the run.

    Args:
        options: with the field `run`.
        names: of fields that must be as they are by default.

    Raises:
        ArgumentError: one is not.
    """
    for name in names:
        if getattr(options, name) != getattr(type(options), name):
            model = read_config(options.run)[0].model
            option = name.replace("_", "-")
            raise ArgumentError(f"--{option} is not for runs of --model {model}, such as {options.run}; leave it out")
