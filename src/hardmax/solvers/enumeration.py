"""Enumeration of pairwise bits, for any sign: all codes in two halves, or the bits that persistency leaves open."""

from functools import cache

import torch
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.solvers.solution import Solution

MAX_BITS = 24
BLOCK_SIZE = 2**17  # values of one block: 1 MB of float64 stays in the cache


def enumerate_pairwise(unary: Tensor, weights: Tensor) -> Solution:
    """Return the best z of all 2^n, `h(z) = a z + z W z / 2`.

    With z = (x, y), left and right half, `h = f(x) + g(y) + x W_xy y`. For each x the best y is the maximum of a
    row of `[x W_xy, 1] [y, g(y)]^T`, so that a product of inner size n / 2 + 1 does all the work, and the
    arg max over y is computed only in the winning row. All in float64.

    Args:
        unary: `[B, n]`, float64.
        weights: `[B, n, n]`, float64: symmetric, zero on the diagonal.

    Returns:
        A solution whose bound is its value.

    Raises:
        NotExactError: n > 24.
    """
    batch, n = unary.shape
    if n > MAX_BITS:
        raise NotExactError(
            f"enumeration looks at all 2^n codes, and n = {n} is more than {MAX_BITS}; use solver='auto', "
            f"which uses branch and bound (pip install 'hardmax[solvers]')"
        )
    left = (n + 1) // 2
    right = n - left
    x, y = enumerate_codes(left), enumerate_codes(right)
    f = unary[:, :left] @ x.mT + ((x @ weights[:, :left, :left]) * x).sum(-1) / 2  # [B, 2^left]
    g = unary[:, left:] @ y.mT + ((y @ weights[:, left:, left:]) * y).sum(-1) / 2  # [B, 2^right]
    cross = x @ weights[:, :left, left:]  # [B, 2^left, right]
    rows = torch.cat([cross, cross.new_ones(batch, 2**left, 1)], -1)
    columns = torch.cat([y.mT.expand(batch, -1, -1), g[:, None]], 1)
    best = torch.empty(batch, 2**left, dtype=torch.float64)
    examples, height = max(1, BLOCK_SIZE >> n), max(1, min(2**left, BLOCK_SIZE >> right))
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
def enumerate_codes(n: int) -> Tensor:
    """Return all codes of n bits, counting up, the first bit fastest: `[2^n, n]`, float64."""
    return ((torch.arange(2**n)[:, None] >> torch.arange(n)) & 1).double()


def find_persistent_bits(unary: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest value of each bit in some best z; where they agree, the bit is decided.

    The field of a bit, `a_i + sum_j w_ij z_j`, is the gain of setting it to one. If it is positive for all values of
    the undecided neighbours, the bit is one; if it is never positive, zero. Each decision narrows the fields of the
    other bits, so the step is repeated until nothing changes, at most n times. Couplings may have any sign.

    Args:
        unary: `[B, n]`.
        weights: `[B, n, n]`, symmetric, zero on the diagonal.

    Returns:
        `[B, n]` twice, zeros and ones.

    Example:
        >>> import torch
        >>> unary, weights = torch.tensor([[1.0, -0.5, -3.0]]), torch.zeros(1, 3, 3)
        >>> weights[0, 0, 1] = weights[0, 1, 0] = 0.75
        >>> least, greatest = find_persistent_bits(unary, weights)
        >>> least.tolist() == greatest.tolist() == [[1.0, 1.0, 0.0]]
        True

    References:
        E. Boros, P. Hammer (2002), Pseudo-Boolean optimization, section 3.
    """
    n = unary.shape[1]
    positive, negative = weights.clamp_min(0), weights.clamp_max(0)
    # The greatest field has helpful neighbours at their greatest and harmful ones at their least values; the least
    # field has the reverse.
    to_both = torch.cat([torch.cat([positive, negative], 2), torch.cat([negative, positive], 2)], 1)
    fields = torch.cat([unary, unary], 1)
    both = torch.cat([torch.ones_like(unary), torch.zeros_like(unary)], 1)
    for _ in range(2 * n):
        narrower = (fields + (to_both @ both[..., None]).squeeze(-1) > 0).to(unary.dtype)
        if torch.equal(narrower, both):
            break
        both = narrower
    return both[:, n:], both[:, :n]


GROUP_SIZES = (6, 9, 11, 13, 15, 17, 19, 20)  # examples with similar numbers of undecided bits are enumerated together


def enumerate_reduced(unary: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best z `[B, n]`, and whether it is proved `[B]`: where at most 20 bits are undecided.

    Args:
        unary: `[B, n]`, float64.
        weights: `[B, n, n]`, float64, symmetric, zero on the diagonal, any sign.
    """
    least, greatest = find_persistent_bits(unary, weights)
    z, free = least.clone(), least != greatest
    left = free.sum(1)
    field = unary + (weights @ least[..., None]).squeeze(-1)
    free_first = free.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    fewer = 0
    for size in GROUP_SIZES:
        chosen = ((left > fewer) & (left <= size)).nonzero().squeeze(1)
        fewer, size = size, min(size, unary.shape[1])
        if len(chosen) == 0:
            continue
        bits = free_first[chosen, :size]
        real = free[chosen].gather(1, bits)
        scores = torch.where(real, field[chosen].gather(1, bits), -1.0)  # padding bits stay zero
        among = weights[chosen[:, None, None], bits[:, :, None], bits[:, None, :]]
        among = torch.where(real[:, :, None] & real[:, None, :], among, 0.0)
        best = enumerate_pairwise(scores, among).z
        z[chosen[:, None], bits] = torch.where(real, best, z[chosen[:, None], bits])
    return z, left <= GROUP_SIZES[-1]
