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
from hardmax.training.task import AbstractTask, Turn


@dataclass
class Progress:
    """Where a run stands: what a checkpoint keeps beside weights.

    Attributes:
        epoch: epochs finished.
        position: steps done of the epoch after them.
        step: steps done in all.
        best: best value of the task's criterion on the validation pictures, and the epoch it was reached after.
        totals: sums over the unfinished epoch, for its row in `metrics.jsonl`.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    totals: list[float] = field(default_factory=list)


def learning_rate_at(config: TrainConfig, step: int, steps: int) -> float:
    """Return the learning rate of a step of so many."""
    if config.lr_schedule == "constant":
        return config.learning_rate
    return config.learning_rate * min(1.0, 2 * (1 - step / steps))


class State:
    """All that changes while a run goes on: the weights and what trains them, and where it stands."""

    def __init__(self, task: AbstractTask[Any, Any]) -> None:
        self.task, self.config, self.group = task, task.config, task.group
        self.turns = task.turns
        groups = [{"params": turn.parameters, "betas": turn.betas, "rate": turn.rate} for turn in self.turns]
        # One for all turns: it passes over parameters without a gradient, and those of other turns have none.
        self.optimizer = torch.optim.Adam(groups, lr=self.config.learning_rate, fused=True)
        self.messages = [Message(task.group, turn.parameters, sums=len(task.sums) + 1) for turn in self.turns]
        self.progress = Progress(totals=self._nothing())
        self.steps = self.config.epochs * math.ceil(task.count / self.config.batch_size)

    def _nothing(self) -> list[float]:
        return [0.0] * (len(self.task.sums) + 1)

    def begin_epoch(self) -> tuple[Tensor, ...]:
        """Return the examples of each step of this epoch, and set its generators unless they stand within it."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self.progress.position == 0:
            for name, generator in self.task.generators.items():
                generator.manual_seed(stream(seed, name, epoch).initial_seed())
            self.progress.totals = self._nothing()
        return torch.randperm(self.task.count, generator=stream(seed, "data", epoch)).split(self.config.batch_size)

    def make_step(self, index: Tensor, *, stop: bool = False) -> tuple[Tensor, bool]:
        """Make one step, together with the other processes of the group.

        Args:
            index: the examples of the step, those of all processes.
            stop: whether this process wishes to stop after the step.

        Returns:
            The task's sums over the batch, last its size; and whether any process wishes to stop.
        """
        rate = learning_rate_at(self.config, self.progress.step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        found: list[tuple[Tensor, bool]] = []
        for turn, message in zip(self.turns, self.messages, strict=True):
            with self._alone(turn):
                found += [self._make_turn(turn, message, index, stop=stop) for _ in range(turn.times)]
        self.progress.step += 1
        return torch.stack([sums for sums, _ in found]).sum(0), any(wish for _, wish in found)

    def _make_turn(self, turn: Turn, message: Message, index: Tensor, *, stop: bool) -> tuple[Tensor, bool]:
        """Move the parameters of a turn once; return its sums over the batch, and whether any process would stop."""
        message.clear(self.optimizer)
        part = turn.add_gradients(index, self.progress.epoch, self.progress.step)
        found = message.exchange(part, stop)
        if self.config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.task.model.parameters(), self.config.clip)
        self.optimizer.step()
        return found

    @contextmanager
    def _alone(self, turn: Turn) -> Iterator[None]:
        """Let the parameters of all other turns stand still."""
        others = [parameter for other in self.turns if other is not turn for parameter in other.parameters]
        for parameter in others:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in others:
                parameter.requires_grad_(True)
