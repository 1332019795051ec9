"""The state of a training run (weights, optimizer, progress), and one optimization step."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hardmax.random import VERSION, make_generator
from hardmax.training.config import TrainConfig
from hardmax.training.optimizers import make_optimizer
from hardmax.training.processes import Message
from hardmax.training.task import AbstractTask, ParameterUpdate


@dataclass
class Progress:
    """The progress of a run, which a checkpoint stores in addition to the weights.

    Attributes:
        epoch: number of finished epochs.
        position: number of finished steps of the current epoch.
        step: number of finished steps in total.
        best: best value of the criterion on the validation examples, such that higher is better.
        best_epoch: the epoch after which it was reached.
        best_checkpoint: name of the checkpoint after that epoch; None if there is none, and in older checkpoints.
        totals: sums over the unfinished epoch, for its row in `metrics.jsonl`.
        epochs: number of epochs of the run's schedule; None in older checkpoints, which do not store it.
        rate_limit: maximum of the schedule's factor of the learning rate; below 1 after a schedule was extended.
        random_version: `hardmax.random.VERSION` of the code that wrote the checkpoint; older checkpoints have none, 1.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    best_checkpoint: str | None = None
    totals: list[float] = field(default_factory=list)
    epochs: int | None = None
    rate_limit: float = 1.0
    random_version: int = 1


_EXTENDED_RATE = 0.1  # smallest factor of the learning rate with which an extended schedule continues


def schedule_rate(config: TrainConfig, step: int, steps: int) -> float:
    """Return the factor, at most 1, by which the schedule multiplies the learning rate in a step, out of `steps`."""
    return 1.0 if config.lr_schedule == "constant" else min(1.0, 2 * (1 - step / steps))


class State:
    """Everything that changes during a run: the weights, the optimizer and the progress."""

    def __init__(self, task: AbstractTask[Any, Any]) -> None:
        self.task, self.config, self.group = task, task.config, task.group
        self.updates = task.updates
        groups = [{"params": update.parameters, "betas": update.betas, "rate": update.rate} for update in self.updates]
        # One optimizer for all updates: it skips parameters without a gradient, such as those of other updates.
        self.optimizer = make_optimizer(self.config.optimizer, groups, self.config.learning_rate)
        self.messages = [Message(task.group, update.parameters, sums=len(task.sums) + 1) for update in self.updates]
        self.progress = Progress(totals=self._zero_totals(), epochs=self.config.epochs, random_version=VERSION)
        self.steps = self._count_steps(self.config.epochs)

    def _count_steps(self, epochs: int) -> int:
        return epochs * math.ceil(self.task.count / self.config.batch_size)

    def extend_schedule(self, epochs: int) -> str | None:
        """Continue a run whose schedule was planned for fewer epochs, without a sudden increase of the learning rate.

        After a shorter linear schedule has decayed, one for more epochs would return to the full rate, and a converged
        model can lose what it learned. The rate is therefore limited to its decayed value, or to a tenth of the full
        rate if it had decayed further, until the new schedule is below that limit.

        Args:
            epochs: number of epochs of the shorter schedule.

        Returns:
            A message for the user; None if the rate had not decayed.
        """
        self.progress.epochs = self.config.epochs
        if epochs >= self.config.epochs:
            return None
        factor = min(
            self.progress.rate_limit, schedule_rate(self.config, self.progress.step, self._count_steps(epochs))
        )
        if factor == 1.0:
            return None
        self.progress.rate_limit = max(factor, _EXTENDED_RATE)
        rate = self.config.learning_rate
        return (
            f"learning rate: {epochs} epochs had brought it down to {factor * rate:.2g}; with {self.config.epochs} it "
            f"goes on at {self.progress.rate_limit * rate:.2g}, instead of jumping back to {rate:.2g}, down to zero"
        )

    def update_random_version(self) -> str | None:
        """Return a message if the run began with other random numbers for the same seed; None if it did not."""
        if self.progress.random_version == VERSION:
            return None
        self.progress.random_version = VERSION
        return (
            "random numbers: this version draws other noise from the same seed than the version that began the run; it "
            "goes on from its checkpoint, but ends in other digits than without the interruption"
        )

    def _zero_totals(self) -> list[float]:
        return [0.0] * (len(self.task.sums) + 1)

    def begin_epoch(self) -> tuple[Tensor, ...]:
        """Return the indices of the examples of each step of this epoch; seed the generators if the epoch is new."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self.progress.position == 0:
            for name, generator in self.task.generators.items():
                generator.manual_seed(make_generator(seed, name, epoch).initial_seed())
            self.progress.totals = self._zero_totals()
        order = torch.randperm(self.task.count, generator=make_generator(seed, "data", epoch))
        return order.split(self.config.batch_size)

    def make_step(self, index: Tensor, *, stop: bool = False) -> tuple[Tensor, bool]:
        """Make one optimization step, together with the other processes of the group.

        Args:
            index: indices of the examples of the step, of all processes.
            stop: whether this process asks to stop after the step.

        Returns:
            The task's sums over the batch, followed by the batch size; and whether any process asks to stop.
        """
        factor = schedule_rate(self.config, self.progress.step, self.steps)
        rate = self.config.learning_rate * min(factor, self.progress.rate_limit)
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
        """Freeze the parameters of all other updates within the block."""
        others = [parameter for other in self.updates if other is not update for parameter in other.parameters]
        for parameter in others:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in others:
                parameter.requires_grad_(True)
