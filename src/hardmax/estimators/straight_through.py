"""The straight-through family: straight-through, gapped straight-through and ReinMax."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import AbstractSampler, carry
from hardmax.spaces import AbstractFactorised, AbstractSpace, Binary
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class StraightThrough(AbstractSampler):
    """Straight-through: f sees a hard sample, the gradient goes to its mean.

    `z = sample + m - m.detach()`, `m = marginals(scores / tau)`.

    The sample is from q for every tau: tau is the temperature of the backward pass only.

    Bias: none where f is linear in z and tau = 1; otherwise f's slope at a corner replaces its differences between
    corners, and no parameter reduces the bias. Another tau gives the gradient of `E_{q_tau}[f]` for linear f, `q_tau`
    the distribution of `scores / tau`: a bias of its own, for every f. A large tau shrinks the gradient as 1/tau and
    spreads it evenly over the values, including those that are unlikely under q; a small one concentrates it on the
    values between which q is undecided. Variance: low. Cost: one evaluation of f per sample, and its derivative in z.

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
        a temperature of the backward pass alone: Shah, Yan, Mozer & Liu, "Improving discrete optimisation via decoupled
        straight-through Gumbel-softmax", 2024.
    """

    tau: float = 1.0

    needs = ("draw", "marginals")

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces whose z are not their own statistics: there the mean of z is not the marginals."""
        super().check(space, samples)
        if space.event_shape != space.score_shape:
            raise NotExactError(
                f"{self} needs a space whose z has the shape of its scores, which {space} is not; use "
                f"GumbelSoftmax(hard=True) or ImplicitMLE()"
            )

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of its mean."""
        hard = space.draw(scores.detach(), noise)
        return hard, carry(hard, space.marginals(scores / self.tau))


@final
@dataclass(frozen=True)
class GappedStraightThrough(AbstractSampler):
    """Gapped straight-through: straight-through Gumbel-softmax, the noise replaced by the least move that draws z.

    The score of the value drawn is raised to the largest, and those of the others are lowered, where necessary, until
    they lie a gap below:

        p_c = max_c' scores_c'  for the c drawn,        p_c = min(scores_c, max_c' scores_c' - gap)  for the others.

    f sees the hard sample, and its gradient goes to `relax(p, tau)`, the move held fixed: `dp / dscores = 1`. For a
    bit, which is the variable of two values with scores [0, s], `p = sign max(sign s, gap)`, sign = 2 z - 1.

    Bias: for linear f too, and no parameter reduces it. Where the arg max of the scores is drawn and leads by the gap,
    the gradient is that of `StraightThrough(tau)`; where another value is drawn, it is smaller the larger `gap / tau`
    is. Variance: low, that of z alone. Cost: one evaluation of f per sample, and its derivative in z.

    Args:
        gap: how far the value drawn leads, > 0.
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
    independent = True

    def __post_init__(self) -> None:
        check_positive("gap", self.gap)
        check_positive("tau", self.tau)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of the relaxed scores that it leads by the gap."""
        held = scores.detach()
        hard = space.draw(held, noise)
        moved = self._apply_gap(held, space, hard) + (scores - held)
        return hard, carry(hard, space.relax(moved, self.tau))

    def _apply_gap(self, scores: Tensor, space: AbstractSpace, z: Tensor) -> Tensor:
        """Return scores that z leads by the gap, `[S, *B, *score]`."""
        if isinstance(space, Binary):
            sign = 2 * z - 1
            return sign * (sign * scores).clamp_min(self.gap)
        top = scores.amax(-1, keepdim=True)
        return torch.where(z > 0, top, torch.minimum(scores, top - self.gap))


@final
@dataclass(frozen=True)
class ReinMax(AbstractSampler):
    """ReinMax: f sees a hard sample, and differences of f come from its slopes at both ends (Heun's method).

    Straight-through replaces `f(c) - f(z)` by the slope at one corner; ReinMax takes the mean of the slopes at z and at
    c, of which the one at c is evaluated when c is drawn. For one variable of values c, with `J(p) = diag(p) - p p^T`,
    `q = softmax(scores)`, `q_tau = softmax(scores / tau)`,

        gradient = (2 J((q_tau + z) / 2) - J(q) / 2) grad f(z)
                 = (J(q_tau) - J(q) / 2 + (z - q_tau) (z - q_tau)^T / 2) grad f(z).

    For a bit of score s, which is the variable of two values with scores [0, s], J(p) is `p (1 - p)` with
    `p = sigmoid(s)`, and `(z - p_tau) (z - p_tau)^T` is `(z - p_tau)^2`. With tau = 1 the factor of grad f is half the
    probability of the value that was not drawn; and for any variable it is the mean of straight-through's and of
    `(z - q) (z - q)^T`, which is also the limit of `GumbelRao` for a small tau and many draws.

    Bias: none (tau = 1) where f is a polynomial of degree two in each variable, the others held fixed: of one variable,
    and of products such as `(z_1^T A z_1) (z_2^T B z_2)`. Otherwise the third derivative remains, and no parameter
    reduces it. Another tau is biased for linear f too: there the mean is
    `(J(q_tau) + (q - q_tau) (q - q_tau)^T / 2) grad f`. Variance: more than straight-through's, since the slope along
    `z - q` is added (1.7 to 3.6 times its standard deviation for four variables of eight values). Cost: one evaluation
    of f per sample, and its derivative in z.

    Args:
        tau: temperature of the backward pass, > 0; the authors advise 1 or more. z is a sample of q for every tau.

    Raises:
        ArgumentError: tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, each = torch.zeros(3, requires_grad=True), torch.eye(3)  # noise that draws each value once
        >>> f = lambda z: z[..., 0] ** 2
        >>> hm.expectation(f, scores, hm.Categorical(3), hm.ReinMax(), noise=each).value.backward()
        >>> scores.grad  # as of E[f] = q_0; straight-through gives two thirds of it
        tensor([ 0.2222, -0.1111, -0.1111])

    References:
        Liu, Dong, Liu, Yu & Gao, "Bridging discrete and backpropagation: straight-through and beyond", 2023. The second
        form, for tau = 1: Shekhovtsov, "Cold analysis of Rao-Blackwellized straight-through Gumbel-softmax gradient
        estimator", 2023.
    """

    tau: float = 1.0

    needs = ("draw", "marginals", "per_variable")
    independent = True

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with a gradient of second order."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all others
        hard = space.draw(scores.detach(), noise)
        soft = space.marginals(scores / self.tau)
        # J is symmetric: it is the derivative of marginals, and of tau marginals(scores / tau) at q_tau.
        jacobians = self.tau * soft - space.marginals(scores) / 2
        rest = (hard - soft).detach()
        return hard, carry(hard, jacobians + rest * space.per_variable(rest * scores) / 2)
