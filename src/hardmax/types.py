"""Shared types: the objective f, and the result of an estimate.

Names of dimensions, used in every shape of the library:

| name | meaning |
|---|---|
| `S` | samples: independent draws of z for each example |
| `C` | candidates (or samples) that f is evaluated at in one call |
| `*B` | batch: any number of dimensions, including none |
| `N`, `K` | number of variables of z, and of values of each variable |
| `M` | members of a space, or changes of one variable of z |
| `R` | rows: chosen (example, z) pairs, flat |
| `*score`, `*event` | a space's `score_shape` and `event_shape` |

Samples come first: `[S, *B, N, K]`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from hardmax._deprecation import load_renamed

# f(z [C, *B, *event]) -> [C, *B], deterministic within one call. Optional methods make it faster: table() -> [*B, K],
# pairs(z [M, *event]) -> [*B, M], rows(z [R, *event], index [R]) -> [R] and changes(z [S, *B, *event]) -> Changes. See
# `hardmax.expectation`.
Objective = Callable[[Tensor], Tensor]


@runtime_checkable
class Changes(Protocol):
    """Gains of f from the M single changes of z, in the order of `space.change`, and upper bounds of them.

    For bits `[S, *B, N]`, change i flips bit i. For categories `[S, *B, N, K]`, change `i (K - 1) + s - 1` moves
    variable i by s values, cyclically.
    """

    @property
    def bounds(self) -> Tensor | None:
        """`[S, *B, M]`. Upper bound of the gain of each change; `inf` where none is known. None if there are none."""
        ...

    def gains(self, wanted: Tensor) -> Tensor:
        """Return `f(z after the change) - f(z)` where `wanted` `[S, *B, M]` is True: a flat tensor in that order."""
        ...


@dataclass(frozen=True)
class Estimate:
    r"""An estimate of $\mathbb{E}_{z \sim q(z \mid \mathrm{scores})}[f(z)]$ that carries its gradient.

    Attributes:
        value: `[*B]`. Forward: the Monte Carlo (or exact) value of the expectation. Backward: the
            estimator's gradient for `scores`, the ordinary gradient for everything f closes over.
        z: `[S, *B, *event]`. The hard draws behind the value, detached.
        evaluations: number of evaluations of f for all S samples together, including those at z*; mean per example.
        solves: number of arg maxes solved, counted the same way.
        auxiliary: `[]`. Loss for an estimator's own parameters, or None if it has none.
        log_prob: `[S, *B]`. log q of the draws, detached, if the estimator computes it anyway; else None.
        solver: names of all solvers of the arg max that ran, in order; None if the space has only one, or if none ran.
            While compiling, or under vmap, the solver that the space would choose by its promises.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(3, requires_grad=True)
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Categorical(3), hm.Exact())
        >>> round(out.value.item(), 4), out.evaluations
        (0.3333, 3.0)
    """

    value: Float[Tensor, "*B"]
    z: Float[Tensor, "S *B_and_event"]
    evaluations: float
    solves: float
    auxiliary: Float[Tensor, ""] | None = None
    log_prob: Float[Tensor, "S *B"] | None = None
    solver: str | None = None


__getattr__ = load_renamed(__name__, {"Flips": "Changes"})
