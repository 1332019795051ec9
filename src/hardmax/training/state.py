"""All that changes while a run goes on, and one step of it."""

import math
from typing import Any

import torch
from torch import Tensor

from hardmax.random import stream
from hardmax.training.group import Message
from hardmax.training.progress import Progress
from hardmax.training.schedule import learning_rate_at
from hardmax.training.task import AbstractTask


class State:
    """All that changes while a run goes on: the weights and what trains them, and where it stands."""

    def __init__(self, task: AbstractTask[Any, Any]) -> None:
        self.task, self.config, self.group = task, task.config, task.group
        model, learned = list(task.model.parameters()), task.learned
        groups = [{"params": model}, {"params": learned}]
        self.optimizer = torch.optim.Adam(groups[: 2 if learned else 1], lr=self.config.learning_rate, fused=True)
        self.message = Message(task.group, [*model, *learned], sums=len(task.sums) + 1)
        self.progress = Progress(totals=self._nothing())
        self.steps = self.config.epochs * math.ceil(task.count / self.config.batch_size)

    def _nothing(self) -> list[float]:
        return [0.0] * (len(self.task.sums) + 1)

    def begin_epoch(self) -> tuple[Tensor, ...]:
        """Return the pictures of each step of this epoch, and set its generators unless they stand within it."""
        seed, epoch = self.config.seed, self.progress.epoch
        if self.progress.position == 0:
            for name, generator in self.task.generators.items():
                generator.manual_seed(stream(seed, name, epoch).initial_seed())
            self.progress.totals = self._nothing()
        return torch.randperm(self.task.count, generator=stream(seed, "data", epoch)).split(self.config.batch_size)

    def make_step(self, index: Tensor, *, stop: bool = False) -> tuple[Tensor, bool]:
        """Make one step, together with the other processes of the group.

        Args:
            index: the pictures of the step, those of all processes.
            stop: whether this process wishes to stop after the step.

        Returns:
            The task's sums over the batch, last its size; and whether any process wishes to stop.
        """
        self.message.clear(self.optimizer)
        part = self.task.add_gradients(index, self.progress.epoch, self.progress.step)
        sums, stop = self.message.exchange(part, stop)
        if self.config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.task.model.parameters(), self.config.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.config, self.progress.step, self.steps)
        self.optimizer.step()
        self.progress.step += 1
        return sums, stop
