"""The training loop: from a configuration to a folder."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

import torch

from hardmax.errors import ArgumentError
from hardmax.training.catalogue import task_class
from hardmax.training.checkpoint import load_checkpoint, pointed, save_checkpoint, write_atomically
from hardmax.training.config import TrainConfig, read_config
from hardmax.training.describe import describe
from hardmax.training.group import ALONE, Group
from hardmax.training.log import append_rows, cut_back
from hardmax.training.starts import choose_start
from hardmax.training.state import State
from hardmax.training.task import SPLITS, Row
from hardmax.validation import check_device


@dataclass(frozen=True)
class Observer:
    """Whoever wants to see a run go by; every field may be left at doing nothing.

    Attributes:
        say: gets lines of text.
        step: gets epoch, steps done of it and steps in it.
        rows: gets the rows of an epoch, that of the training examples first.
        stop: asked at every step and after every epoch whether to save and stop after it.
    """

    say: Callable[[str], None] = lambda text: None
    step: Callable[[int, int, int], None] = lambda epoch, done, total: None
    rows: Callable[[list[Row]], None] = lambda rows: None
    stop: Callable[[], bool] = lambda: False


def train(config: TrainConfig, observer: Observer | None = None, group: Group = ALONE) -> bool:
    """Train, writing to `config.out`; return False if an observer stopped it before the end.

    Every process of a group calls this, with the same configuration and an observer of its own.

    Raises:
        ArgumentError: the folder holds a run already, or there is none to resume; the group cannot train this.
        DataError: data or checkpoints cannot be read or written.
    """
    observer = observer or Observer()
    run = Path(config.out)
    config = group.from_first(lambda: _resolved(config))
    task = task_class(config.model)
    group.check(config, couples_examples=task.couples_examples(config))
    check_device(config.device)
    images = task.load(config)
    group.check_same(task.examples, (tuple(images.train.shape), int(images.train.sum())))
    observer.say(f"data: {images.source}")
    state = State(task.start(config, images, 0, group))  # what cannot be made fails before anything is written
    observer.say(state.task.explain())
    if group.size > 1:
        observer.say(f"{group.size} processes share every batch of {config.batch_size:,} {task.examples}")
    if group.first:
        run.mkdir(parents=True, exist_ok=True)
        write_atomically(run / "config.json", describe(config, images))
    start = choose_start(config, images, run, say=observer.say, stop=observer.stop, group=group)
    if start is None:
        return False
    if start > 0:
        state = State(task.start(config, images, start, group))
    if config.resume and pointed(run, "latest"):
        load_checkpoint(run, state)
        observer.say(f"resumed after epoch {state.progress.epoch}, step {state.progress.step}")
    group.check_same("steps done", state.progress.step)
    if group.first:
        for name in ("metrics.jsonl", "timing.jsonl"):
            cut_back(run / name, state.progress.epoch)
    return _epochs(config, state, run, observer)


def _resolved(config: TrainConfig) -> TrainConfig:
    """Return what the run is told; if it goes on, what it was told when it began."""
    run = Path(config.out)
    if config.resume:
        told = read_config(run)[0]
        return replace(told, epochs=config.epochs, resume=True, out=config.out, devices=config.devices)
    if (run / "config.json").exists():
        raise ArgumentError(f"{run} holds a run already; add --resume to go on with it, or choose another --out")
    return config


def _epochs(config: TrainConfig, state: State, run: Path, observer: Observer) -> bool:
    """Train epoch by epoch; rows come before the checkpoint, which a kill between the two would otherwise miss."""
    progress = state.progress
    while progress.epoch < config.epochs:
        begin, worked = time.perf_counter(), time.process_time()
        if not _epoch(config, state, run, observer):
            return False
        trained, worked = time.perf_counter(), state.group.total(time.process_time() - worked)
        progress.epoch, progress.position = progress.epoch + 1, 0
        rows = _rows(state)
        evaluated = time.perf_counter()
        validation = rows["validation"][state.task.criterion]
        better = validation > progress.best
        if better:
            progress.best, progress.best_epoch = validation, progress.epoch
        if state.group.first:
            append_rows(run / "metrics.jsonl", rows.values())
            seconds = {"train": trained - begin, "evaluate": evaluated - trained, "processor": worked}
            append_rows(run / "timing.jsonl", [{"epoch": progress.epoch, "step": progress.step, **seconds}])
        _save(state, run, best=better)
        observer.rows(list(rows.values()))
        observer.say(state.task.tell(rows))
        if progress.epoch < config.epochs and state.group.total(observer.stop()):
            return False
        if config.patience is not None and progress.epoch - progress.best_epoch >= config.patience:
            what = "bound" if state.task.criterion == "elbo" else state.task.criterion
            observer.say(
                f"stopped: no better {what} on the validation {state.task.examples} for {config.patience} epochs"
            )
            break
    return True


def _epoch(config: TrainConfig, state: State, run: Path, observer: Observer) -> bool:
    """Train to the end of the epoch; return False if the observer stopped it."""
    progress = state.progress
    batches = state.begin_epoch()
    totals = torch.tensor(progress.totals, dtype=torch.float64, device=config.device)

    def save() -> None:
        progress.totals = totals.tolist()
        _save(state, run, best=False)

    while progress.position < len(batches):
        wish = progress.position + 1 < len(batches) and observer.stop()  # after the last step the epoch ends first
        sums, stop = state.make_step(batches[progress.position], stop=wish)
        totals += sums
        progress.position += 1
        observer.step(progress.epoch, progress.position, len(batches))
        if progress.position == len(batches):  # the checkpoint after the epoch has this step's name
            break
        if config.checkpoint_every and progress.step % config.checkpoint_every == 0:
            save()
        if stop:
            save()
            return False
    progress.totals = totals.tolist()
    return True


def _save(state: State, run: Path, *, best: bool) -> None:
    """Write a checkpoint, once for all processes."""
    if state.group.first:
        save_checkpoint(run, state, best=best)


def _rows(state: State) -> dict[str, Row]:
    """Return the row of each split; of the training examples means over the epoch, while the weights changed."""
    *sums, count = state.progress.totals
    # What the steps of an epoch do not measure they give as NaN.
    means = {name: total / count for name, total in zip(state.task.sums, sums, strict=True) if not isnan(total)}
    found = {"train": means, **{split: state.task.evaluate(split) for split in SPLITS}}
    at = {"epoch": state.progress.epoch, "step": state.progress.step}
    return {
        split: {**at, "split": split, **{name: row.get(name) for name in state.task.metrics}}
        for split, row in found.items()
    }
