"""ARM: augment, REINFORCE, merge, for independent bits."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace, Binary
from hardmax.types import Estimate


@final
@dataclass(frozen=True)
class Arm(AbstractEstimator):
    """ARM: the difference of f at two samples of opposite noise, weighted by how extreme that noise is.

    With logistic noise, `z = 1[scores + noise > 0]` and `z' = 1[scores - noise > 0]`,

        gradient_i = (f(z) - f(z')) (sigmoid(noise_i) - 1/2)

    What f has in common at the two cancels. `DisArm` is the mean of this over all noise that gives the same pair; it
    costs the same, and is the one to use.

    Bias: none. Variance: above that of `DisArm`; on 20 bits we measured 1.2 to 1.9 times it, and 1.1 to 1.7 times that
    of REINFORCE with leave-one-out at two evaluations. Cost: two evaluations of f per sample, one of them without its
    gradient, and f need not be differentiable. With more samples, the mean over independent pairs.

    Raises:
        NotExactError: the space is not `Binary`.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, noise = torch.zeros(3, requires_grad=True), torch.tensor([[3.0, 1.0, -1.0]])
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Binary(3), hm.Arm(), noise=noise)
        >>> out.value.backward()
        >>> scores.grad, out.evaluations
        (tensor([ 0.4526,  0.2311, -0.2311]), 2.0)

    References:
        Yin & Zhou, "ARM: augment-REINFORCE-merge gradient for stochastic binary networks", 2019, theorem 1.
    """

    needs = ("draw",)

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse all but independent bits."""
        super().check(space, samples)
        if not isinstance(space, Binary):
            raise NotExactError(
                f"{self} needs independent bits, which {space} does not have; use Arsm() for categories"
            )

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw with the noise and with its opposite, and weigh the difference of f."""
        assert isinstance(space, Binary)  # check() has told the caller
        held = scores.detach()
        z, opposite = space.draw(held, noise), space.draw(held, space.antithetic(noise))
        values = f(z)
        with torch.no_grad():
            difference = values.detach() - f(opposite)
        # sigmoid(noise) - 1/2, without its cancellation around zero
        weight = ((noise / 2).tanh() / 2).to(scores.dtype)
        gradient = (difference[..., None] * weight).mean(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, solves=2.0 * len(noise))
