"""The ReinMax family: straight-through that is accurate to second order, and two forms with Gumbel noise."""

from dataclasses import dataclass
from math import isfinite
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractSampler, attach_gradient
from hardmax.spaces import AbstractFactorised, AbstractSpace, Binary
from hardmax.spaces._softmax import log_softmax
from hardmax.validation import check_draws, check_positive


@final
@dataclass(frozen=True)
class ReinMax(AbstractSampler):
    r"""ReinMax: straight-through that is accurate to second order (Heun's method), at the same cost.

    Straight-through replaces $f(c) - f(z)$ by the slope of f at one discrete z. ReinMax uses the mean of the slopes at
    z and at c; the slope at c is evaluated when c is sampled. For one variable of values c, with
    $J(p) = \operatorname{diag}(p) - p p^T$, $q = \operatorname{softmax}(\mathrm{scores})$,
    $q_\tau = \operatorname{softmax}(\mathrm{scores} / \tau)$,

    $$ \begin{aligned}
       \mathrm{gradient} &= \Big(2 \, J\Big(\frac{q_\tau + z}{2}\Big) - \frac{1}{2} J(q)\Big) \nabla f(z) \\
       &= \Big(J(q_\tau) - \frac{1}{2} J(q) + \frac{1}{2} (z - q_\tau) (z - q_\tau)^T\Big) \nabla f(z)
       \end{aligned} $$

    For a bit of score s, which is the variable of two values with scores $[0, s]$, $J(p)$ is $p (1 - p)$ with
    $p = \operatorname{sigmoid}(s)$, and $(z - p_\tau) (z - p_\tau)^T$ is $(z - p_\tau)^2$. With tau = 1 the factor of
    $\nabla f$ is half the probability of the value that was not sampled. For any variable it is then the mean of the
    factor $J(q)$ of straight-through and of $(z - q) (z - q)^T$, which is also the limit of `GumbelRao` for a small tau
    and many draws.

    Bias: none (tau = 1) where f is a polynomial of degree two in each variable, the other variables held fixed: of one
    variable, and of products such as $(z_1^T A z_1) (z_2^T B z_2)$. Otherwise the third derivative remains, and no
    parameter reduces it. A tau other than 1 is biased also for linear f: there the mean is
    $(J(q_\tau) + (q - q_\tau) (q - q_\tau)^T / 2) \, \nabla f$. Variance: more than that of straight-through, since the
    slope along $z - q$ is added (1.7 to 3.6 times its standard deviation for four variables of eight values). Cost: one
    evaluation of f per sample, and its derivative in z.

    Args:
        tau: temperature of the backward pass, > 0; the authors advise 1 or more. z is a sample of q for every tau.

    Raises:
        ArgumentError: tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, noise = torch.zeros(3, requires_grad=True), torch.eye(3)  # this noise draws each value once
        >>> f = lambda z: z[..., 0] ** 2
        >>> hm.expectation(f, scores, hm.Categorical(3), hm.ReinMax(), noise=noise).value.backward()
        >>> scores.grad  # the exact gradient of E[f] = q_0; straight-through gives two thirds of it
        tensor([ 0.2222, -0.1111, -0.1111])

    References:
        Liu, Dong, Liu, Yu & Gao, "Bridging discrete and backpropagation: straight-through and beyond", 2023. The second
        form, for tau = 1: Shekhovtsov, "Cold analysis of Rao-Blackwellized straight-through Gumbel-softmax gradient
        estimator", 2023.
    """

    tau: float = 1.0

    needs = ("draw", "marginals", "per_variable")
    only_draws = True
    independent = True

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with a gradient that is accurate to second order."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        hard, q = space.draw_with_marginals(scores, noise)
        return hard, attach_gradient(hard, _make_surrogate(scores, space, hard, q, self.tau))


def _make_surrogate(scores: Tensor, space: AbstractFactorised, z: Tensor, q: Tensor, tau: float = 1.0) -> Tensor:
    """Return a tensor `[S, *B, *score]` whose derivative for the scores is the matrix of ReinMax."""
    # J is symmetric: it is the derivative of marginals, and of tau marginals(scores / tau) at q_tau.
    soft = q if tau == 1 else space.marginals(scores / tau)
    jacobians = q / 2 if tau == 1 else tau * soft - q / 2
    deviation = (z - soft).detach()
    return jacobians + deviation * space.per_variable(deviation * scores) / 2


@final
@dataclass(frozen=True)
class ReinMaxRao(AbstractSampler):
    r"""ReinMax-Rao: ReinMax whose first Jacobian is that of Gumbel-softmax, averaged over noise. For comparison.

    The first term of ReinMax is $2 J(p)$ at $p = (q + z) / 2$, the distribution of the scores $\log p$. Here it is the
    mean derivative of relaxed, perturbed scores, with $q = \operatorname{softmax}(\mathrm{scores})$ at temperature one,

    $$ \begin{aligned}
       \mathrm{gradient} &= \Big(\frac{2}{\mathrm{draws}} \sum_k J_\tau(\log p + \mathrm{noise}_k)
       - \frac{1}{2} J(q)\Big) \nabla f(z), \\
       J_\tau(s) &= \frac{1}{\tau} J(\operatorname{softmax}(s / \tau))
       \end{aligned} $$

    The noise is independent of z. With `given_z`, as in public code for the reference, it is drawn given that z is the
    arg max of $\log p + \mathrm{noise}$, as in `GumbelRao`. That is no Rao-Blackwell average here, since z is a sample
    of q and not of p: for a small tau and many draws the first term alone is then ReinMax,
    $(J(q) + (z - q) (z - q)^T) / 2$, and $J(q) / 2$ is still subtracted.

    Bias: decreases to that of `ReinMax()` with tau, as its square: 0.06, 0.10 and 0.10 of the gradient for a linear
    f, a quadratic f and a small network at tau = 0.5, and 0.26, 0.29 and 0.31 at tau = 1. With `given_z` it
    remains: 0.23, 0.19 and 0.27 at tau = 0.5, and for linear f half of the gradient is lost as tau tends to zero.
    For a large tau both tend to $-J(q) \, \nabla f(z) / 2$, against the gradient. Variance: $A + B / \mathrm{draws}$,
    where A is the variance from z only, which a small tau brings to that of ReinMax. Given z, ReinMax has no variance
    that an average could reduce; only a larger tau reduces A, with the bias above. With 10 draws the standard deviation
    is 1.1 to 1.2 times that of ReinMax at tau = 0.5, and 0.70 to 0.76 times at tau = 1, where ReinMax times 0.7 has
    about the same bias, and `GumbelRao(10, 0.5)` about half of it at 0.74 to 0.81 times. (Means of three random
    problems of four variables of eight values.) Cost: one evaluation of f per sample, and its derivative in z; each
    draw costs a softmax, and memory for its perturbed scores.

    Args:
        draws: number of perturbations, and of noise tensors, per sample, >= 1.
        tau: temperature of the relaxation, > 0; z is a sample of q for every tau.
        given_z: draw the noise given z, which has a larger bias; to compare with the reference.

    Raises:
        ArgumentError: draws < 1 or tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> space, estimator = hm.Categorical(3), hm.ReinMaxRao(draws=5)
        >>> z = hm.sample(torch.zeros(2, 3), space, estimator, noise=space.noise((4 * 5, 2)))
        >>> z.shape, bool(z.max(-1).values.eq(1).all())
        (torch.Size([4, 2, 3]), True)

    References:
        Wang & Bui, "Beyond ReinMax: low-variance gradient estimators for discrete latent variables", 2026.
    """

    draws: int = 10
    tau: float = 0.5
    given_z: bool = False

    needs = ("draw", "marginals", "relax", "conditional", "residual")
    independent = True

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)
        check_draws(self.draws)

    @property
    def noises(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One noise tensor per draw."""
        return self.draws

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "R ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of ReinMax averaged over relaxed z."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        hard, average, noise = _draw_with_average(scores, space, noise, self.draws)
        # Deviation: public code for the reference always draws the noise given z.
        if self.given_z:
            perturbed = space.conditional(average, noise, hard.expand_as(noise))
        else:
            perturbed = space.perturb(average, noise)
        soft = space.relax(perturbed + (scores - scores.detach()), self.tau).mean(0)
        return hard, attach_gradient(hard, (2 * soft - space.marginals(scores) / 2).to(scores.dtype))


@final
@dataclass(frozen=True)
class ReinMaxCV(AbstractSampler):
    r"""ReinMax-CV: ReinMax with a Gumbel-softmax control variate, which cannot reduce its variance. For comparison.

    With $p = (q + z) / 2$ and $J_\tau$ as for `ReinMaxRao`, and samples $s_1, s_2, \dots$ of the perturbed scores
    $\log p + \mathrm{noise}$ given that z is their arg max,

    $$ \mathrm{gradient} = \mathrm{ReinMax} + \mathrm{eta} \, C, \qquad
       C = \Big(\frac{1}{\mathrm{draws}} \sum_k J_\tau(s_k) - J_\tau(s_1)\Big) \nabla f(z) $$

    which is `GumbelRao` minus straight-through Gumbel-softmax, both at the scores $\log p$ and at the same z.

    Bias: that of `ReinMax()`, for every eta, tau and number of draws, since the mean of C given z is zero. Variance:
    for that very reason never below that of `ReinMax()`, which depends on nothing but z:

    $$ \operatorname{Cov}(\mathrm{ReinMax}, C)
       = \mathbb{E}\big[(\mathrm{ReinMax} - \mathbb{E}[\mathrm{ReinMax}]) \, \mathbb{E}[C \mid z]^T\big] = 0, \qquad
       \operatorname{Var} = \operatorname{Var}(\mathrm{ReinMax}) + \mathrm{eta}^2 \operatorname{Var}(C) $$

    The best eta is zero, for every f and any number of variables: use `ReinMax()`. $\operatorname{Var}(C)$ grows
    with $1 - 1 / \mathrm{draws}$ (one draw is ReinMax), and as tau decreases. With eta = 1 and 10 draws the
    standard deviation is 1.27 to 1.42 times that of ReinMax at tau = 0.5, 1.07 to 1.11 times at tau = 1 and 1.00 to
    1.02 times at tau = 2 (four variables of eight values). Cost: that of `ReinMaxRao`.

    Args:
        eta: weight of the control variate; the best is zero.
        draws: number of perturbations, and of noise tensors, per sample, >= 1.
        tau: temperature of the control variate, > 0.

    Raises:
        ArgumentError: eta is not finite, draws < 1 or tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> space, f, slopes = hm.Categorical(3), lambda z: z[..., 0] ** 2, []
        >>> for estimator in (hm.ReinMax(), hm.ReinMaxCV(draws=4)):
        ...     scores, noise = torch.zeros(50_000, 3, requires_grad=True), space.noise((estimator.noises, 50_000))
        ...     hm.expectation(f, scores, space, estimator, noise=noise).value.sum().backward()
        ...     slopes.append(scores.grad[:, 0])
        >>> abs(float(slopes[0].mean() - slopes[1].mean())) < 0.02
        True
        >>> bool(slopes[1].var() > slopes[0].var())
        True

    References:
        Wang & Bui, "Beyond ReinMax: low-variance gradient estimators for discrete latent variables", 2026.
    """

    eta: float = 1.0
    draws: int = 10
    tau: float = 0.5

    needs = ("draw", "marginals", "per_variable", "relax", "conditional", "residual")
    independent = True

    def __post_init__(self) -> None:
        if not isfinite(self.eta):
            raise ArgumentError(f"eta must be finite, got {self.eta}")
        check_positive("tau", self.tau)
        check_draws(self.draws)

    @property
    def noises(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One noise tensor per draw."""
        return self.draws

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "R ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of ReinMax plus eta times the control variate."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        hard, average, noise = _draw_with_average(scores, space, noise, self.draws)
        perturbed = space.conditional(average, noise, hard.expand_as(noise))
        soft = space.relax(perturbed + (scores - scores.detach()), self.tau)
        reinmax = _make_surrogate(scores, space, hard, space.marginals(scores))
        return hard, attach_gradient(hard, reinmax + (self.eta * (soft.mean(0) - soft[0])).to(scores.dtype))


def _draw_with_average(
    scores: Tensor, space: AbstractFactorised, noise: Tensor, draws: int
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return z, the scores of $(q + z) / 2$, `[S, *B, *score]` each, and noise independent of z `[draws, S, ...]`.

    The first noise tensor of a sample draws z. What remains of it is independent of z, and takes its place.
    """
    noise = noise.unflatten(0, (-1, draws)).movedim(1, 0)
    detached = scores.detach().to(torch.promote_types(scores.dtype, noise.dtype))
    z = space.draw(detached, noise[0])
    noise = torch.cat([space.residual(detached, noise[0], z)[None], noise[1:]])
    return z.to(scores.dtype), _average_scores(space, detached, z), noise


def _average_scores(space: AbstractFactorised, scores: Tensor, z: Tensor) -> Tensor:
    r"""Return the scores of the distribution $(q + z) / 2$, `[S, *B, *score]`.

    Computed from log q, which does not underflow where q does.
    """
    if isinstance(space, Binary):
        sign = 2 * z - 1
        return sign * (torch.log1p((sign * scores).sigmoid()) - logsigmoid(-sign * scores))
    log_q = log_softmax(scores)
    return torch.where(z > 0, torch.log1p(log_q.exp()), log_q)  # times two: scores have a free constant
