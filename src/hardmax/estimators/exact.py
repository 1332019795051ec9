"""The exact gradient, by enumeration."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractEstimator
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate


@final
@dataclass(frozen=True)
class Exact(AbstractEstimator):
    """The expectation itself, summed over every z of the space.

    `E[f] = sum_z q(z) f(z)`, `grad E[f] = sum_z q(z) grad log q(z) f(z)` (eq. 2 of the paper).

    Bias and variance: none. Cost: one evaluation of f for every z; K where `f.table()` serves, in one go.
    The samples in `Estimate.z` are there to look at; the value does not depend on them.

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
