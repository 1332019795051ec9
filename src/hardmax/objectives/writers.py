"""Who draws sequences token after token, and who judges them: what `sequence_expectation` asks of both."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from hardmax.spaces import Categorical


@runtime_checkable
class Writer(Protocol):
    """Draws tokens: `hardmax.SequenceGenerator`, or anything that steps like it."""

    @property
    def space(self) -> Categorical:
        """What a token may be."""
        ...

    def begin(self, count: int) -> tuple[Tensor, Any]:
        """Return what stands before the first token of so many sequences `[N, K]`, and the state there."""
        ...

    def step(self, z: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token `[N, K]`; return the scores of the next one `[N, K]`, and the state there."""
        ...


@runtime_checkable
class Judge(Protocol):
    """Gives a number to every prefix: `hardmax.SequenceDiscriminator`, or anything that steps like it."""

    def begin(self, count: int) -> Any:
        """Return the state before the first token of so many sequences."""
        ...

    def step(self, z: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token `[N, K]`; return the numbers of the prefixes that end with it `[N]`, and the state there."""
        ...


def repeat_state(state: Any, times: int) -> Any:
    """Return a state, a tensor `[N, H]` or a tuple of such, for so many copies of each sequence `[times * N, H]`."""
    if isinstance(state, tuple):
        return tuple(repeat_state(part, times) for part in state)
    return state.repeat(times, *[1] * (state.dim() - 1))


def judge_sequences(judge: Judge, z: Tensor) -> Tensor:
    """Return the numbers of all prefixes: `[N, T, K] -> [N, T]`."""
    state, found = judge.begin(len(z)), []
    for token in z.unbind(1):
        number, state = judge.step(token, state)
        found.append(number)
    return torch.stack(found, 1)
