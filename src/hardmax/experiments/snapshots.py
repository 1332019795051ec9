"""The models of one run after chosen epochs: training itself keeps the best and the latest alone."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hardmax.experiments.making import is_there, make_run
from hardmax.experiments.watcher import Watcher
from hardmax.models import DiscreteVAE
from hardmax.training.checkpoint import Progress, pointed
from hardmax.training.discrete.config import DiscreteConfig
from hardmax.training.loop import Observer


def model_after(epoch: int, config: DiscreteConfig, epochs: Collection[int], watcher: Watcher) -> Path | None:
    """Train until an epoch has ended, unless that is done, and return the folder of the model as it was then.

    The training stops there and goes on when a later epoch is asked for, as one training of `config.epochs` epochs:
    its learning rate knows nothing of the stop.

    Args:
        epoch: one of those to keep.
        config: what the run is told; `config.out` is its folder, and models are kept in it.
        epochs: after which the model is kept.
        watcher: sees it go by, and may stop it.

    Returns:
        The folder for `DiscreteVAE.from_pretrained`; None if the watcher stopped the training before.
    """
    run = Path(config.out)
    if is_there(config):
        done = _epochs_done(run)
        if done.position == 0 and done.epoch in epochs:  # after a kill between the checkpoint and its copy
            _keep(run, done.epoch)
        if not _folder(run, epoch).is_dir() and done.epoch >= epoch:
            watcher.say(f"the model after epoch {epoch} is no longer in {run}, which is made anew")
            shutil.rmtree(run)
    if _folder(run, epoch).is_dir() and is_there(config):
        return _folder(run, epoch)
    reached = False

    def rows(found: list[dict[str, Any]]) -> None:
        nonlocal reached
        if found[0]["epoch"] in epochs:
            _keep(run, found[0]["epoch"])
        reached = found[0]["epoch"] == epoch

    def step(at: int, done: int, total: int) -> None:
        watcher.step(0.0, f"training, epoch {at + 1}/{config.epochs}")

    make_run(config, Observer(step=step, rows=rows, stop=lambda: reached or watcher.stop()), watcher.say)
    return _folder(run, epoch) if reached else None


def _folder(run: Path, epoch: int) -> Path:
    return run / f"epoch-{epoch}"


def _epochs_done(run: Path) -> Progress:
    """Return where the latest checkpoint stands."""
    name = pointed(run, "latest")
    return Progress() if name is None else Progress(**json.loads((run / name / "training.json").read_text()))


def _keep(run: Path, epoch: int) -> None:
    """Copy the model of the latest checkpoint; all of it is there, or nothing."""
    temporary = run / f"epoch-{epoch}.tmp"
    DiscreteVAE.from_pretrained(run / (pointed(run, "latest") or "")).save_pretrained(temporary)
    shutil.rmtree(_folder(run, epoch), ignore_errors=True)
    temporary.rename(_folder(run, epoch))
