"""Good bits fast, of any sign and size, with a bound that says how good: proved best only where the gap is zero."""

from importlib.util import find_spec

import torch
from torch import Tensor

from hardmax.solvers.dual import solve_dual
from hardmax.solvers.local_search import climb, worth
from hardmax.solvers.solution import Solution, certified

DUAL_ITERATIONS = 100
MOST_BITS_TO_WALK = 200  # beyond, the dense matrices of the compiled search are too large
STEPS_PER_BIT = 20


def solve_heuristic(unary: Tensor, couplings: Tensor, edges: Tensor, start: Tensor | None = None) -> Solution:
    """Return good bits: the roof dual rounded, then improved by single flips.

    With Numba and up to 200 bits: the root of branch and bound, then a tabu walk. Otherwise accelerated gradients on
    the dual, rounded, then flips that gain until there are none.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, any sign.
        edges: `[E, 2]`.
        start: `[B, n]`, another z to begin from, or None.

    Returns:
        A solution with the bound of the roof dual, or nearly; usually above the value.
    """
    if unary.shape[1] <= MOST_BITS_TO_WALK and find_spec("numba") is not None:
        from hardmax.solvers.branch_and_bound import branch_and_bound
        from hardmax.solvers.tabu import walk_batch

        first = branch_and_bound(unary, couplings, edges, node_limit=1, start=start)
        z = walk_batch(unary, couplings, edges, first.z, STEPS_PER_BIT * unary.shape[1])
    else:
        first = solve_dual(unary, couplings, edges, iterations=DUAL_ITERATIONS)
        z = first.z
        if start is not None:
            other = climb(start, unary, couplings, edges)
            z = torch.where((worth(other, unary, couplings, edges) > first.value)[:, None], other, z)
    scale = unary.abs().sum(1) + couplings.abs().sum(1)
    return certified(z, worth(z, unary, couplings, edges), first.bound, scale, "heuristic")
