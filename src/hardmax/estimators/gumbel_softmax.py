"""Gumbel-softmax: the arg max softened by a temperature."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractSampler, carry
from hardmax.spaces import AbstractSpace
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class GumbelSoftmax(AbstractSampler):
    """Gumbel-softmax, or Concrete: `z = softmax((scores + noise) / tau)`; for bits the sigmoid.

    With `hard`, f sees the arg max and the gradient is that of the relaxed z (straight-through Gumbel-softmax).
    That arg max is the same at every tau: with `hard`, tau is the temperature of the backward pass alone, free to be
    chosen for the gradient's sake, as decoupled estimators want it.

    Bias: the relaxed z is not discrete, and f may do anything between the corners; falls with tau. With `hard`, f's
    slope at the corners stands in for differences of f: the bias falls with tau only where f is of degree two in each
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
        """Return the arg max, and the softened one (or the arg max with the softened one's gradient)."""
        perturbed = space.perturb(scores, noise)
        hard = space.argmax(perturbed.detach()).to(scores.dtype)
        soft = space.relax(perturbed, self.tau).to(scores.dtype)
        return hard, carry(hard, soft) if self.hard else soft
