"""Direct with an epsilon that fits itself to the batch."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.estimators.adaptive_step import check_step_search, first_step
from hardmax.estimators.perturbed import around
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate

_TRIES = 6  # finds epsilon to 7 percent between bounds that are a hundredfold apart


@final
@dataclass(frozen=True)
class AdaptiveDirect(AbstractEstimator):
    """Direct whose epsilon is as large as it can be: nothing to tune.

        epsilon = the first e, from `smallest` on, with P(z(e) != z*) >= share or P(more than one change) >= several,
        gradient = (statistics(z(epsilon)) - statistics(z*)) / epsilon,

    P over the samples of the batch. A small epsilon moves hardly an arg max, and the gradient is all noise. A large one
    saturates, since the gradient is at most 1/epsilon; and where variables move together, f's approximation around
    z*, which knows single changes alone, is wrong. So epsilon rises until either shows; for one variable the second
    never does. What z* leads by is linear in epsilon, so that an arg max that has moved stays moved: a few arg maxes
    find epsilon by bisection.

    Bias: O(epsilon), as Direct's; and, since epsilon is fitted to the very noise it is used with, of the order of 1
    over the number of examples times samples: it wants a batch of 100 or more. Variance: as Direct's at that epsilon.
    Cost: as Direct, K evaluations of f for one categorical, 1 + (number of single changes) per sample otherwise; eight
    arg maxes per sample.

    Args:
        share: of the arg maxes that may move, in (0, 1].
        several: share of the arg maxes that may move by more than one change, in (0, 1].
        smallest: epsilon is not below, > 0.
        largest: epsilon is not above; with a bound as the objective, 1 makes z(epsilon) a sample of the posterior.

    Raises:
        ArgumentError: a share outside (0, 1], or bounds that are none.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(100, 3, requires_grad=True), torch.tensor([1.0, 20.0, 400.0])
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(3), hm.AdaptiveDirect())
        >>> out.value.sum().backward()
        >>> out.evaluations, out.solves
        (3.0, 8.0)

    References:
        Ours; Minervini, Franceschi & Niepert, "Adaptive perturbation-based gradient estimation", 2023, adapt the step
        of implicit MLE to the number of gradients that are not zero.
    """

    share: float = 0.5
    several: float = 0.04
    smallest: float = 0.01
    largest: float = 1.0

    needs = ("change", "parts")
    takes_integrand = True
    perturbs = True

    def __post_init__(self) -> None:
        for share in (self.share, self.several):
            check_step_search(share, self.smallest, self.largest, _TRIES)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Solve for z*, evaluate f around it, and try epsilons until enough of the arg maxes move."""
        perturbed = space.perturb(scores.detach(), noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values, moved = around(f, space, perturbed, z)
        event = tuple(range(-len(space.event_shape), 0))
        one_change = self._one_change(space, z)

        def enough(step: Tensor) -> Tensor:
            apart = (moved(step)[0] != z).sum(event)
            any_, several = (apart > 0).to(noise.dtype).mean(), (apart > one_change).to(noise.dtype).mean()
            return (any_ >= self.share) | (several >= self.several)

        epsilon = first_step(enough, self.smallest, self.largest, _TRIES, like=noise)
        ahead = moved(epsilon)[0].to(scores.dtype)
        gradient = ((space.statistics(ahead) - space.statistics(z)).mean(0) / epsilon).to(scores.dtype)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, solves=(_TRIES + 2.0) * len(noise))

    def _one_change(self, space: AbstractSpace, z: Tensor) -> Tensor | int:
        """Return in how many entries a z differs from one that is a single change away: the same for all."""
        if not space.changes:
            return 0
        first = z.flatten(0, z.dim() - len(space.event_shape) - 1)[:1]
        return (space.change(first, torch.zeros(1, dtype=torch.long, device=z.device)) != first).sum()
