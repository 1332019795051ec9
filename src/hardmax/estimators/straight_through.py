"""Straight-through, and gapped straight-through."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import AbstractSampler, attach_gradient
from hardmax.spaces import AbstractSpace, Binary
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class StraightThrough(AbstractSampler):
    r"""Straight-through: evaluates f at a hard sample, and backpropagates as if the sample were its mean.

    In code, `z = sample + m - m.detach()` with `m = marginals(scores / tau)`.

    The sample is from q for every tau: tau is the temperature of the backward pass only.

    Bias: none where f is linear in z and tau = 1. Otherwise the slope of f at a discrete z replaces differences of f
    between discrete z, and no parameter reduces the bias. A tau other than 1 adds a bias for every f: for linear f the
    gradient is that of $\mathbb{E}_{q_\tau}[f]$, where $q_\tau$ is the distribution of $\mathrm{scores} / \tau$. A
    large tau scales the gradient down as $1/\tau$ and spreads it evenly over the values, including those that are
    unlikely under q; a small tau concentrates it on the values between which q is undecided. Variance: low. Cost: one
    evaluation of f per sample, and its derivative in z.

    Args:
        tau: temperature of the backward pass, > 0.

    Raises:
        ArgumentError: tau <= 0.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(2, requires_grad=True)
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Categorical(2), hm.StraightThrough())
        >>> out.value.backward()
        >>> scores.grad
        tensor([ 0.2500, -0.2500])

    References:
        Bengio, Leonard & Courville, "Estimating or propagating gradients through stochastic neurons", 2013;
        a temperature of the backward pass only: Shah, Yan, Mozer & Liu, "Improving discrete optimisation via decoupled
        straight-through Gumbel-softmax", 2024.
    """

    tau: float = 1.0

    needs = ("draw", "marginals")
    only_draws = True

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces where z has another shape than the scores: there the marginals are not the mean of z."""
        super().check(space, samples)
        if space.event_shape != space.score_shape:
            raise NotExactError(
                f"{self} needs a space whose z has the shape of its scores, which is not so for {space}; use "
                f"GumbelSoftmax(hard=True) or ImplicitMLE()"
            )

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of its mean."""
        if self.tau == 1:
            hard, soft = space.draw_with_marginals(scores, noise)
        else:
            hard, soft = space.draw(scores.detach(), noise), space.marginals(scores / self.tau)
        return hard, attach_gradient(hard, soft)


@final
@dataclass(frozen=True)
class GappedStraightThrough(AbstractSampler):
    r"""Gapped straight-through: straight-through Gumbel-softmax with a deterministic perturbation instead of the noise.

    The perturbation is the smallest one whose arg max is the sample z, by a gap. It raises the score of the sampled
    value to the largest score, and lowers each other score, where necessary, until it is `gap` below:

    $$ p_c = \begin{cases} \max_d \mathrm{scores}_d & \text{for the sampled } c \\
       \min(\mathrm{scores}_c, \, \max_d \mathrm{scores}_d - \mathrm{gap}) & \text{for all other } c
       \end{cases} $$

    f is evaluated at the hard sample, and its gradient goes to $\operatorname{relax}(p, \tau)$ with the perturbation
    held fixed: $\partial p / \partial \, \mathrm{scores} = 1$. For a bit, which is the variable of two values with
    scores $[0, s]$, $p = \mathrm{sign} \cdot \max(\mathrm{sign} \cdot s, \mathrm{gap})$, $\mathrm{sign} = 2 z - 1$.

    Bias: also for linear f, and no parameter reduces it. Where the arg max of the scores is sampled and leads by the
    gap, the gradient is that of `StraightThrough(tau)`. Where another value is sampled, the gradient decreases as
    $\mathrm{gap} / \tau$ grows. Variance: low, only that of z. Cost: one evaluation of f per sample, and its derivative
    in z.

    Args:
        gap: difference between the score of the sampled value and all other scores, > 0.
        tau: temperature of the backward pass, > 0; z is a sample of q for every tau.

    Raises:
        ArgumentError: gap <= 0 or tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.tensor([2.0, -2.0], requires_grad=True)
        >>> noise = torch.tensor([[0.0, 3.0]])  # draws ones: the first bit leads by more than the gap already
        >>> z = hm.sample(scores, hm.Binary(2), hm.GappedStraightThrough(gap=1.0), noise=noise)
        >>> z.sum().backward()
        >>> scores.grad
        tensor([0.1050, 0.1966])

    References:
        Fan, Chi, Rudnicky & Ramadge, "Training discrete deep generative models via gapped straight-through estimator",
        2022.
    """

    gap: float = 1.0
    tau: float = 1.0

    needs = ("draw", "relax")
    only_draws = True
    independent = True

    def __post_init__(self) -> None:
        check_positive("gap", self.gap)
        check_positive("tau", self.tau)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of relaxed scores whose arg max it is, by the gap."""
        detached = scores.detach()
        hard = space.draw(detached, noise)
        perturbed = self._apply_gap(detached, space, hard) + (scores - detached)
        return hard, attach_gradient(hard, space.relax(perturbed, self.tau))

    def _apply_gap(self, scores: Tensor, space: AbstractSpace, z: Tensor) -> Tensor:
        """Return scores whose arg max is z by the gap, `[S, *B, *score]`."""
        if isinstance(space, Binary):
            sign = 2 * z - 1
            return sign * (sign * scores).clamp_min(self.gap)
        top = scores.amax(-1, keepdim=True)
        return torch.where(z > 0, top, torch.minimum(scores, top - self.gap))
