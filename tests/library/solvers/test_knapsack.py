"""Solvers of knapsacks: brute force on thousands of instances, certificates, limits, planted errors."""

import math
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from hardmax.errors import ArgumentError, MissingExtraError, NotExactError
from hardmax.solvers import Solution, knapsack, knapsack_branch_and_bound
from hardmax.solvers.decision_diagram import build_diagram
from hardmax.solvers.knapsack import Constraints, knapsack_argmax, prepare_constraints, solve_knapsack
from hardmax.tracing import can_run_compiled

KINDS = ["integers", "zeros", "decimals", "floats", "loose"]
SOLVERS = ["dynamic-programming", "torch", "branch-and-bound", "milp"]


def draw_constraints(kind, d, n, seed=0):
    """Return weights `[d, n]` and capacities `[d]`; no item is heavier than a capacity."""
    random = np.random.default_rng([seed, d, n, KINDS.index(kind)])
    weights = random.integers(1, 10, (d, n)).astype(float)
    if kind == "zeros":
        weights[random.random((d, n)) < 0.4] = 0
    elif kind == "decimals":
        weights = random.integers(300, 800, (d, n)) / 100
    elif kind == "floats":
        weights = random.random((d, n))
    capacities = weights.sum(1) * random.uniform(0.2, 1.2 if kind == "loose" else 0.7, d)
    capacities = np.maximum(np.round(capacities, 2) if kind != "floats" else capacities, weights.max(1))
    return weights, capacities


def draw_scores(kind, batch, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if kind == "ties":
        return torch.randint(-2, 4, (batch, n), generator=generator).double()
    return torch.randn(batch, n, generator=generator, dtype=torch.float64) + 0.5


def prepare(weights, capacities):
    return prepare_constraints(tuple(map(tuple, weights.tolist())), tuple(capacities.tolist()))


def list_members(weights, capacities):
    """Return all sets that fit, `[M, n]`; sums are exact for weights of two decimals."""
    z = np.array(list(product([0, 1], repeat=weights.shape[1])), float)
    hundreds = np.rint(100 * weights)
    sums = z @ hundreds.T if np.allclose(hundreds, 100 * weights, atol=1e-9) else z @ (100 * weights).T - 1e-9
    return torch.from_numpy(z[(sums <= np.rint(1e6 * capacities) / 1e4 + 1e-3).all(1)])


def assert_valid(solution, scores, members, *, exact=True):
    """Check that z fits, value is its score, and value <= optimum <= bound; with `exact`, all three are equal."""
    values = scores.double() @ members.mT
    within = 1e-9 * scores.double().abs().sum(-1)
    assert solution.z.dtype == scores.dtype
    assert (solution.z.double()[:, None] == members).all(-1).any(-1).all(), "z does not fit"
    assert ((solution.value - (scores.double() * solution.z).sum(-1)).abs() <= within).all(), "value is not that of z"
    assert (solution.bound >= values.amax(-1) - within).all(), "bound below the optimum"
    assert (solution.bound >= solution.value).all()
    if exact:
        assert solution.is_exact, f"gap {solution.gap.max()}"
        assert (solution.value >= values.amax(-1) - within).all(), "not the best z"


def solve(scores, constraints, solver, monkeypatch):
    if solver != "torch":
        return solve_knapsack(scores, constraints, solver=solver)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numba", None)
        assert not can_run_compiled(scores)
        return solve_knapsack(scores, constraints, solver="dynamic-programming")


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_brute_force(kind, solver, monkeypatch):
    batch = 4 if solver == "milp" else 100
    for number, (d, n) in enumerate([(1, 1), (1, 5), (1, 9), (2, 2), (2, 7), (2, 10), (3, 6), (3, 9)]):
        weights, capacities = draw_constraints(kind, d, n)
        scores = draw_scores("ties" if number % 2 else "normal", batch, n, seed=number)
        solution = solve(scores, prepare(weights, capacities), solver, monkeypatch)
        assert_valid(solution, scores, list_members(weights, capacities))
        assert not solution.z[scores <= 0].any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_diagram_holds_all_sets(kind):
    for d, n in [(1, 1), (1, 8), (2, 8), (3, 9)]:
        weights, capacities = draw_constraints(kind, d, n, seed=1)
        diagram, members = prepare(weights, capacities).diagram, list_members(weights, capacities)
        assert diagram.size == len(members)
        assert torch.equal(diagram.list_members().double().flip(0), members)


def test_the_diagram_is_small():
    """PyEPO's instance: 2,001 x 2,001 states in units of the last digit."""
    weights = np.random.RandomState(135).choice(range(300, 800), size=(2, 32)) / 100
    assert prepare(weights, np.array([20.0, 20.0])).diagram.nodes < 2000
    assert build_diagram(np.arange(1, 101)[None], np.array([2000]), node_limit=10_000) is None


def test_sizes_beyond_64_bits():
    diagram = prepare_constraints((tuple([1] * 100),), (50,)).diagram
    assert diagram.size == sum(math.comb(100, k) for k in range(51))


def test_ties_choose_nothing_extra_and_solvers_agree(monkeypatch):
    constraints = prepare_constraints(((1, 1, 1, 0),), (2,))
    for solver in SOLVERS:
        z = solve(torch.tensor([[0.0, -1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]]), constraints, solver, monkeypatch).z
        assert z.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    scores = draw_scores("ties", 300, 4)
    compiled = knapsack_argmax(scores, constraints)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert torch.equal(knapsack_argmax(scores, constraints), compiled)


@pytest.mark.parametrize(("n", "d"), [(32, 2), (40, 3), (60, 1)])
def test_branch_and_bound_equals_milp_on_larger_instances(n, d):
    weights, capacities = draw_constraints("decimals", d, n)
    for scores in (draw_scores("normal", 3, n), torch.from_numpy(weights.mean(0)) + draw_scores("normal", 1, n) / 10):
        # In integers: HiGHS accepts sums that exceed a capacity by 1e-6 of it.
        constraints = Constraints(*(torch.from_numpy(np.rint(100 * x)) for x in (weights, capacities)), None)
        first, second = (solve_knapsack(scores, constraints, solver=name) for name in ("branch-and-bound", "milp"))
        assert first.is_exact
        torch.testing.assert_close(first.value, second.value)


def test_pyepo_s_instance_by_both_exact_methods():
    weights = np.random.RandomState(135).choice(range(300, 800), size=(2, 32)) / 100
    constraints = prepare(weights, np.array([20.0, 20.0]))
    scores = 5 + draw_scores("normal", 500, 32)
    searched = solve_knapsack(scores, constraints, solver="branch-and-bound")
    assert searched.is_exact
    torch.testing.assert_close(searched.value, solve_knapsack(scores, constraints).value)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scores_of_any_range(solver, monkeypatch):
    constraints = prepare_constraints(((2, 2, 3, 3),), (5,))
    scores = torch.tensor([[1e30, 1.0, 1.0, 2.0], [-1e30, 1.0, 1e-20, 2e-20], [1e30, 1e30, 1.0, 2.0], [1e-30] * 4])
    scores = scores.double()
    solution = solve(scores, constraints, solver, monkeypatch)
    assert solution.z[:3].tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 0, 1]] or solution.z[2, 1] == 1
    assert solution.z[3].sum() == 2
    assert solution.is_exact


# ------------------------------------------------------------------------------- limits
@pytest.mark.parametrize("limit", [0, 1, 3, 20, 100])
def test_node_limit_leaves_a_valid_bound(limit):
    unproved = 0
    for d in (1, 2, 3):
        weights, capacities = draw_constraints("decimals", d, 12, seed=2)
        scores = torch.from_numpy(weights.mean(0)) + draw_scores("normal", 200, 12) / 10
        solution = solve_knapsack(scores, prepare(weights, capacities), solver="branch-and-bound", node_limit=limit)
        assert_valid(solution, scores, list_members(weights, capacities), exact=False)
        unproved += int((solution.gap > 0).sum())
    assert limit > 3 or unproved


def make_hard_problem(n=60):
    random = np.random.default_rng(0)
    weights = random.integers(1000, 9000, (3, n)).astype(float)
    constraints = Constraints(torch.from_numpy(weights), torch.from_numpy(weights.sum(1) // 2), None)
    return torch.from_numpy(weights.mean(0) + random.normal(size=(8, n))), constraints


def test_argmax_refuses_what_it_cannot_prove(monkeypatch):
    scores, constraints = make_hard_problem()
    monkeypatch.setattr(knapsack, "NODE_LIMIT", 100)
    with pytest.raises(NotExactError, match=r"60 items was not proved.*gap of \d.*node_limit"):
        knapsack_argmax(scores, constraints)
    solution = solve_knapsack(scores, constraints, node_limit=100)
    assert (solution.gap > 0).all()
    more = solve_knapsack(scores, constraints, node_limit=10_000)
    assert (more.value <= solution.bound).all()
    assert (solution.value <= more.bound).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0)])
def test_batch_shapes(solver, shape, monkeypatch):
    scores = torch.randn(*shape, 5, generator=torch.Generator().manual_seed(0))
    solution = solve(scores, prepare_constraints(((1, 2, 3, 4, 5),), (7,)), solver, monkeypatch)
    assert solution.z.shape == scores.shape
    assert solution.value.shape == solution.bound.shape == shape


# ------------------------------------------------------------------------------- errors
def test_errors(monkeypatch):
    constraints = prepare_constraints(((1, 2),), (2,))
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match="finite"):
            solve_knapsack(torch.tensor([1.0, bad]), constraints)
    with pytest.raises(ArgumentError, match="no solver 'simplex'; there are: dynamic-programming, "):
        solve_knapsack(torch.zeros(2), constraints, solver="simplex")
    with pytest.raises(NotExactError, match="too many"):
        solve_knapsack(torch.zeros(2), replace(constraints, diagram=None), solver="dynamic-programming")
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in ("_compilation", "_compiled_knapsack", "knapsack_branch_and_bound"):
        monkeypatch.delitem(sys.modules, f"hardmax.solvers.{name}", raising=False)
        monkeypatch.delattr(sys.modules["hardmax.solvers"], name, raising=False)
    assert replace(constraints, diagram=None).chosen_solver == "milp"
    with pytest.raises(MissingExtraError, match=r"pip install 'hardmax\[solvers\]'"):
        solve_knapsack(torch.zeros(2), constraints, solver="branch-and-bound")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite_do_not_hang(bad):
    scores, constraints = make_hard_problem(12)
    scores[1, 2] = bad
    assert knapsack_argmax(scores, constraints).shape == scores.shape


# ------------------------------------------------------------------------------- planted errors
WEIGHTS, CAPACITIES = draw_constraints("decimals", 2, 9)
SCORES, MEMBERS = draw_scores("normal", 100, 9), list_members(WEIGHTS, CAPACITIES)


def test_the_check_notices_wrong_solutions():
    solution = solve_knapsack(SCORES, prepare(WEIGHTS, CAPACITIES))
    assert_valid(solution, SCORES, MEMBERS)
    with pytest.raises(AssertionError, match="bound below"):
        assert_valid(replace(solution, bound=solution.bound - 1e-3), SCORES, MEMBERS, exact=False)
    with pytest.raises(AssertionError, match="not that of z"):
        assert_valid(replace(solution, value=solution.value - 1e-3), SCORES, MEMBERS)
    z = torch.zeros_like(solution.z)
    value = torch.zeros_like(solution.value)
    with pytest.raises(AssertionError, match="gap"):
        assert_valid(Solution(z, value, solution.bound.maximum(value), "admits a gap"), SCORES, MEMBERS)
    with pytest.raises(AssertionError, match="does not fit"):
        assert_valid(replace(solution, z=z + 1), SCORES, MEMBERS)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_kernel_with_another_capacity(factor, monkeypatch):
    true = knapsack_branch_and_bound.solve_batch
    monkeypatch.setattr(
        knapsack_branch_and_bound, "solve_batch", lambda s, w, capacities, *rest: true(s, w, factor * capacities, *rest)
    )
    with pytest.raises(AssertionError):
        assert_valid(solve_knapsack(SCORES, prepare(WEIGHTS, CAPACITIES), solver="branch-and-bound"), SCORES, MEMBERS)
