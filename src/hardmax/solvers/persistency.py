"""Bits that some best z has for certain, found by looking at their neighbours' best and worst."""

import torch
from torch import Tensor


def persistent(unary: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest each bit can be in some best z; where they agree, the bit is decided.

    The field of a bit, `a_i + sum_j w_ij z_j`, is what it gains by being one. If it is positive whatever the undecided
    neighbours are, the bit is one; if it is never positive, zero. Each decision narrows the fields of the
    others, so it is repeated until nothing changes, at most n times. Couplings may have any sign.

    Args:
        unary: `[B, n]`.
        weights: `[B, n, n]`, symmetric, zero on the diagonal.

    Returns:
        `[B, n]` twice, zeros and ones.

    Example:
        >>> import torch
        >>> unary, weights = torch.tensor([[1.0, -0.5, -3.0]]), torch.zeros(1, 3, 3)
        >>> weights[0, 0, 1] = weights[0, 1, 0] = 0.75
        >>> least, greatest = persistent(unary, weights)
        >>> least.tolist() == greatest.tolist() == [[1.0, 1.0, 0.0]]
        True

    References:
        E. Boros, P. Hammer (2002), Pseudo-Boolean optimization, section 3.
    """
    n = unary.shape[1]
    positive, negative = weights.clamp_min(0), weights.clamp_max(0)
    # The greatest field has helpful neighbours at their greatest and harmful ones at their least; the least field v. v.
    to_both = torch.cat([torch.cat([positive, negative], 2), torch.cat([negative, positive], 2)], 1)
    fields = torch.cat([unary, unary], 1)
    both = torch.cat([torch.ones_like(unary), torch.zeros_like(unary)], 1)
    for _ in range(2 * n):
        narrower = (fields + (to_both @ both[..., None]).squeeze(-1) > 0).to(unary.dtype)
        if torch.equal(narrower, both):
            break
        both = narrower
    return both[:, n:], both[:, :n]
