"""Several starts, of which the best is trained: with few categories, where a run ends depends on where it starts."""

import time
from collections.abc import Callable
from pathlib import Path

from hardmax.training.catalogue import task_class
from hardmax.training.config import TrainConfig
from hardmax.training.group import ALONE, Group
from hardmax.training.log import append_rows, read_rows
from hardmax.training.state import State
from hardmax.training.task import Data


def choose_start(
    config: TrainConfig,
    images: Data,
    run: Path,
    *,
    say: Callable[[str], None],
    stop: Callable[[], bool],
    group: Group = ALONE,
) -> int | None:
    """Train from each of `config.starts` initial weights for a few epochs; return which is the best.

    Judged on the validation examples. All see the same examples and noise, those of the run's first epochs. What a
    start came to is kept in `starts.jsonl`, so that a run that goes on does not try it again.

    Args:
        config: of the run.
        images: its pictures, or other data.
        run: its folder.
        say: gets a line for each start.
        stop: asked at every step whether to stop after it.
        group: the processes that train.

    Returns:
        The number of the best start, from 0; None if it was stopped before all were tried.
    """
    if config.starts == 1:
        return 0
    path = run / "starts.jsonl"
    criterion = task_class(config.model).criterion
    found = group.from_first(lambda: [row[criterion] for row in read_rows(path)])
    for start in range(len(found), config.starts):
        begin, worked = time.perf_counter(), time.process_time()
        value = _value_after(State(task_class(config.model).start(config, images, start, group)), stop)
        if value is None:
            return None
        seconds = {"seconds": time.perf_counter() - begin, "processor": group.total(time.process_time() - worked)}
        if group.first:
            append_rows(path, [{"start": start, criterion: value, **seconds}])
        found.append(value)
        told = f"-ELBO {-value:.2f}" if criterion == "elbo" else f"{criterion} {value:.3f}"
        say(f"start {start + 1} of {config.starts}: {told} after {config.start_epochs} epochs")
    return max(range(config.starts), key=found.__getitem__)


def _value_after(state: State, stop: Callable[[], bool]) -> float | None:
    """Train for the epochs of a start; return the criterion on the validation examples, None if it was stopped."""
    while state.progress.epoch < state.config.start_epochs:
        for index in state.begin_epoch():
            _, stopped = state.make_step(index, stop=stop())
            if stopped:
                return None
        state.progress.epoch += 1
    return float(state.task.evaluate("validation")[state.task.criterion])
