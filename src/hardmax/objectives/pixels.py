"""log p of single pixels, for objectives that count some of them only."""

import math

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus


def pixel_log_prob(
    parameters: Float[Tensor, "..."], x: Float[Tensor, "..."], log_variance: Tensor | None
) -> Float[Tensor, "..."]:
    """Return log p of every pixel: Bernoulli with these logits, or Gaussian around these means.

    Args:
        parameters: `[..., *shape]`, what a decoder gives.
        x: `[..., *shape]`, in [0, 1] for Bernoulli pixels.
        log_variance: `[]`, of Gaussian pixels; None: they are Bernoulli.

    Example:
        >>> import torch
        >>> pixel_log_prob(torch.zeros(3), torch.tensor([0.0, 1.0, 0.5]), None)
        tensor([-0.6931, -0.6931, -0.6931])
    """
    if log_variance is None:
        return parameters * x - softplus(parameters)
    return -((x - parameters).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi)) / 2
