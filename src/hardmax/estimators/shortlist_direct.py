"""Averaged direct on a short list of categories, for an f that is dear."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class ShortlistDirect(AbstractEstimator):
    """`AveragedDirect` between the categories that are drawn first, for one categorical of many values.

    The list L has the `size` largest of scores + Gumbel: samples of q without replacement, z* the first of them. With
    `q_L` the softmax of the scores on the list alone,

        gradient = (softmax_L(scores + epsilon f) - softmax_L(scores)) / epsilon     on L, else 0.

    A category that is unlikely waits until it is drawn; all that f costs is spent on those that may matter. With
    the whole integrand of a bound as f, as `elbo` gives it, the gradient at epsilon = 1 is `p_L(z | x) - q_L(z)`: zero
    where q is the posterior, for any list, so the fixed point is the right one.

    Bias: beside that of AveragedDirect, what is on a list is compared with the rest of it alone; none if the list has
    all K categories, when this is AveragedDirect. Variance: that of the list. Cost: `size` evaluations of f per sample
    instead of K, of which z* alone has a backward pass.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        size: of the list, at least 2; lists of more than K have K.

    Raises:
        ArgumentError: epsilon <= 0, or a list of fewer than two.
        NotExactError: the space is not one categorical variable.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(5, 100, requires_grad=True), torch.arange(100.0)
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(100), hm.ShortlistDirect(size=4))
        >>> out.value.sum().backward()
        >>> out.evaluations, (scores.grad != 0).sum(-1).max().item() <= 4
        (4.0, True)

    References:
        Ours, after Lorberbom et al., 2019, theorem 1, and Vieira, "Gumbel-max trick and weighted reservoir sampling",
        2014.
    """

    epsilon: float = 1.0
    size: int = 4

    needs = ("draw", "marginals")
    independent = True
    takes_integrand = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.size < 2:
            raise ArgumentError(f"size of the list must be at least 2, z* and another, got {self.size}")

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse several variables."""
        super().check(space, samples)
        if space.categories is None:
            raise NotExactError(f"{self} is for one categorical variable, not for {space}; use AveragedDirect()")

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw the lists, evaluate f on them, and move the probabilities between their members."""
        samples, batch = len(noise), space.batch_shape(scores)
        held = scores.detach().reshape(*batch, space.size)
        perturbed = space.perturb(scores.detach(), noise).reshape(samples, *batch, space.size)
        listed = perturbed.topk(min(self.size, space.size), dim=-1).indices
        each = torch.arange(space.size, device=scores.device)
        members = (listed.movedim(-1, 0)[..., None] == each).to(scores.dtype)
        members = members.view(*members.shape[: 2 + len(batch)], *space.event_shape)
        z = members[0]
        values = f(z)
        with torch.no_grad():
            others = f(members[1:].flatten(0, 1)).view(len(members) - 1, *values.shape)
        worth = torch.cat([values.detach()[None], others]).movedim(0, -1)
        log_q = held.expand(samples, *held.shape).gather(-1, listed)
        moved = ((log_q + self.epsilon * worth).softmax(-1) - log_q.softmax(-1)) / self.epsilon
        gradient = torch.zeros_like(perturbed).to(moved.dtype).scatter(-1, listed, moved).mean(0).view(scores.shape)
        return Estimate(carry(values.mean(0), space.dot(gradient, scores)), z, f.evaluations, float(samples))
