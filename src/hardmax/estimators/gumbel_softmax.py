"""Gumbel-softmax, and Gumbel-Rao, its straight-through form averaged over the noise."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractSampler, attach_gradient
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.validation import check_draws, check_positive


@final
@dataclass(frozen=True)
class GumbelSoftmax(AbstractSampler):
    r"""Gumbel-softmax (Concrete): replaces the arg max of the perturbed scores by a softmax with temperature tau.

    $$ z = \operatorname{softmax}\Big(\frac{\mathrm{scores} + \mathrm{noise}}{\tau}\Big) $$

    For bits it is the sigmoid. With `hard`, f is evaluated at the arg max, and the gradient is that of the relaxed z
    (straight-through Gumbel-softmax). That arg max is the same at every tau: with `hard`, tau is the temperature of the
    backward pass only, and can be chosen for the gradient, as in decoupled estimators.

    Bias: the relaxed z is not discrete, and nothing is known about f between discrete z (the corners); the bias
    decreases with tau. With `hard`, the slope of f at the corners replaces differences of f: the bias decreases to zero
    with tau only where f is of degree two in each variable, the other variables held fixed, and otherwise tends to that
    of `ReinMax()`. Variance: grows as tau decreases; with `hard`, `GumbelRao` has the same mean and less variance.
    Cost: one evaluation of f per sample, and its derivative in z.

    Args:
        tau: temperature, > 0.
        hard: evaluate f at hard z.

    Raises:
        ArgumentError: tau <= 0.

    Example:
        >>> import torch, hardmax as hm
        >>> z = hm.sample(torch.zeros(2, 3), hm.Categorical(3), hm.GumbelSoftmax(tau=0.5), samples=4)
        >>> z.shape, bool(torch.allclose(z.sum(-1), torch.ones(4, 2)))
        (torch.Size([4, 2, 3]), True)

    References:
        Jang, Gu & Poole, "Categorical reparameterization with Gumbel-softmax", 2017; Maddison, Mnih & Teh,
        "The Concrete distribution", 2017; Shah, Yan, Mozer & Liu, "Improving discrete optimisation via decoupled
        straight-through Gumbel-softmax", 2024.
    """

    tau: float = 1.0
    hard: bool = False

    needs = ("relax",)
    perturbs = True

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return the arg max, and the relaxed z (with `hard`, the arg max with the gradient of the relaxed z)."""
        perturbed = space.perturb(scores, noise)
        hard = space.argmax(perturbed.detach()).to(scores.dtype)
        soft = space.relax(perturbed, self.tau).to(scores.dtype)
        return hard, attach_gradient(hard, soft) if self.hard else soft

    def sample_with_gradient(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the relaxed z, without an arg max unless `hard`."""
        if self.hard:
            return self.sample(scores, space, noise)[1]
        return space.relax(space.perturb(scores, noise), self.tau).to(scores.dtype)


@final
@dataclass(frozen=True)
class GumbelRao(AbstractSampler):
    r"""Gumbel-Rao: straight-through Gumbel-softmax with its gradient averaged over all noise that draws the same z.

    Many perturbed scores have the same arg max (Rao-Blackwell: averaging over them reduces the variance). f is
    evaluated at the hard z of the first, and its gradient goes to

    $$ \frac{1}{\mathrm{draws}} \sum_k \operatorname{relax}(p_k, \tau), \qquad
       p_1 = \mathrm{scores} + \mathrm{noise}, $$

    where the other $p_k$, $k > 1$, are samples of $p(\text{perturbed scores} \mid z)$. Each $p_k$ is the scores plus a
    shift that is held fixed: $\partial p_k / \partial \, \mathrm{scores} = 1$, as it is for $p_1$. Differentiating the
    shift as well would change the mean.

    Bias: that of `GumbelSoftmax(tau, hard=True)`, with the same mean for every number of draws. Where f is of degree
    two in each variable, the other variables held fixed, the bias decreases to zero with tau; otherwise it tends to
    that of `ReinMax()`, to which the gradient itself tends for a small tau and many draws. Variance:
    $A + B / \mathrm{draws}$, where A is the variance from z only, and B grows as tau decreases, so that a small tau
    needs many draws, and is affordable with them. Never above that of `GumbelSoftmax(tau, hard=True)`, which is draws =
    1. Cost: one evaluation of f per sample, and its derivative in z; each draw costs a softmax, and memory for its
    perturbed scores.

    Args:
        draws: number of perturbations, and of noise tensors, per sample, >= 1.
        tau: temperature, > 0; z is a sample of q for every tau.

    Raises:
        ArgumentError: draws < 1 or tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> space, estimator = hm.Categorical(3), hm.GumbelRao(draws=5, tau=0.5)
        >>> z = hm.sample(torch.zeros(2, 3), space, estimator, noise=space.noise((4 * 5, 2)))
        >>> z.shape, bool(z.max(-1).values.eq(1).all())
        (torch.Size([4, 2, 3]), True)

    References:
        Paulus, Maddison & Krause, "Rao-Blackwellizing the straight-through Gumbel-softmax gradient estimator", 2021;
        the limit of small tau: Shekhovtsov, "Cold analysis of Rao-Blackwellized straight-through Gumbel-softmax
        gradient estimator", 2023.
    """

    draws: int = 10
    tau: float = 0.5

    needs = ("draw", "relax", "conditional")
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
        """Return the arg max, and the arg max with the mean gradient of relaxed z with the same arg max."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        detached = scores.detach()
        noise = noise.unflatten(0, (-1, self.draws))
        first, more_noise = space.perturb(detached, noise[:, 0]), noise[:, 1:]
        hard = space.argmax(first).to(scores.dtype)
        repeated = hard[:, None].expand_as(more_noise)
        conditional = space.conditional(detached, more_noise.flatten(0, 1), repeated.flatten(0, 1))
        perturbed = torch.cat([first[:, None], conditional.reshape(more_noise.shape)], 1) + (scores - detached)
        return hard, attach_gradient(hard, space.relax(perturbed, self.tau).mean(1).to(scores.dtype))
