"""Gumbel-softmax, and its straight-through form averaged over the noise (Gumbel-Rao)."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractSampler, carry
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class GumbelSoftmax(AbstractSampler):
    """Gumbel-softmax, or Concrete: `z = softmax((scores + noise) / tau)`; for bits the sigmoid.

    With `hard`, f sees the arg max and the gradient is that of the relaxed z (straight-through Gumbel-softmax). That
    arg max is the same at every tau: with `hard`, tau is the temperature of the backward pass only, free to be chosen
    for the gradient, as in decoupled estimators.

    Bias: the relaxed z is not discrete, and f may do anything between the corners; falls with tau. With `hard`, f's
    slope at the corners replaces differences of f: the bias falls with tau only where f is of degree two in each
    variable, the others held fixed, and otherwise tends to that of `ReinMax()`. Variance: grows as tau falls; with
    `hard`, `GumbelRao` has the same mean and less. Cost: one evaluation of f per sample, and its derivative in z.

    Args:
        tau: temperature, > 0.
        hard: let f see hard z.

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
        """Return the arg max, and the relaxed one (or the arg max with the relaxed one's gradient)."""
        perturbed = space.perturb(scores, noise)
        hard = space.argmax(perturbed.detach()).to(scores.dtype)
        soft = space.relax(perturbed, self.tau).to(scores.dtype)
        return hard, carry(hard, soft) if self.hard else soft


@final
@dataclass(frozen=True)
class GumbelRao(AbstractSampler):
    """Gumbel-Rao: the gradient of straight-through Gumbel-softmax, averaged over perturbations that draw the same z.

    Many perturbed scores have the same arg max. f is evaluated at the hard z of the first, and its gradient goes to

        1/draws sum_k relax(p_k, tau),        p_1 = scores + noise,        p_k ~ p(perturbed scores | z),  k > 1,

    each p_k a shift of the scores that is held fixed: `dp_k / dscores = 1`, as it is for p_1. Differentiating the shift
    too would change the mean.

    Bias: that of `GumbelSoftmax(tau, hard=True)`, with the same mean for every number of draws: where f is of degree
    two in each variable, the others held fixed, it falls to zero with tau; otherwise it tends to that of `ReinMax()`,
    to which the gradient itself tends for a small tau and many draws. Variance: `A + B / draws`, A that of z alone; B
    grows as tau falls, so that a small tau needs many draws, and is affordable with them. Never above that of
    `GumbelSoftmax(tau, hard=True)`, which is draws = 1. Cost: one evaluation of f per sample, and its derivative in z;
    the draws cost a softmax each, and memory for `draws` perturbed scores per sample.

    Args:
        draws: perturbations, and noise tensors, per sample, >= 1.
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
        if self.draws < 1:
            raise ArgumentError(f"draws must be at least 1, got {self.draws}")

    @property
    def noises(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One for each draw."""
        return self.draws

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "R ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return the arg max, and the arg max with the mean gradient of relaxed ones that share it."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all others
        held = scores.detach()
        noise = noise.unflatten(0, (-1, self.draws))
        first, others = space.perturb(held, noise[:, 0]), noise[:, 1:]
        hard = space.argmax(first).to(scores.dtype)
        same = hard[:, None].expand_as(others)
        conditional = space.conditional(held, others.flatten(0, 1), same.flatten(0, 1)).reshape(others.shape)
        perturbed = torch.cat([first[:, None], conditional], 1) + (scores - held)
        return hard, carry(hard, space.relax(perturbed, self.tau).mean(1).to(scores.dtype))
