"""Adaptive I-MLE: the step is what it takes to move some of the arg maxes."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.adaptive_step import check_step_search, step_that_moves
from hardmax.estimators.linearised import AbstractLinearised, difference
from hardmax.spaces import AbstractSpace


@final
@dataclass(frozen=True)
class AdaptiveImplicitMLE(AbstractLinearised):
    """`ImplicitMLE` with the smallest step at which a share of the arg maxes move.

        gradient = (statistics(argmax(perturbed + step slope)) - statistics(z)) / step,
        step = min {t : at least `share` of the draws that can move have argmax(perturbed + t slope) != z}

    With a smaller step hardly a draw has a gradient, with a larger one the bias grows. There is one step for all draws
    of the call, and it is searched for between `smallest` and `largest` times `|perturbed| / |slope|`, the step at
    which both have the same norm. So the estimate follows the scale of the slope: twice the loss, half the step, twice
    the gradient. That makes it the one to use in `hardmax.sample`, where the slope comes with unknown factors. Draws
    that do not move at the largest step have a z that is the best already, and are left out of the share: late in
    training they are the most.

    Bias: as `ImplicitMLE` at the step found, and a little for the step depending on the draws; no ladder to make it
    vanish. Variance: the share bounds the draws without a gradient. Cost: one evaluation of f per sample, and its
    derivative in z; `3 + tries` arg maxes, one more if two-sided: worth it where an arg max is cheap against f. Under
    vmap every part has its own step.

    Args:
        share: of the draws of the call that can move, how many do, in (0, 1].
        smallest: where the search starts, > 0.
        largest: where it ends.
        tries: arg maxes that the search takes; the step is found to a factor of `(largest / smallest)^(1 / 2^tries)`.
        two_sided: move the scores in both directions, by the same step.

    Raises:
        ArgumentError: share outside (0, 1], smallest <= 0, largest < smallest, or tries < 1.
        NotExactError: z has another shape than the scores, and the space has no single changes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(100, 6, requires_grad=True)
        >>> z = hm.sample(scores, hm.Subset(6, 2), hm.AdaptiveImplicitMLE(share=0.5))
        >>> (z[..., 0].square().mean() / 1000).backward()
        >>> scores.grad.shape, hm.AdaptiveImplicitMLE().solves
        (torch.Size([100, 6]), 9)

    References:
        Minervini, Franceschi & Niepert, "Adaptive perturbation-based gradient estimation for discrete latent variable
        models", 2023. Deviation: the paper moves its step a little after every batch, towards one non-zero entry of the
        gradient for each draw (which for a swap of two items is a share of one half); ours keeps nothing between calls,
        and searches.
    """

    share: float = 0.5
    smallest: float = 1e-3
    largest: float = 10.0
    tries: int = 6
    two_sided: bool = False

    perturbs = True
    couples_examples = True

    def __post_init__(self) -> None:
        check_step_search(self.share, self.smallest, self.largest, self.tries)

    @property
    def solves(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """z, the search and its end, and one or two at the step found."""
        return self.tries + (4 if self.two_sided else 3)

    def start(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the perturbed scores."""
        return space.perturb(scores, noise)

    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Search for the step, and solve again with it."""
        size = slope.norm()
        ratio = torch.where(size > 0, perturbed.norm() / size, 1.0)

        def moved(step: float | Tensor) -> Tensor:
            return space.argmax(space.augment(perturbed, step * ratio * slope))

        can_move = (moved(self.largest) != z).any(tuple(range(-len(space.event_shape), 0))).to(slope.dtype).mean()
        step = ratio * step_that_moves(
            moved,
            z,
            space,
            share=self.share * can_move,
            smallest=self.smallest,
            largest=self.largest,
            solves=self.tries,
        )
        return difference(space, perturbed, z, slope, step, self.two_sided)
