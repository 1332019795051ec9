"""The training loop: trains a task and writes the folder of its run."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import torch

from hardmax.training.checkpoint import load_checkpoint, save_checkpoint
from hardmax.training.config import Metrics, TrainConfig
from hardmax.training.processes import ALONE, Group
from hardmax.training.run_folder import (
    METRICS,
    STARTS,
    TIMING,
    append_rows,
    find_checkpoint,
    read_facts,
    read_rows,
    remove_rows_after,
    write_config,
)
from hardmax.training.state import State
from hardmax.training.task import SPLITS, AbstractTask, Data, Row
from hardmax.validation import check_device


@dataclass(frozen=True)
class Observer:
    """Callbacks that observe a run; by default each does nothing.

    Attributes:
        say: called with lines of text.
        step: called with the epoch, the steps done in it and its number of steps.
        rows: called with the rows of an epoch, that of the training examples first.
        stop: called at every step and after every epoch; returns whether to save and stop after it.
    """

    say: Callable[[str], None] = lambda text: None
    step: Callable[[int, int, int], None] = lambda epoch, done, total: None
    rows: Callable[[list[Row]], None] = lambda rows: None
    stop: Callable[[], bool] = lambda: False


def train_task(
    config: TrainConfig,
    task: type[AbstractTask[Any, Any]],
    metrics: Metrics,
    observer: Observer | None = None,
    group: Group = ALONE,
) -> bool:
    """Train and write to `config.out`; return False if an observer stopped the run before its end.

    Every process of a group calls this, with the same configuration and an observer of its own.

    Args:
        config: resolved options of the run.
        task: class of the task to train.
        metrics: its metrics, and the criterion that selects the best checkpoint.
        observer: callbacks that observe the run.
        group: the processes that train.

    Raises:
        ArgumentError: the group cannot train this task.
        DataError: data or checkpoints cannot be read or written.
    """
    observer = observer or Observer()
    run = Path(config.out)
    group.check(config, couples_examples=task.couples_examples(config))
    check_device(config.device)
    images = task.load(config)
    group.check_same(metrics.examples, (tuple(images.train.shape), int(images.train.sum())))
    observer.say(f"data: {images.source}")
    state = State(task.start(config, images, 0, group))  # invalid options fail here, before anything is written
    observer.say(state.task.explain())
    if group.size > 1:
        observer.say(f"{group.size} processes share every batch of {config.batch_size:,} {metrics.examples}")
    began_with = group.from_first(lambda: read_facts(run)["config"]["epochs"] if config.resume else config.epochs)
    if group.first:
        write_config(run, config, images)
    start = choose_start(config, task, metrics, images, run, say=observer.say, stop=observer.stop, group=group)
    if start is None:
        return False
    if start > 0:
        state = State(task.start(config, images, start, group))
    if config.resume and find_checkpoint(run, "latest"):
        load_checkpoint(run, state)
        observer.say(f"resumed after epoch {state.progress.epoch}, step {state.progress.step}")
        if (line := state.extend_schedule(state.progress.epochs or began_with)) is not None:
            observer.say(line)
    group.check_same("steps done", state.progress.step)
    if group.first:
        for name in (METRICS, TIMING):
            remove_rows_after(run / name, state.progress.epoch)
    return _epochs(config, state, metrics, run, observer)


def _epochs(config: TrainConfig, state: State, metrics: Metrics, run: Path, observer: Observer) -> bool:
    """Train epoch by epoch; rows are written before the checkpoint, so that a kill between the two loses no row."""
    progress = state.progress
    while progress.epoch < config.epochs:
        begin, worked = time.perf_counter(), time.process_time()
        if not _epoch(config, state, run, observer):
            return False
        trained, worked = time.perf_counter(), state.group.total(time.process_time() - worked)
        progress.epoch, progress.position = progress.epoch + 1, 0
        rows = _rows(state, metrics)
        evaluated = time.perf_counter()
        score = metrics.score(rows["validation"][metrics.criterion])
        better = score > progress.best
        if better:
            progress.best, progress.best_epoch = score, progress.epoch
        if state.group.first:
            append_rows(run / METRICS, rows.values())
            seconds = {"train": trained - begin, "evaluate": evaluated - trained, "processor": worked}
            append_rows(run / TIMING, [{"epoch": progress.epoch, "step": progress.step, **seconds}])
        _save(state, run, best=better)
        observer.rows(list(rows.values()))
        observer.say(state.task.summarize_epoch(rows))
        if progress.epoch < config.epochs and state.group.total(observer.stop()):
            return False
        if config.patience is not None and progress.epoch - progress.best_epoch >= config.patience:
            observer.say(
                f"stopped: no better {metrics.criterion_name} on the validation {metrics.examples} for "
                f"{config.patience} epochs"
            )
            break
    return True


def _epoch(config: TrainConfig, state: State, run: Path, observer: Observer) -> bool:
    """Train to the end of the epoch; return False if an observer stopped the run."""
    progress = state.progress
    batches = state.begin_epoch()
    totals = torch.tensor(progress.totals, dtype=torch.float64, device=config.device)

    def save() -> None:
        progress.totals = totals.tolist()
        _save(state, run, best=False)

    while progress.position < len(batches):
        # After the last step the epoch ends first.
        asks_to_stop = progress.position + 1 < len(batches) and observer.stop()
        sums, stop = state.make_step(batches[progress.position], stop=asks_to_stop)
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


def _rows(state: State, metrics: Metrics) -> dict[str, Row]:
    """Return the row of each split; that of the training examples has means over the epoch, while weights changed."""
    *sums, count = state.progress.totals
    # Sums that the steps of an epoch do not measure are NaN.
    means = {name: total / count for name, total in zip(state.task.sums, sums, strict=True) if not isnan(total)}
    means_by_split = {"train": means, **{split: state.task.evaluate(split) for split in SPLITS}}
    at = {"epoch": state.progress.epoch, "step": state.progress.step}
    return {
        split: {**at, "split": split, **{name: row.get(name) for name in metrics.columns}}
        for split, row in means_by_split.items()
    }


def choose_start(
    config: TrainConfig,
    task: type[AbstractTask[Any, Any]],
    metrics: Metrics,
    images: Data,
    run: Path,
    *,
    say: Callable[[str], None],
    stop: Callable[[], bool],
    group: Group = ALONE,
) -> int | None:
    """Train from each of `config.starts` initial weights for a few epochs; return the best one.

    The validation examples decide. All starts use the same examples and noise, those of the run's first epochs. The
    result of each start is kept in `starts.jsonl`, so that a resumed run does not repeat it.

    Args:
        config: options of the run.
        task: class of the task to train.
        metrics: its metrics.
        images: its pictures, or other data.
        run: folder of the run.
        say: called with a line for each start.
        stop: called at every step; returns whether to stop after it.
        group: the processes that train.

    Returns:
        The number of the best start, from 0; None if the run was stopped before all were tried.
    """
    if config.starts == 1:
        return 0
    path = run / STARTS
    values = group.from_first(lambda: [row[metrics.criterion] for row in read_rows(path)])
    for start in range(len(values), config.starts):
        begin, worked = time.perf_counter(), time.process_time()
        value = _evaluate_start(State(task.start(config, images, start, group)), metrics, stop)
        if value is None:
            return None
        seconds = {"seconds": time.perf_counter() - begin, "processor": group.total(time.process_time() - worked)}
        if group.first:
            append_rows(path, [{"start": start, metrics.criterion: value, **seconds}])
        values.append(value)
        result = f"-ELBO {-value:.2f}" if metrics.criterion == "elbo" else f"{metrics.criterion} {value:.3f}"
        say(f"start {start + 1} of {config.starts}: {result} after {config.start_epochs} epochs")
    return max(range(config.starts), key=lambda start: metrics.score(values[start]))


def _evaluate_start(state: State, metrics: Metrics, stop: Callable[[], bool]) -> float | None:
    """Train for the epochs of a start; return the criterion on the validation examples, or None if stopped."""
    while state.progress.epoch < state.config.start_epochs:
        for index in state.begin_epoch():
            _, stopped = state.make_step(index, stop=stop())
            if stopped:
                return None
        state.progress.epoch += 1
    return float(state.task.evaluate("validation")[metrics.criterion])
