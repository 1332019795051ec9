"""Fast heuristics for couplings of any sign and size, with the roof dual as a bound: exact where the gap is zero."""

import torch
from torch import Tensor

from hardmax.solvers.solution import ROUNDING, Solution, certify_solution
from hardmax.tracing import has_numba

MAX_ROUNDS = 1000


def evaluate_bits(z: Tensor, unary: Tensor, couplings: Tensor, edges: Tensor) -> Tensor:
    """Return h(z): z and unary `[B, n]`, couplings `[B, E]` and edges `[E, 2]` `-> [B]`."""
    return (unary * z).sum(1) + (couplings * z[:, edges[:, 0]] * z[:, edges[:, 1]]).sum(1)


def flip_improving_bits(z: Tensor, unary: Tensor, couplings: Tensor, edges: Tensor) -> Tensor:
    """Flip bits with positive gains until there are none: `[B, n] -> [B, n]`, of at least the same value.

    A bit is flipped if its gain is positive and larger than those of all its neighbours (of equal ones, the first).
    No two flipped bits are neighbours then, so their gains add up and every round raises the score.
    """
    n = unary.shape[1]
    left, right = edges[:, 0], edges[:, 1]
    first = torch.arange(n, 0, -1).expand_as(unary)
    ends = torch.cat([left, right]).expand(len(unary), -1)
    for _ in range(MAX_ROUNDS):
        field = unary.index_add(1, left, couplings * z[:, right]).index_add(1, right, couplings * z[:, left])
        gain = ((1 - 2 * z) * field).clamp_min(0)
        around = torch.cat([gain[:, right], gain[:, left]], 1)
        highest = gain.scatter_reduce(1, ends, around, "amax")
        top = (gain > 0) & (gain == highest)
        # of neighbours with equal gains, flip the first
        rank = torch.where(top, first, 0)
        around = torch.cat([rank[:, right], rank[:, left]], 1)
        chosen = top & (rank == rank.scatter_reduce(1, ends, around, "amax"))
        if not chosen.any():  # the usual end, and the end where scores are NaN
            break
        z = torch.where(chosen, 1 - z, z)
    return z


CHECK_EVERY = 25


def solve_dual(unary: Tensor, couplings: Tensor, edges: Tensor, *, iterations: int = 3000) -> Solution:
    """Return bits rounded from the dual, improved by single flips, and the dual bound.

    Each coupling is split between its ends: `w z_i z_j <= p z_i + (w - p) z_j` for w > 0 and
    `w z_i z_j <= p - p z_i - p z_j` for w < 0, 0 <= p <= |w|. With the splits in the fields c,
    `h(z) <= K + sum_i max(c_i, 0)`, and up to a constant this is `sum_i |c_i| / 2`. The splits that make
    `sum_i c_i^2 / 2` smallest make it smallest as well, and that is a smooth problem in a box, which FISTA solves. In
    its solution c_i > 0 means z_i = 1, exactly if no coupling is negative (total-variation dual); otherwise the bound
    is the roof dual and a gap may remain.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, any sign.
        edges: `[E, 2]`.
        iterations: maximal number; it ends earlier when every gap is closed.

    Returns:
        A solution with the bound of the best splits. The gap falls as 1 / iterations^2, so a small gap remains in
        large problems with nearly equal alternatives.

    References:
        A. Beck, M. Teboulle (2009), A fast iterative shrinkage-thresholding algorithm; P. Hammer, P. Hansen, B. Simeone
        (1984), Roof duality; A. Chambolle, J. Darbon (2009), On total variation minimization and parametric maximum
        flows.
    """
    left, right = edges[:, 0], edges[:, 1]
    size, negative = couplings.abs(), couplings < 0
    sign = torch.where(negative, -1.0, 1.0).double()
    # c_left gains sign p, c_right gains (w - p) or -p
    base = unary.index_add(1, right, couplings.clamp_min(0))
    degree = torch.bincount(edges.flatten(), minlength=unary.shape[1]).max().clamp_min(1)
    step = 1 / (2.0 * degree)
    scale = unary.abs().sum(1) + size.sum(1)

    def fields(split: Tensor) -> Tensor:
        return base.index_add(1, left, sign * split).index_add(1, right, -split)

    split = size / 2
    ahead, momentum = split, 1.0
    best, value, bound = torch.zeros_like(unary), torch.zeros_like(scale), torch.full_like(scale, torch.inf)
    for iteration in range(iterations):
        c = fields(ahead)
        moved = (ahead - step * (sign * c[:, left] - c[:, right])).clamp_min(0).minimum(size)
        after = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead, split, momentum = moved + (momentum - 1) / after * (moved - split), moved, after
        if iteration % CHECK_EVERY == CHECK_EVERY - 1 or iteration == iterations - 1:
            c = fields(split)
            total = c.clamp_min(0).sum(1) + torch.where(negative, split, 0.0).sum(1)
            bound = torch.minimum(bound, total)
            z = flip_improving_bits((c > 0).double(), unary, couplings, edges)
            values = evaluate_bits(z, unary, couplings, edges)
            best = torch.where((values > value)[:, None], z, best)
            value = torch.maximum(values, value)
            if not (bound > value + ROUNDING * scale).any():
                break
    return certify_solution(best, value, bound, scale, "dual")


DUAL_ITERATIONS = 100
MAX_TABU_BITS = 200  # beyond this, the dense matrices of the compiled search are too large
STEPS_PER_BIT = 20


def solve_heuristic(unary: Tensor, couplings: Tensor, edges: Tensor, start: Tensor | None = None) -> Solution:
    """Return good bits: the roof dual rounded, then improved by single flips.

    With Numba and up to 200 bits: the root of branch and bound, then a tabu search. Otherwise accelerated gradients on
    the dual, rounded, then flips with positive gains until there are none.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, any sign.
        edges: `[E, 2]`.
        start: `[B, n]`, another z to begin from, or None.

    Returns:
        A solution whose bound is that of the roof dual or close to it; usually above the value.
    """
    if unary.shape[1] <= MAX_TABU_BITS and has_numba():
        from hardmax.solvers.branch_and_bound import solve_branch_and_bound
        from hardmax.solvers.tabu import improve_by_tabu_search

        first = solve_branch_and_bound(unary, couplings, edges, node_limit=1, start=start)
        z = improve_by_tabu_search(unary, couplings, edges, first.z, STEPS_PER_BIT * unary.shape[1])
    else:
        first = solve_dual(unary, couplings, edges, iterations=DUAL_ITERATIONS)
        z = first.z
        if start is not None:
            other = flip_improving_bits(start, unary, couplings, edges)
            z = torch.where((evaluate_bits(other, unary, couplings, edges) > first.value)[:, None], other, z)
    scale = unary.abs().sum(1) + couplings.abs().sum(1)
    return certify_solution(z, evaluate_bits(z, unary, couplings, edges), first.bound, scale, "heuristic")
