"""Pairwise scores with magnitudes too different for float64: minimum cut or search in integers, after a reduction.

The certificates of the float64 solvers allow a rounding of `ROUNDING` times the sum of all |scores|. A score below that
would not count at all, for example next to a mask of -1e12. Most masks need no exact arithmetic: `cap_scores` replaces
them by smaller ones that forbid the same.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers.exact_arithmetic import ExactScores, reduce_scores, search_exactly
from hardmax.solvers.exact_min_cut import cut_exactly
from hardmax.solvers.solution import ROUNDING, Solution

NODE_LIMIT = 2000  # of the search in integers: some seconds at n = 50

# solve(unary [1, m], couplings [1, E], edges [E, 2], start [1, m] or None), in float64
Solve = Callable[[Tensor, Tensor, Tensor, Tensor | None], Solution]


def may_have_wide_ranges(unary: Tensor, couplings: Tensor) -> bool:
    """Return False if no example of a batch has a wide range: a quick test, by the smallest score of the batch."""
    a, w = np.abs(unary.numpy()), couplings.numpy()
    if not w.min() >= 0:
        w = np.abs(w)
    with np.errstate(over="ignore"):
        scale = a.sum(1) + w.sum(1)
    return not min(a.min(), w.min()) >= ROUNDING * scale.max()


def find_wide_ranges(unary: Tensor, couplings: Tensor) -> Tensor:
    """Return which examples have a score that float64 solvers may lose: `[B, n]` and `[B, E] -> [B]`."""
    magnitudes = np.abs(torch.cat([unary, couplings], 1).numpy())
    is_finite = np.isfinite(magnitudes).all(1)  # infinite scores have no exact sums
    with np.errstate(over="ignore"):
        scale = magnitudes.sum(1)
    magnitudes[magnitudes == 0] = np.inf  # a score of zero cannot be lost
    return torch.from_numpy((magnitudes.min(1) < ROUNDING * scale) & is_finite)


def cap_scores(unary: Tensor, couplings: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores of smaller magnitude with the same best bits: `[B, n]` and `[B, E]`, both float64.

    A pair of bits is never both one if its coupling w < 0 is below minus the greatest field that one of the bits can
    have without it, and a bit never changes if |a| is above the sum of its |w|. Twice these limits are enough, which
    leaves room for rounding in the sums.
    """
    left, right = edges[:, 0], edges[:, 1]
    least = torch.finfo(torch.float64).tiny

    def sum_couplings(weights: Tensor) -> Tensor:
        return torch.zeros_like(unary).index_add(1, left, weights).index_add(1, right, weights)

    greatest = unary.clamp_min(0) + sum_couplings(couplings.clamp_min(0))
    limit = 2 * torch.minimum(greatest[:, left], greatest[:, right])
    # A limit of zero: the couplings of a bit that is never worth setting. Any negative number forbids it.
    smallest = unary.abs().where(unary != 0, torch.inf).amin(1, keepdim=True).clamp(least, 1.0)
    couplings = torch.maximum(couplings, torch.minimum(-limit, torch.where(couplings < 0, -smallest, torch.inf)))
    limit = 2 * sum_couplings(couplings.abs())
    limit = torch.maximum(limit, unary.abs().clamp_max(smallest))  # a bit without couplings: the sign is enough
    return unary.clamp(-limit, limit), couplings


def solve_wide_range(
    unary: Tensor, couplings: Tensor, edges: Tensor, start: Tensor | None, solve: Solve, *, exact: bool
) -> Solution:
    """Solve one example.

    Args:
        unary: `[1, n]`, float64, finite.
        couplings: `[1, E]`, float64, finite.
        edges: `[E, 2]`, each pair once.
        start: `[1, n]`, a z to begin from, or None.
        solve: a float64 solver.
        exact: whether to solve in integers: by a minimum cut if no coupling is negative; else by branch and bound,
            where the certificate of the float64 solver does not count.

    Returns:
        A solution. Its bound is infinite if z is not proved best.
    """
    scores = ExactScores.from_floats(unary[0].tolist(), couplings[0].tolist(), edges.tolist())
    if exact and bool((couplings >= 0).all()):
        bits, proved, solver = cut_exactly(scores), True, "exact min-cut"
    else:
        bits, proved, solver = _reduce_and_solve(scores.copy(), start, solve, exact=exact)
    for i, bit in enumerate(bits):
        scores.fix(i, bit)
    value = torch.tensor([_divide(scores.value, scores.denominator)], dtype=torch.float64)
    bound = value if proved else torch.full_like(value, torch.inf)
    return Solution(torch.tensor([bits], dtype=torch.float64), value, bound, solver)


def _reduce_and_solve(
    scores: ExactScores, start: Tensor | None, solve: Solve, *, exact: bool
) -> tuple[list[int], bool, str]:
    """Fix the bits that do not depend on others, solve for the rest; return the bits, whether proved, and how."""
    reduce_scores(scores)
    bits, proved, solver = [bit or 0 for bit in scores.bits], True, "exact arithmetic"
    if free := scores.free_bits:
        a, w, pairs, is_exact = _convert_to_floats(scores, free)
        solution = solve(a, w, pairs, None if start is None else start[:, free])
        solver = f"{solution.solver}, exact arithmetic"
        for i, bit in zip(free, solution.z[0].tolist(), strict=True):
            bits[i] = int(bit)
        proved = solution.is_exact and is_exact and not find_wide_ranges(a, w).any()
        if exact and not proved:
            bits, proved = search_exactly(scores, bits, NODE_LIMIT)
    return bits, proved, solver


def _convert_to_floats(scores: ExactScores, free: list[int]) -> tuple[Tensor, Tensor, Tensor, bool]:
    """Return the unary scores, the couplings and the edges of the free bits, and whether float64 represents them."""
    place = {i: at for at, i in enumerate(free)}
    edges = [(i, j) for i in free for j in scores.couplings[i] if i < j]
    integers = [scores.unary[i] for i in free] + [scores.couplings[i][j] for i, j in edges]
    floats = [_divide(integer, scores.denominator) for integer in integers]
    is_exact = all(
        math.isfinite(value) and Fraction(value) * scores.denominator == integer
        for value, integer in zip(floats, integers, strict=True)
    )
    flat = torch.tensor([floats], dtype=torch.float64)
    pairs = torch.tensor([(place[i], place[j]) for i, j in edges], dtype=torch.int64).view(-1, 2)
    return flat[:, : len(free)], flat[:, len(free) :], pairs, is_exact


def _divide(numerator: int, denominator: int) -> float:
    """Return a quotient as the nearest float."""
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")
