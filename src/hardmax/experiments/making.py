"""Trains a run, or goes on with it."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hardmax.experiments.results import identity, same_run
from hardmax.training.config import TrainConfig, read_config
from hardmax.training.loop import Observer, train


def make_run(config: TrainConfig, observer: Observer, say: Callable[[str], None]) -> bool:
    """Train, or go on training; a run of another configuration in this folder is replaced.

    Args:
        config: what the run is told; `config.out` is its folder.
        observer: sees the training go by.
        say: gets a line where a run is replaced.

    Returns:
        False if the observer stopped it before the end.
    """
    run = Path(config.out)
    if is_there(config):
        config = replace(config, resume=True)
    elif (run / "config.json").exists():
        say(f"{run} was made with other options and is made anew")
        shutil.rmtree(run)
    return train(config, observer)


def is_there(config: TrainConfig) -> bool:
    """Whether the folder holds a run of this very configuration, finished or not."""
    run = Path(config.out)
    return (run / "config.json").exists() and same_run(identity(read_config(run)[0]), config)
