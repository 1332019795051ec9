"""The exact gradient by enumeration, and local expectation gradients, exact in one variable at a time."""

import warnings
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators._single_changes import evaluate_chosen_changes, evaluate_single_changes
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import can_read_values, check_positive


@final
@dataclass(frozen=True)
class Exact(AbstractEstimator):
    """The expectation itself, summed over every z of the space.

    `E[f] = sum_z q(z) f(z)`, `grad E[f] = sum_z q(z) grad log q(z) f(z)` (eq. 2 of the paper).

    Bias and variance: none. Cost: one evaluation of f for every z; K where `f.table()` is used, in one call. The
    samples in `Estimate.z` are for inspection; the value does not depend on them.

    Raises:
        NotExactError: the space has too many members to enumerate.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(2, requires_grad=True)
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Categorical(2), hm.Exact())
        >>> out.value.backward()
        >>> scores.grad
        tensor([ 0.2500, -0.2500])

    References:
        Lorberbom et al., "Direct optimization through arg max for discrete variational auto-encoder", 2019.
    """

    needs = ("enumerate",)

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces that are too large."""
        super().check(space, samples)
        space.check_enumerable()

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Sum over the space."""
        draw = space.draw if space.offers("draw") else lambda h, g: space.argmax(space.perturb(h, g))
        z = draw(scores.detach(), noise)
        value = (space.log_probs(scores).exp() * f.table()).sum(-1)
        return Estimate(value, z, f.evaluations, solves=float(len(noise)))


@final
@dataclass(frozen=True)
class Roulette:
    """Evaluate a variable's changes with probability `p = clamp(rate * uncertainty, floor, 1)`, weighted 1/p.

    A variable that is nearly certain under q has a small gradient, and is seldom worth an evaluation of f.

    Args:
        rate: how fast p grows with the variance q (1 - q) of a bit (for k values: sum of q_c q_c' over pairs).
        floor: smallest probability, in (0, 1]; bounds the weights.

    Raises:
        ArgumentError: rate <= 0, or floor outside (0, 1].

    Example:
        >>> import torch, hardmax as hm
        >>> hm.Roulette().probability(hm.Binary(3).uncertainty(torch.tensor([0.0, 4.0, 20.0])))
        tensor([1.0000, 0.3533, 0.0500])
    """

    rate: float = 20.0
    floor: float = 0.05

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        if not 0 < self.floor <= 1:
            raise ArgumentError(f"floor must be in (0, 1], got {self.floor}")

    def probability(self, uncertainty: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return p of every variable from its uncertainty; any shape."""
        return (self.rate * uncertainty).clamp(self.floor, 1.0)


@final
@dataclass(frozen=True)
class LocalExpectation(AbstractEstimator):
    """Local expectation: every variable is summed out exactly, the others held at a sample.

    For variable i with values c, `gradient_ic = q_ic (f_ic - sum_c' q_ic' f_ic')`, `f_ic = f(z with z_i = c)`;
    for a bit, `q_i (1 - q_i) (f(z_i = 1) - f(z_i = 0))`.

    With `roulette` each variable's changes are evaluated with a probability that follows its uncertainty and weighted
    by its inverse. That saves evaluations only if f has `rows`; without it all are evaluated anyway, with a warning,
    and the result is the one that rows would give.

    Bias: none, with roulette too. Variance: the least that we have measured for a factorised q at this cost; none for
    one variable. Cost: K evaluations of f for one categorical (where roulette is not used); otherwise 1 + (number of
    single changes) per sample, with roulette and `f.rows` two to five times fewer.

    Args:
        roulette: False, True for the default `Roulette()`, or a `Roulette`.

    Raises:
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.prod(-1), scores, hm.Binary(6), hm.LocalExpectation())
        >>> out.value.sum().backward()
        >>> out.evaluations
        7.0

    References:
        Titsias & Lazaro-Gredilla, "Local expectation gradients for black box variational inference", 2015.
        Roulette is ours.
    """

    roulette: bool | Roulette = False

    needs = ("draw", "marginals", "change", "parts")
    independent = True

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z and sum each variable out around it."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all others
        z = space.draw(scores.detach(), noise)
        if self.roulette and space.variables > 1:
            values, parts = self._play(f, scores.detach(), space, noise, z)
        else:
            values, parts = evaluate_single_changes(f, space, z)
        # The gradient of <marginals, parts> with parts held fixed is q_ic (f_ic - sum_c' q_ic' f_ic').
        surrogate = space.dot(space.marginals(scores), parts)
        surrogate = surrogate if surrogate.dim() < values.dim() else surrogate.mean(0)
        return Estimate(carry(values.mean(0), surrogate), z, f.evaluations, solves=float(len(noise)))

    def _play(
        self, f: Evaluator, scores: Tensor, space: AbstractFactorised, noise: Tensor, z: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return as `evaluate_single_changes`, the parts of the variables that lose set to zero, the others' raised."""
        roulette = self.roulette if isinstance(self.roulette, Roulette) else Roulette()
        probability = roulette.probability(space.uncertainty(scores))
        kept = space.leftover(scores, noise, z) < probability
        if (f.has_rows or f.has_flips) and can_read_values():
            values, parts = evaluate_chosen_changes(f, space, z, kept)
        else:  # which rows there are is not known while compiling or under vmap
            if can_read_values():
                warnings.warn(
                    "roulette saves no evaluation because f has no rows(z, index) method: add one, or drop roulette",
                    stacklevel=4,
                )
            values, parts = evaluate_single_changes(f, space, z)
        return values, torch.where(kept, parts / probability, 0.0)
