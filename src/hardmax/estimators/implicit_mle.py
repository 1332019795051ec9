"""Implicit maximum likelihood estimation (I-MLE): direct optimization of the linearised f."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.linearised import AbstractLinearised, difference
from hardmax.spaces import AbstractSpace
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class ImplicitMLE(AbstractLinearised):
    """I-MLE: the difference of two arg maxes that share their noise, one of them moved along the slope of f at z.

    With `perturbed = scores + noise`, `z = argmax(perturbed)` and the slope of f at z laid out like scores,

        gradient = (statistics(argmax(perturbed + step slope)) - statistics(z)) / step

    (two-sided: against `argmax(perturbed - step slope)`, over `2 step`). It is `Direct(epsilon=step)` with f replaced
    by its linearisation at z, so that one evaluation of f and its derivative do for all the single changes, for any
    space with an arg max. The two are equal, draw by draw, where the linearisation is exact at the z' that Direct
    evaluates: for f linear in z with `Direct(step, full=True)`; for bits, categories and chains with `Direct(step)`
    also for f linear in each variable given the others, such as products of bits.

    In `hardmax.expectation` the step is relative to the slope of f alone. In `hardmax.sample` it multiplies the slope
    of the loss as it comes, as in the paper, and z moves to where the loss is lower; a mean over samples or examples
    makes that slope small, and `step` has to make up for it, or use `AdaptiveImplicitMLE`.

    Bias: for f linear in z, O(step), two-sided O(step^2), none in the limit; for other f the slope at a corner stands
    in for differences between corners, and that bias stays. For a structured space the target is the expectation over
    perturb-and-MAP, not over q. Variance: grows as 1/step. Cost: one evaluation of f per sample, and its derivative in
    z; two arg maxes, three if two-sided.

    Args:
        step: how far the scores are moved along the slope, > 0 (the paper's lambda).
        two_sided: move them in both directions.

    Raises:
        ArgumentError: step <= 0.
        NotExactError: z has another shape than the scores, and the space has no single changes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(5, 3, 3, requires_grad=True), torch.eye(3)
        >>> f = lambda z: (z * worth).sum((-2, -1))
        >>> out = hm.expectation(f, scores, hm.Permutation(3), hm.ImplicitMLE(step=2.0), samples=8)
        >>> out.value.sum().backward()
        >>> scores.grad.shape, out.evaluations, out.solves
        (torch.Size([5, 3, 3]), 8.0, 16.0)

    References:
        Niepert, Minervini & Franceschi, "Implicit MLE: backpropagating through discrete exponential family
        distributions", 2021, algorithm 1. Two-sided: Minervini, Franceschi & Niepert, 2023.
        Deviation: noise is the space's own, where the paper has sums of gammas for k-subsets.
    """

    step: float = 1.0
    two_sided: bool = False

    perturbs = True

    def __post_init__(self) -> None:
        check_positive("step", self.step)

    @property
    def solves(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """z, and one or two more."""
        return 3 if self.two_sided else 2

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
        """Solve again with the slope added."""
        return difference(space, perturbed, z, slope, self.step, self.two_sided)
