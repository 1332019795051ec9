"""Every solver against brute force: 5,120 instances for each n <= 15, of every kind, half in float32."""

import numpy as np
import pytest
import torch
from library.solvers.problems import KINDS, SUPERMODULAR, assert_valid, balance_scores, brute_force, problem, scale

from hardmax.solvers import min_cut, min_cut_sparse, solve_pairwise
from hardmax.solvers.enumeration import find_persistent_bits
from hardmax.solvers.pairwise import build_matrix, solve_reduced

EXACT = ["auto", "enumeration", "branch-and-bound"]
SUPERMODULAR_SOLVERS = ["min-cut", "min-cut-sparse", "max-flow", "push-relabel"]
BATCH = 256


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", range(1, 16))
def test_all_solvers(n, kind, dtype):
    unary, couplings, edges = problem(kind, n, BATCH, seed=int(dtype == torch.float64), dtype=dtype)
    optimum = brute_force(unary, couplings, edges)
    solvers = EXACT + (SUPERMODULAR_SOLVERS if kind in SUPERMODULAR else [])
    for solver in solvers:
        batch = 32 if solver in ("max-flow", "enumeration") and n > 12 else BATCH
        instance = unary[:batch], couplings[:batch], edges
        solution = solve_pairwise(*instance, supermodular=False, solver=solver)
        assert_valid(solution, *instance, optimum[:batch])
    instance = unary[:32], couplings[:32], edges
    solution = solve_pairwise(*instance, supermodular=False, solver="heuristic")
    assert_valid(solution, *instance, optimum[:32], exact=False)
    if len(edges):
        double = unary[:64].double(), couplings[:64].double(), edges
        assert_valid(solve_reduced(*double, None), *double, optimum[:64])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", range(2, 16))
def test_min_cut(n, kind):
    """5,120 more for each n, without negative couplings; every second example is shifted to be hard."""
    unary, couplings, edges = problem(kind, n, 2 * BATCH, seed=2)
    couplings = couplings.abs()
    unary[::2] = balance_scores(couplings[::2], unary[::2], edges)
    optimum = brute_force(unary, couplings, edges)
    for solver, batch in [("min-cut", 2 * BATCH), ("min-cut-sparse", 2 * BATCH), ("push-relabel", 64)]:
        instance = unary[:batch], couplings[:batch], edges
        assert_valid(solve_pairwise(*instance, supermodular=True, solver=solver), *instance, optimum[:batch])


@pytest.mark.parametrize("kind", [*KINDS, "sparse-balanced"])
@pytest.mark.parametrize("n", [2, 7, 12])
def test_dual(n, kind):
    unary, couplings, edges = problem(kind, n, 16)
    optimum = brute_force(unary, couplings, edges)
    solution = solve_pairwise(unary, couplings, edges, supermodular=False, solver="dual")
    assert_valid(solution, unary, couplings, edges, optimum, exact=False)
    if kind in SUPERMODULAR:  # there is no gap in theory, and a small one after a limited number of iterations
        assert (solution.gap <= 1e-3 * scale(unary, couplings)).all()


@pytest.mark.parametrize("kind", ["balanced", "sparse-balanced", "zero"])
@pytest.mark.parametrize("n", [3, 8, 15])
def test_flow_equals_cut(n, kind):
    """The bound is computed from the flow, the value from the cut: independently, and without snapping together."""
    unary, couplings, edges = problem(kind, n, 500)
    optimum = brute_force(unary, couplings, edges).numpy()
    within = 1e-12 * scale(unary, couplings).numpy()
    z, cut, flow, rounding = np.empty((500, n)), np.empty(500), np.empty(500), np.empty(500)
    arguments = unary.numpy(), couplings.numpy(), edges.numpy()
    min_cut.solve_batch(*arguments, z, cut, flow, rounding)
    assert (abs(flow - cut) <= within).all()
    assert (abs(cut - optimum) <= within).all()
    min_cut_sparse.solve_batch(*arguments, 10**6, z, cut, flow)
    assert (abs(flow - cut) <= within).all()
    assert (abs(cut - optimum) <= within).all()


@pytest.mark.parametrize("kind", KINDS)
def test_persistency(kind):
    """Fixing the decided bits does not change the optimum."""
    unary, couplings, edges = problem(kind, 9, 500)
    optimum = brute_force(unary, couplings, edges)
    least, greatest = find_persistent_bits(unary, build_matrix(unary, couplings, edges))
    assert (least <= greatest).all()
    forced = 10 * scale(unary, couplings)[:, None] * torch.where(least == greatest, 2 * least - 1, 0)
    optimum_of_rest = brute_force(unary + forced, couplings, edges) - forced.clamp_min(0).sum(1)
    assert ((optimum_of_rest - optimum).abs() <= 1e-9 * scale(unary, couplings)).all()
    if kind in ("easy", "zero"):
        assert (least == greatest).double().mean() > 0.5
