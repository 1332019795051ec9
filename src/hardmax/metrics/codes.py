"""How a codebook is used: by how many codes, and how evenly."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

_EVEN = 0.1  # a code is alive that is used a tenth as often as if all were used alike


def perplexity(probabilities: Float[Tensor, "*_ K"]) -> Float[Tensor, "*_"]:
    """Return the exponential of the entropy: K where all are alike, 1 where one has all.

    Example:
        >>> perplexity(torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]]))
        tensor([4., 1.])
    """
    return torch.special.entr(probabilities).sum(-1).exp()


def alive(counts: Shaped[Tensor, " K"]) -> float:
    """Return the share of codes that are in use: each at least a tenth as often as if all were used alike.

    To count a code that was met once among a million tokens would flatter.

    Example:
        >>> alive(torch.tensor([500, 480, 20, 0]))
        0.5
    """
    return float((counts >= _EVEN * counts.double().mean()).logical_and(counts > 0).double().mean())
