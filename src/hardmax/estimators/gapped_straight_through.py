"""Gapped straight-through: scores moved until z leads, without noise."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractSampler, carry
from hardmax.spaces import AbstractSpace, Binary
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class GappedStraightThrough(AbstractSampler):
    """Gapped straight-through: as straight-through Gumbel-softmax, the noise replaced by the least move that draws z.

    The score of the value drawn is raised to the largest, and those of the others are lowered, where need be, until
    they lie a gap below:

        p_c = max_c' scores_c'  for the c drawn,        p_c = min(scores_c, max_c' scores_c' - gap)  for the others.

    f sees the hard sample, and its gradient goes to `relax(p, tau)`, the move held fixed: `dp / dscores = 1`. For a
    bit, which is the variable of two values with scores [0, s], `p = sign max(sign s, gap)`, sign = 2 z - 1.

    Bias: for linear f too, and nothing makes it fall. Where the arg max of the scores is drawn and leads by the gap,
    the gradient is that of `StraightThrough(tau)`; where another value is drawn, it is smaller the larger `gap / tau`
    is. Variance: low, that of z alone. Cost: one evaluation of f per sample, and its derivative in z.

    Args:
        gap: how far the value drawn leads, > 0.
        tau: temperature of the backward pass, > 0; z is a sample of q whatever it is.

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
        """Return a sample, and the sample with the gradient of softened scores that it leads."""
        held = scores.detach()
        hard = space.draw(held, noise)
        moved = self._moved(held, space, hard) + (scores - held)
        return hard, carry(hard, space.relax(moved, self.tau))

    def _moved(self, scores: Tensor, space: AbstractSpace, z: Tensor) -> Tensor:
        """Return scores that z leads by the gap, `[S, *B, *score]`."""
        if isinstance(space, Binary):
            sign = 2 * z - 1
            return sign * (sign * scores).clamp_min(self.gap)
        top = scores.amax(-1, keepdim=True)
        return torch.where(z > 0, top, torch.minimum(scores, top - self.gap))
