"""The training loop: trains a task and writes the folder of the run."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import torch

from hardmax.training.checkpoint import finish_saving, load_checkpoint, load_progress, save_checkpoint
from hardmax.training.config import Metrics, TrainConfig
from hardmax.training.denormals import flush_denormals
from hardmax.training.processes import SINGLE_PROCESS, Group
from hardmax.training.run_folder import (
    METRICS,
    STARTS,
    TIMING,
    append_rows,
    check_data,
    check_rows_until,
    find_checkpoint,
    make_line_error,
    read_facts,
    read_rows,
    remove_rows_after,
    summarize_data,
    write_config,
)
from hardmax.training.state import State
from hardmax.training.task import SPLITS, AbstractTask, Data, Row, find_data_problems, load_stored_data
from hardmax.validation import check_device


@dataclass(frozen=True)
class Observer:
    """Callbacks that observe a run; by default each does nothing.

    Attributes:
        on_message: called with a line of text for the user.
        on_step: called after a step with the epoch, the number of finished steps of the epoch, and their total number.
        on_epoch: called after an epoch with its rows, first the row of the training examples.
        should_stop: called at every step and after every epoch; returns whether to save and stop after it.
    """

    on_message: Callable[[str], None] = lambda text: None
    on_step: Callable[[int, int, int], None] = lambda epoch, done, total: None
    on_epoch: Callable[[list[Row]], None] = lambda rows: None
    should_stop: Callable[[], bool] = lambda: False


@flush_denormals()
def train_task(
    config: TrainConfig,
    task: type[AbstractTask[Any, Any]],
    metrics: Metrics,
    observer: Observer | None = None,
    group: Group = SINGLE_PROCESS,
    *,
    adapts_batch_size: bool = False,
) -> bool:
    """Train a task and write the run to `config.out`.

    Every process of a group calls this, with the same configuration and its own observer.

    Args:
        config: resolved options of the run.
        task: class of the task to train.
        metrics: its metrics, and the criterion that selects the best checkpoint.
        observer: callbacks that observe the run.
        group: the processes that train.
        adapts_batch_size: whether the batch size is reduced for few training examples; see `adapt_batch_size`.

    Returns:
        Whether the run finished; False if an observer stopped it.

    Raises:
        ArgumentError: the group cannot train this task.
        DataError: data or checkpoints cannot be read or written.
    """
    observer = observer or Observer()
    run = Path(config.out)
    group.check_config(config, couples_examples=task.couples_examples(config))
    check_device(config.device)
    planned_epochs, done = group.broadcast_from_first(lambda: _read_epochs(config))
    if config.resume and done >= config.epochs:
        requested = f", and {config.epochs} are requested" if done < planned_epochs else ""
        observer.on_message(f"nothing to do: {done} of {planned_epochs} epochs are done{requested}")
        return True
    images = load_stored_data(config, task, metrics.examples) if config.resume else task.load_data(config)
    summary = summarize_data(images)
    group.check_same(metrics.examples, summary)
    if config.resume:
        check_data(run, config.data, summary)
    observer.on_message(f"data: {images.source}")
    for problem in find_data_problems(config, images):
        observer.on_message(f"WARNING: {problem}")
    if adapts_batch_size and not task.couples_examples(config):  # there, the size of a batch is a choice of its own
        default, config = config.batch_size, adapt_batch_size(config, len(images.train), group.size)
        if config.batch_size < default:
            observer.on_message(
                f"batch size {config.batch_size} instead of {default}, for {len(images.train):,} {metrics.examples}"
            )
    state = State(task.build(config, images, 0, group))  # invalid options fail here, before anything is written
    observer.on_message(state.task.describe_training())
    if group.size > 1:
        observer.on_message(f"{group.size} processes share every batch of {config.batch_size:,} {metrics.examples}")
    if state.steps < _FEW_STEPS:
        observer.on_message(
            f"few steps: {state.steps} in all, with --epochs {config.epochs} and batches of {config.batch_size:,} of "
            f"{state.task.count:,} {metrics.examples}; if the last epoch is the best one, give more --epochs"
        )
    if group.is_first and not config.resume:
        write_config(run, config, images)
    start = choose_start(
        config,
        task,
        metrics,
        images,
        run,
        on_message=observer.on_message,
        should_stop=observer.should_stop,
        group=group,
    )
    if start is None:
        return False
    if start > 0:
        state = State(task.build(config, images, start, group))
    if config.resume and find_checkpoint(run, "latest"):
        load_checkpoint(run, state)
        observer.on_message(f"resumed after epoch {state.progress.epoch}, step {state.progress.step}")
        lines = (state.update_random_version(), state.extend_schedule(state.progress.epochs or planned_epochs))
        for line in lines:
            if line is not None:
                observer.on_message(line)
    group.check_same("steps done", state.progress.step)
    if group.is_first:
        if config.resume:  # not earlier: a checkpoint that cannot be loaded leaves the folder as it is
            check_rows_until(run / METRICS, state.progress.epoch)
            write_config(run, config, images)
        for name in (METRICS, TIMING):
            remove_rows_after(run / name, state.progress.epoch)
    return _train_epochs(config, state, metrics, run, observer)


_FEW_STEPS = 450  # below this number of steps in a run, a hint is printed
_MIN_STEPS_PER_EPOCH = 20  # that a default batch size leaves, down to a batch of the size below
_MIN_BATCH_SIZE = 10


def adapt_batch_size(config: TrainConfig, count: int, processes: int) -> TrainConfig:
    """Return a configuration with a batch size small enough for 20 steps per epoch, but at least 10.

    A default that is made for thousands of examples would give few hundred examples two or three steps per epoch.

    Args:
        config: options of the run; their batch size is never increased.
        count: number of training examples.
        processes: number of processes that share a batch.
    """
    batch_size = max(count // _MIN_STEPS_PER_EPOCH, _MIN_BATCH_SIZE, processes)
    return replace(config, batch_size=min(config.batch_size, batch_size))


def _read_epochs(config: TrainConfig) -> tuple[int, int]:
    """Return the number of epochs that a run was planned for, and the number of finished ones; 0 for a new run.

    A saving that was interrupted by a kill is finished.
    """
    if not config.resume:
        return config.epochs, 0
    run = Path(config.out)
    finish_saving(run)
    return read_facts(run)["config"].get("epochs", config.epochs), load_progress(run).epoch


def _train_epochs(config: TrainConfig, state: State, metrics: Metrics, run: Path, observer: Observer) -> bool:
    """Train all epochs; return False if an observer stopped the run.

    Rows are written before the checkpoint, so that no row is lost if the process is killed between the two.
    """
    progress = state.progress
    while progress.epoch < config.epochs:
        if config.patience is not None and 0 < progress.epoch >= progress.best_epoch + config.patience:
            observer.on_message(
                f"stopped: no better {metrics.criterion_name} on the validation {metrics.examples} for "
                f"{config.patience} epochs"
            )
            break
        begin, begin_cpu = time.perf_counter(), time.process_time()
        if not _train_epoch(config, state, run, observer):
            return False
        trained, cpu_seconds = time.perf_counter(), state.group.sum_over_processes(time.process_time() - begin_cpu)
        progress.epoch, progress.position = progress.epoch + 1, 0
        rows = _make_rows(state, metrics)
        evaluated = time.perf_counter()
        score = metrics.score(rows["validation"][metrics.criterion])
        is_best = score > progress.best
        if is_best:
            progress.best, progress.best_epoch = score, progress.epoch
        if state.group.is_first:
            append_rows(run / METRICS, rows.values())
            seconds = {"train": trained - begin, "evaluate": evaluated - trained, "processor": cpu_seconds}
            append_rows(run / TIMING, [{"epoch": progress.epoch, "step": progress.step, **seconds}])
        _save(state, run, best=is_best)
        observer.on_message(state.task.summarize_epoch(rows))
        observer.on_epoch(list(rows.values()))
        if progress.epoch < config.epochs and state.group.sum_over_processes(observer.should_stop()):
            return False
    return True


def _train_epoch(config: TrainConfig, state: State, run: Path, observer: Observer) -> bool:
    """Train until the end of the current epoch; return False if an observer stopped the run."""
    progress = state.progress
    batches = state.begin_epoch()
    totals = torch.tensor(progress.totals, dtype=torch.float64, device=config.device)

    def save() -> None:
        progress.totals = totals.tolist()
        _save(state, run, best=False)

    while progress.position < len(batches):
        # A request in the last step is handled after the end of the epoch.
        asks_to_stop = progress.position + 1 < len(batches) and observer.should_stop()
        sums, stop = state.make_step(batches[progress.position], stop=asks_to_stop)
        totals += sums
        progress.position += 1
        observer.on_step(progress.epoch, progress.position, len(batches))
        if progress.position == len(batches):  # the checkpoint after the epoch has the name of this step
            break
        if stop or (config.checkpoint_every and progress.step % config.checkpoint_every == 0):
            save()
        if stop:
            return False
    progress.totals = totals.tolist()
    return True


def _save(state: State, run: Path, *, best: bool) -> None:
    """Write a checkpoint, in the first process only."""
    if state.group.is_first:
        save_checkpoint(run, state, best=best)


def _make_rows(state: State, metrics: Metrics) -> dict[str, Row]:
    """Evaluate the splits and return a row for each; the row of "train" has means over the steps of the epoch."""
    *sums, count = state.progress.totals
    # Sums that are not measured in an epoch are NaN.
    means = {name: total / count for name, total in zip(state.task.sums, sums, strict=True) if not isnan(total)}
    means_by_split = {"train": means, **{split: state.task.evaluate(split) for split in SPLITS}}
    position = {"epoch": state.progress.epoch, "step": state.progress.step}
    return {
        split: {**position, "split": split, **{name: row.get(name) for name in metrics.columns}}
        for split, row in means_by_split.items()
    }


def choose_start(
    config: TrainConfig,
    task: type[AbstractTask[Any, Any]],
    metrics: Metrics,
    images: Data,
    run: Path,
    *,
    on_message: Callable[[str], None],
    should_stop: Callable[[], bool],
    group: Group = SINGLE_PROCESS,
) -> int | None:
    """Train from each of `config.starts` initial weights for a few epochs, and return the best start.

    The best start has the best criterion on the validation examples. All starts use the same examples and noise, those
    of the run's first epochs. The result of each start is written to `starts.jsonl`, so that a resumed run does not
    repeat it.

    Args:
        config: options of the run.
        task: class of the task to train.
        metrics: its metrics.
        images: its images, or other data.
        run: folder of the run.
        on_message: called with a line of text for each start.
        should_stop: called at every step; returns whether to stop after it.
        group: the processes that train.

    Returns:
        The number of the best start, from 0; None if the run was stopped before all starts were tried.

    Raises:
        DataError: `starts.jsonl` is broken, or cannot be written.
    """
    if config.starts == 1:
        return 0
    path = run / STARTS
    values = group.broadcast_from_first(lambda: _read_starts(path, metrics.criterion))
    for start in range(len(values), config.starts):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        value = _evaluate_start(State(task.build(config, images, start, group)), metrics, should_stop)
        if value is None:
            return None
        seconds = {
            "seconds": time.perf_counter() - begin,
            "processor": group.sum_over_processes(time.process_time() - begin_cpu),
        }
        if group.is_first:
            append_rows(path, [{"start": start, metrics.criterion: value, **seconds}])
        values.append(value)
        result = f"-ELBO {-value:.2f}" if metrics.criterion == "elbo" else f"{metrics.criterion} {value:.3f}"
        on_message(f"start {start + 1} of {config.starts}: {result} after {config.start_epochs} epochs")
    # A start that has diverged to NaN is never chosen; `max` would return it if it were the first.
    return max(range(config.starts), key=lambda start: (not isnan(values[start]), metrics.score(values[start])))


def _read_starts(path: Path, criterion: str) -> list[float]:
    """Return the criterion of each start that was tried, in order."""
    rows = read_rows(path)
    for number, row in enumerate(rows):
        if row.get("start") != number or not isinstance(row.get(criterion), float | int):
            raise make_line_error(path, number + 1, json.dumps(row))
    return [row[criterion] for row in rows]


def _evaluate_start(state: State, metrics: Metrics, should_stop: Callable[[], bool]) -> float | None:
    """Train for the epochs of a start; return the criterion on the validation examples, or None if stopped."""
    while state.progress.epoch < state.config.start_epochs:
        for index in state.begin_epoch():
            _, stopped = state.make_step(index, stop=should_stop())
            if stopped:
                return None
        state.progress.epoch += 1
    return float(state.task.evaluate("validation")[metrics.criterion])
