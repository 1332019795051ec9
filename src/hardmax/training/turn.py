"""A part of a step: whose parameters move, and by which gradients."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Turn:
    """A part of a step, in which some parameters move and all others stand still.

    Most models have one. Of two that are trained against each other each has its own.

    Attributes:
        parameters: those that move.
        add_gradients: as `AbstractTask.add_gradients`; it gives zero for what another turn measures, the count too.
        rate: their learning rate, in that of the run.
        betas: of Adam.
        times: how often it is made in a step.
    """

    parameters: tuple[nn.Parameter, ...]
    add_gradients: Callable[[Tensor, int, int], Tensor]
    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    times: int = 1
