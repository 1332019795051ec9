"""Samples of a distribution over few values from uniform numbers."""

import torch
from torch import Tensor


def invert_cdf(cdf: Tensor, uniform: Tensor) -> Tensor:
    """Return the values that uniform numbers on [0, 1) select: `[*B, K]` and `[*SB, 1] -> [*SB, 1]`.

    Args:
        cdf: ascending sums of probabilities, times any positive constant.
        uniform: one number for each sample.
    """
    total = cdf[..., -1:]
    # Below the total also after rounding: values of probability zero at the end are never drawn.
    level = torch.minimum(uniform * total, total.nextafter(torch.zeros_like(total)))
    return (cdf <= level).sum(-1, keepdim=True)
