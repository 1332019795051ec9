"""Larger problems against solvers of other libraries: scipy's and OR-tools' max-flow, OR-tools' CP-SAT."""

import math

import numpy as np
import pytest
import torch
from library.solvers.problems import assert_valid, balance_scores, complete, grid, problem, scale
from ortools.sat.python import cp_model
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from hardmax.solvers import solve_pairwise

FLOW_SOLVERS = ["auto", "min-cut-sparse", "max-flow"]


def integer_problem(n, edges, batch, seed):
    """Couplings are even and >= 0, so that capacities of half a coupling are integers, as scipy needs."""
    generator = torch.Generator().manual_seed(seed)
    couplings = 2.0 * torch.randint(0, 50, (batch, len(edges)), generator=generator)
    unary = torch.randint(-300, 301, (batch, n), generator=generator) * math.sqrt(len(edges) / n) / 2
    return balance_scores(couplings, unary.round(), edges).double(), couplings.double(), edges


def scipy_optimum(unary, couplings, edges):
    n = unary.shape[1]
    left, right = edges.numpy().T
    best = []
    for a, w in zip(unary.numpy(), couplings.numpy(), strict=True):
        half = w / 2
        field = a + np.bincount(left, half, n) + np.bincount(right, half, n)
        source, sink = np.flatnonzero(field > 0), np.flatnonzero(field < 0)
        rows = np.concatenate([left, right, np.full(len(source), n), sink])
        columns = np.concatenate([right, left, source, np.full(len(sink), n + 1)])
        capacity = np.concatenate([half, half, field[source], -field[sink]]).astype(np.int32)
        flow = maximum_flow(csr_array((capacity, (rows, columns)), shape=(n + 2, n + 2)), n, n + 1).flow_value
        best.append(field[source].sum() - flow)
    return torch.tensor(best, dtype=torch.float64)


@pytest.mark.parametrize("solver", [*FLOW_SOLVERS, "push-relabel", "branch-and-bound"])
@pytest.mark.parametrize("n", [20, 30, 40, 50, 100])
def test_dense_supermodular(n, solver):
    instance = integer_problem(n, complete(n), 10, n)
    if solver == "branch-and-bound" and n > 40:
        pytest.skip("exponential")
    solution = solve_pairwise(*instance, supermodular=True, solver=solver)
    assert_valid(solution, *instance, scipy_optimum(*instance))
    assert 0.1 < solution.z.mean() < 0.9  # not trivial


@pytest.mark.parametrize("solver", FLOW_SOLVERS)
@pytest.mark.parametrize(("side", "batch"), [(9, 20), (30, 10), (100, 3)])
def test_grids(side, batch, solver):
    instance = integer_problem(side**2, grid(side, side), batch, side)
    solution = solve_pairwise(*instance, supermodular=True, solver=solver)
    assert_valid(solution, *instance, scipy_optimum(*instance))
    assert 0.1 < solution.z.mean() < 0.9


@pytest.mark.parametrize("n", [20, 50, 100, 130])
def test_floats_against_ortools(n):
    unary, couplings, edges = problem("balanced", n, 20, dtype=torch.float32)
    optimum = solve_pairwise(unary, couplings, edges, supermodular=True, solver="max-flow")
    assert_valid(solve_pairwise(unary, couplings, edges, supermodular=True), unary, couplings, edges, optimum.value)


def cp_sat_optimum(unary, couplings, edges):
    """Return the optimum for integer scores, one example after the other."""
    best = []
    for a, w in zip(unary.long().tolist(), couplings.long().tolist(), strict=True):
        model = cp_model.CpModel()
        z = [model.new_bool_var("") for _ in a]
        terms = [score * bit for score, bit in zip(a, z, strict=True)]
        for score, (i, j) in zip(w, edges.tolist(), strict=True):
            both = model.new_bool_var("")
            model.add_bool_or(~both, z[i])
            model.add_bool_or(~both, z[j])
            model.add_bool_or(both, ~z[i], ~z[j])
            terms.append(score * both)
        model.maximize(sum(terms))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(model) == cp_model.OPTIMAL
        best.append(solver.objective_value)
    return torch.tensor(best, dtype=torch.float64)


@pytest.mark.parametrize(("n", "neighbours"), [(20, 2), (30, 1.5), (40, 1.5), (50, 1.2), (100, 0.9)])
def test_any_sign_against_cp_sat(n, neighbours):
    generator = torch.Generator().manual_seed(n)
    edges = complete(n)
    edges = edges[torch.randperm(len(edges), generator=generator)[: int(neighbours * n)]]
    unary = torch.randint(-20, 21, (3, n), generator=generator).double()
    couplings = torch.randint(-40, 41, (3, len(edges)), generator=generator).double()
    optimum = cp_sat_optimum(unary, couplings, edges)
    for solver in ("auto", "branch-and-bound"):
        solution = solve_pairwise(unary, couplings, edges, supermodular=False, solver=solver)
        assert_valid(solution, unary, couplings, edges, optimum)
    solution = solve_pairwise(unary, couplings, edges, supermodular=False, solver="heuristic")
    assert_valid(solution, unary, couplings, edges, optimum, exact=False)
    assert (solution.gap <= 0.1 * scale(unary, couplings)).all()


@pytest.mark.parametrize("kind", ["easy", "strong", "negative", "mixed"])
def test_any_sign_against_enumeration(kind):
    instance = problem(kind, 20, 8, dtype=torch.float32)
    optimum = solve_pairwise(*instance, supermodular=False, solver="enumeration")
    assert_valid(solve_pairwise(*instance, supermodular=False), *instance, optimum.value)


@pytest.mark.parametrize("n", [30, 40])
def test_any_sign_against_min_cut(n):
    """Flipping the meaning of some bits gives couplings of both signs, but the same optimum, up to a constant."""
    unary, couplings, edges = problem("balanced", n, 20)
    optimum = solve_pairwise(unary, couplings, edges, supermodular=True).value
    flipped = torch.rand(n, generator=torch.Generator().manual_seed(0)) < 0.5
    sign = torch.where(flipped, -1.0, 1.0).double()
    left, right = edges.T
    # z_i = 1 - y_i for the flipped: w z_i z_j = w (f_i + s_i y_i) (f_j + s_j y_j)
    f = flipped.double()
    moved = sign * unary
    moved = moved.index_add(1, left, couplings * (sign[left] * f[right]))
    moved = moved.index_add(1, right, couplings * (sign[right] * f[left]))
    constant = (unary * f).sum(1) + (couplings * (f[left] * f[right])).sum(1)
    other_couplings = couplings * (sign[left] * sign[right])
    assert (other_couplings < 0).any()
    solution = solve_pairwise(moved, other_couplings, edges, supermodular=False)
    assert solution.solver == "branch-and-bound"
    assert_valid(solution, moved, other_couplings, edges, optimum - constant)
