"""Result of a solver: the best z, its value and an upper bound of all values; and a record of the solvers that ran."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from hardmax._deprecation import RenamedMember

_record: ContextVar[list[str] | None] = ContextVar("hardmax_solvers", default=None)
ROUNDING = 1e-11  # relative to the sum of all |scores|: a bound this close to the value is the value


@dataclass(frozen=True)
class Solution:
    """The best known z of each example, with a certificate.

    Attributes:
        z: `[*B, *event]`. Usually zeros and ones, in the dtype of the scores.
        value: `[*B]`. The score of z, summed in float64.
        bound: `[*B]`. Upper bound of the score of any z; equal to the value where z is proved best.
        solver: the algorithm that ran.

    Example:
        >>> import torch
        >>> from hardmax.solvers import solve_pairwise
        >>> edges = torch.tensor([[0, 1]])
        >>> best = solve_pairwise(torch.tensor([1.0, -2.0]), torch.tensor([3.0]), edges, supermodular=True)
        >>> best.z.tolist(), best.value.item(), best.gap.item(), best.is_exact
        ([1.0, 1.0], 2.0, 0.0, True)
    """

    z: Float[Tensor, "..."]
    value: Float64[Tensor, "*B"]
    bound: Float64[Tensor, "*B"]
    solver: str

    @property
    def gap(self) -> Float64[Tensor, "*B"]:
        """`[*B]`. The bound minus the value: the largest possible improvement by another z."""
        return self.bound - self.value

    @property
    def is_exact(self) -> bool:
        """Whether every z of the batch is proved best, to rounding."""
        return bool((self.bound <= self.value).all())

    exact = RenamedMember("is_exact")


def certify_solution(
    z: Float64[Tensor, "B ..."],
    value: Float64[Tensor, "B"],
    bound: Float64[Tensor, "B"],
    scale: Float64[Tensor, "B"],
    solver: str,
) -> Solution:
    """Return a solution whose bound is the value itself where they differ only by rounding.

    Args:
        z: `[B, *event]`.
        value: `[B]`, of z.
        bound: `[B]`, as computed.
        scale: `[B]`, the sum of all |scores|, to which rounding is relative.
        solver: the algorithm.
    """
    # not "less or equal": a NaN among the scores leaves nothing to prove, and must not look like a gap
    return Solution(z, value, torch.where(bound > value + ROUNDING * scale, bound, value), solver)


@contextmanager
def record_solvers() -> Iterator[list[str]]:
    """Collect the names of the solvers that run within the block in a list, each name once.

    The solver may depend on the scores: general couplings are solved by min-cut if none is negative.

    Example:
        >>> import torch
        >>> from hardmax.solvers import solve_pairwise
        >>> with record_solvers() as names:
        ...     _ = solve_pairwise(torch.ones(2), torch.ones(1), torch.tensor([[0, 1]]), supermodular=False)
        >>> names
        ['min-cut']
    """
    names: list[str] = []
    token = _record.set(names)
    try:
        yield names
    finally:
        _record.reset(token)


def note_solver(name: str) -> None:
    """Add the name of a solver that ran to the record, if one is kept."""
    names = _record.get()
    if names is not None and name not in names:
        names.append(name)
