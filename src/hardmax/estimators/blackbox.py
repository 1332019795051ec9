"""Differentiation of blackbox solvers: I-MLE without noise."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.linearised import AbstractLinearised, difference
from hardmax.spaces import AbstractSpace
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class Blackbox(AbstractLinearised):
    """The arg max itself, without noise, with the slope of a piecewise affine interpolation of f(argmax(scores)).

    With `z = argmax(scores)` and the slope of f at z laid out like scores,

        gradient = (statistics(argmax(scores + step slope)) - statistics(z)) / step,

    which is `ImplicitMLE(step)` with zero noise. The noise is ignored: nothing is sampled, all S samples are the same,
    and the value is `f(argmax(scores))`, not an expectation. In the backward pass the interpolation joins the plateaus
    of f, linearised at z, by slopes of a width that grows with the step.

    Use it for a layer that has to solve, such as a shortest path or a matching inside a network; to learn a
    distribution, use `ImplicitMLE`. What `step` is relative to in `hardmax.expectation` and in `hardmax.sample` is said
    there.

    Bias: against the gradient of the expectation, whatever the step; that of f(argmax(scores)) itself is zero almost
    everywhere. Zero as long as the step moves no arg max. Variance: none. Cost: one evaluation of f per sample, and its
    derivative in z; two arg maxes.

    Args:
        step: how far the scores are moved along the slope, > 0 (the paper's lambda); of the size of the differences
            between scores, over that of the slope.

    Raises:
        ArgumentError: step <= 0.
        NotExactError: z has another shape than the scores, and the space has no single changes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
        >>> z = hm.sample(scores, hm.Categorical(3), hm.Blackbox(step=2.0))
        >>> loss = z[0] @ torch.tensor([3.0, 2.0, 1.0])
        >>> loss.backward()
        >>> z[0].tolist(), scores.grad.tolist()
        ([1.0, 0.0, 0.0], [0.5, 0.0, -0.5])

    References:
        Vlastelica, Paulus, Musil, Martius & Rolinek, "Differentiation of blackbox combinatorial solvers", 2020,
        algorithm 1 (there costs are minimised; scores are minus costs).
    """

    step: float = 1.0

    solves = 2

    def __post_init__(self) -> None:
        check_positive("step", self.step)

    def start(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the scores, once for each sample."""
        return scores.to(torch.promote_types(scores.dtype, noise.dtype)).expand(noise.shape)

    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Solve again with the slope added."""
        return difference(space, perturbed, z, slope, self.step, two_sided=False)
