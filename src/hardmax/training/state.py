"""The state of a run in training, and one optimization step."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hardmax.random import stream
from hardmax.training.config import TrainConfig
from hardmax.training.processes import Message
from hardmax.training.task import AbstractTask, ParameterUpdate


@dataclass
class Progress:
    """The progress of a run, which a checkpoint keeps in addition to the weights.

    Attributes:
        epoch: epochs finished.
        position: steps done in the current epoch.
        step: steps done in total.
        best: best value of the task's criterion on the validation pictures, and the epoch it was reached after.
        totals: sums over the unfinished epoch, for its row in `metrics.jsonl`.
        epochs: number of epochs of the run's schedule; None in checkpoints that did not keep it.
        rate_limit: largest share of the learning rate that is used; below 1 once a schedule has been extended.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    totals: list[float] = field(default_factory=list)
    epochs: int | None = None
    rate_limit: float = 1.0


_EXTENDED_RATE = 0.1  # smallest share of the learning rate with which an extended schedule continues


def schedule_rate(config: TrainConfig, step: int, steps: int) -> float:
    """Return the share of the learning rate that the schedule gives to a step, out of `steps`."""
    return 1.0 if config.lr_schedule == "constant" else min(1.0, 2 * (1 - step / steps))


class State:
    """All that changes during a run: the weights, the optimizer that trains them, and the progress."""

    def __init__(self, task: AbstractTask[Any, Any]) -> None:
        self.task, self.config, self.group = task, task.config, task.group
        self.updates = task.updates
        groups = [{"params": update.parameters, "betas": update.betas, "rate": update.rate} for update in self.updates]
        # One optimizer for all updates: it skips parameters without a gradient, and those of other updates have none.
        self.optimizer = torch.optim.Adam(groups, lr=self.config.learning_rate, fused=True)
        self.messages = [Message(task.group, update.parameters, sums=len(task.sums) + 1) for update in self.updates]
        self.progress = Progress(totals=self._zero_totals(), epochs=self.config.epochs)
        self.steps = self._steps_in(self.config.epochs)

    def _steps_in(self, epochs: int) -> int:
        return epochs * math.ceil(self.task.count / self.config.batch_size)

    def extend_schedule(self, epochs: int) -> str | None:
        """Continue a run whose schedule was planned for fewer epochs, without letting the learning rate jump back.

        A linear schedule for more epochs would return to the full rate after the shorter one had decayed: a model that
        has settled can lose what it learned. From here on, the rate is limited to its decayed value, or to a tenth if
        it had decayed further, until the schedule itself is below that.

        Args:
            epochs: number of epochs of the shorter schedule.

        Returns:
            A message for the user; None if the rate had not decayed yet.
        """
        self.progress.epochs = self.config.epochs
        if epochs >= self.config.epochs:
            return None
        share = min(self.progress.rate_limit, schedule_rate(self.config, self.progress.step, self._steps_in(epochs)))
        if share == 1.0:
            return None
        self.progress.rate_limit = max(share, _EXTENDED_RATE)
        rate = self.config.learning_rate
        return (
            f"learning rate: {epochs} epochs had brought it down to {share * rate:.2g}; with {self.config.epochs} it "
            f"goes on at {self.progress.rate_limit * rate:.2g}, instead of jumping back to {rate:.2g}, down to zero"
        )

    def _zero_totals(self) -> list[float]:
        return [0.0] * (len(self.task.sums) + 1)

    def begin_epoch(self) -> tuple[Tensor, ...]:
        """Return the examples of each step of this epoch; at its start, also seed its generators."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self.progress.position == 0:
            for name, generator in self.task.generators.items():
                generator.manual_seed(stream(seed, name, epoch).initial_seed())
            self.progress.totals = self._zero_totals()
        return torch.randperm(self.task.count, generator=stream(seed, "data", epoch)).split(self.config.batch_size)

    def make_step(self, index: Tensor, *, stop: bool = False) -> tuple[Tensor, bool]:
        """Take one step, together with the other processes of the group.

        Args:
            index: the examples of the step, of all processes.
            stop: whether this process asks to stop after the step.

        Returns:
            The task's sums over the batch, followed by its size; and whether any process asks to stop.
        """
        share = schedule_rate(self.config, self.progress.step, self.steps)
        rate = self.config.learning_rate * min(share, self.progress.rate_limit)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        results: list[tuple[Tensor, bool]] = []
        for update, message in zip(self.updates, self.messages, strict=True):
            with self._freeze_others(update):
                results += [self._apply_update(update, message, index, stop=stop) for _ in range(update.times)]
        self.progress.step += 1
        return torch.stack([sums for sums, _ in results]).sum(0), any(stopped for _, stopped in results)

    def _apply_update(
        self, update: ParameterUpdate, message: Message, index: Tensor, *, stop: bool
    ) -> tuple[Tensor, bool]:
        """Apply one update; return its sums over the batch, and whether any process asks to stop."""
        message.clear(self.optimizer)
        part = update.add_gradients(index, self.progress.epoch, self.progress.step)
        result = message.exchange(part, stop)
        if self.config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.task.model.parameters(), self.config.clip)
        self.optimizer.step()
        return result

    @contextmanager
    def _freeze_others(self, update: ParameterUpdate) -> Iterator[None]:
        """Freeze the parameters of all other updates."""
        others = [parameter for other in self.updates if other is not update for parameter in other.parameters]
        for parameter in others:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in others:
                parameter.requires_grad_(True)
