"""The processes that train one model together, and what they tell each other."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from hardmax.errors import ArgumentError, HardmaxError
from hardmax.training.config import TrainConfig

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """The processes that train one model together, each with its part of every batch; by default this one alone.

    All of them hold the same weights and the same generators, and make the same steps. The first one writes the run's
    folder and speaks. A method that talks to the others is called by all processes, in the same order.

    Attributes:
        rank: of this process, from 0.
        size: how many there are.
        here: how many of them run on this machine.
    """

    rank: int = 0
    size: int = 1
    here: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """Return which of so many examples are this process's; parts differ by one at most, and may be empty."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes, the same bits in each."""
        if self.size > 1:
            with self._in_touch():
                distributed.all_reduce(tensor)

    def total(self, number: float) -> float:
        """Return the sum of a number over all processes."""
        tensor = torch.tensor(number, dtype=torch.float64)
        self.add_up(tensor)
        return tensor.item()

    def from_first(self, make: Callable[[], T]) -> T:
        """Return what the first process makes, in all of them; the others make nothing. It is sent as a pickle."""
        if self.size == 1:
            return make()
        made = [make() if self.first else None]
        with self._in_touch():
            distributed.broadcast_object_list(made, device=torch.device("cpu"))
        return made[0]  # pyright: ignore[reportReturnType]

    def check(self, config: TrainConfig, *, couples_examples: bool) -> None:
        """Refuse what cannot be trained by this group, such as gradients that look at the whole batch.

        Raises:
            ArgumentError: naming the option to change.
        """
        if config.devices not in (1, self.size):
            raise ArgumentError(
                f"devices is {config.devices}, but the processes that train together are {self.size}; run hardmax "
                f"train --devices {config.devices}, or torchrun without --devices"
            )
        if self.size == 1:
            return
        if couples_examples:
            raise ArgumentError(
                f"a gradient that looks at all pictures of a batch, which {self.size} processes do not have, cannot be "
                f"shared; train in one process, or use another estimator (reinforce: another --baseline)"
            )
        if config.batch_size < self.size:
            raise ArgumentError(f"batch-size must be at least {self.size}, one picture each, got {config.batch_size}")
        if config.device not in ("cpu", "cuda"):
            raise ArgumentError(
                f"several processes train on cpu or on cuda, a GPU for each, not on {config.device!r}; "
                f"give --device cpu or --device cuda"
            )
        if config.device == "cuda" and self.here > torch.cuda.device_count():
            raise ArgumentError(
                f"{self.here} processes need a GPU each, and {torch.cuda.device_count()} are here; ask for fewer"
            )

    def check_same(self, what: str, found: object) -> None:
        """Raise `HardmaxError` unless all processes have found the same."""
        expected = self.from_first(lambda: found)
        if found != expected:
            raise HardmaxError(
                f"process {self.rank + 1} of {self.size} has {what} {found}, the first one {expected}; all machines "
                f"must see the same --data and the same folder --out"
            )

    @contextmanager
    def _in_touch(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # also what NCCL and a store raise
            reason = re.sub(r"^\[[^]]*] |\. .*", "", (str(error).splitlines() or [""])[0])  # gloo adds where and a wish
            raise HardmaxError(
                f"process {self.rank + 1} of {self.size} lost another one, which has failed, was killed or does not "
                f"answer ({reason}); go on with --resume"
            ) from error


ALONE = Group()


class Message:
    """The gradients of all parameters as one tensor, with a few sums behind them: all that a step exchanges.

    Not `DistributedDataParallel`: it hides the exchange behind the backward pass of large networks, and these are
    small. With 478,000 weights and 50 pictures for each of two processes a step took 10 to 20 percent less time like
    this than with it, which also left the sums, the wish to stop and an estimator's own parameters to other messages,
    of 0.2 ms each. One process alone has nothing to exchange.

    Args:
        group: who takes part.
        parameters: whose gradients are added up.
        sums: how many there are.
    """

    def __init__(self, group: Group, parameters: Sequence[nn.Parameter], sums: int) -> None:
        self._group = group
        self._views: list[tuple[nn.Parameter, Tensor]] = []
        if group.size == 1:
            return
        sizes = [parameter.numel() for parameter in parameters]
        self._tensor = torch.zeros(sum(sizes) + sums + 1, device=parameters[0].device)
        *gradients, self._sums = self._tensor.split([*sizes, sums + 1])
        self._views = [(own, gradient.view_as(own)) for own, gradient in zip(parameters, gradients, strict=True)]

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        """Take away all gradients of an optimizer, and give the parameters of this message zeros within it."""
        optimizer.zero_grad(set_to_none=True)
        for parameter, gradient in self._views:
            parameter.grad = gradient.zero_()  # backward adds to a gradient that is there, in place

    def exchange(self, sums: Tensor, stop: bool) -> tuple[Tensor, bool]:
        """Add up the gradients in place; return the sums over all processes, and whether any wishes to stop."""
        if self._group.size == 1:
            return sums, stop
        self._sums.copy_(torch.cat([sums, sums.new_tensor([stop])]))
        self._group.add_up(self._tensor)
        return self._sums[:-1].clone(), bool(self._sums[-1])
