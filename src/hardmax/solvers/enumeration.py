"""Every z of a few bits, halved: the left half against the right half in one batched product."""

from functools import cache

import torch
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.solvers.solution import Solution

MOST_BITS = 24
BLOCK = 2**17  # values of one block: 1 MB of float64 stays in the cache


def enumerate_pairwise(unary: Tensor, weights: Tensor) -> Solution:
    """Return the best z by looking at all 2^n, `h(z) = a z + z W z / 2`.

    With z = (x, y), left and right half, `h = f(x) + g(y) + x W_xy y`. For each x the best y is the maximum of a
    row of `[x W_xy, 1] [y, g(y)]^T`, so that a product of inner size n / 2 + 1 does all the work, and the
    arg max over y is looked for in the winning row alone. All in float64.

    Args:
        unary: `[B, n]`, float64.
        weights: `[B, n, n]`, float64: symmetric, zero on the diagonal.

    Returns:
        A solution whose bound is its value.

    Raises:
        NotExactError: n > 24.
    """
    batch, n = unary.shape
    if n > MOST_BITS:
        raise NotExactError(
            f"enumeration looks at all 2^n codes, and n = {n} is more than {MOST_BITS}; use solver='auto', "
            f"which takes branch and bound (pip install 'hardmax[solvers]')"
        )
    left = (n + 1) // 2
    right = n - left
    x, y = codes(left), codes(right)
    f = unary[:, :left] @ x.mT + ((x @ weights[:, :left, :left]) * x).sum(-1) / 2  # [B, 2^left]
    g = unary[:, left:] @ y.mT + ((y @ weights[:, left:, left:]) * y).sum(-1) / 2  # [B, 2^right]
    cross = x @ weights[:, :left, left:]  # [B, 2^left, right]
    rows = torch.cat([cross, cross.new_ones(batch, 2**left, 1)], -1)
    columns = torch.cat([y.mT.expand(batch, -1, -1), g[:, None]], 1)
    best = torch.empty(batch, 2**left, dtype=torch.float64)
    examples, height = max(1, BLOCK >> n), max(1, min(2**left, BLOCK >> right))
    block = torch.empty(examples, height, 2**right, dtype=torch.float64)
    for first in range(0, batch, examples):
        chosen = slice(first, first + examples)
        count = len(best[chosen])
        for top in range(0, 2**left, height):
            torch.bmm(rows[chosen, top : top + height], columns[chosen], out=block[:count])
            torch.amax(block[:count], 2, out=best[chosen, top : top + height])
    value, winner = (best + f).max(1)
    row = cross.gather(1, winner[:, None, None].expand(-1, 1, right)).squeeze(1)
    z = torch.cat([x[winner], y[(row @ y.mT + g).argmax(1)]], 1)
    return Solution(z, value, value, "enumeration")


@cache
def codes(n: int) -> Tensor:
    """Return all codes of n bits, counting up, the first bit fastest: `[2^n, n]`, float64."""
    return ((torch.arange(2**n)[:, None] >> torch.arange(n)) & 1).double()
