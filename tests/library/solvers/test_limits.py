"""Solutions that cannot be proved best are reported with their gap, and quickly."""

from time import perf_counter

import pytest
import torch
from library.solvers.problems import assert_valid, brute_force, complete, grid, problem

from hardmax.errors import NotExactError
from hardmax.solvers import pairwise, pairwise_argmax, solve_pairwise


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("kind", ["strong", "negative", "integers"])
def test_node_limit_leaves_a_valid_bound(kind, limit):
    instance = problem(kind, 14, 400)
    optimum = brute_force(*instance)
    solution = solve_pairwise(*instance, supermodular=False, solver="branch-and-bound", node_limit=limit)
    assert_valid(solution, *instance, optimum, exact=False)
    assert limit > 1 or not solution.is_exact


def test_a_larger_limit_closes_the_gap():
    instance = problem("strong", 14, 400)
    gaps = [
        float(solve_pairwise(*instance, supermodular=False, solver="branch-and-bound", node_limit=limit).gap.sum())
        for limit in (1, 4, 16, 10_000)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] == 0


def make_hard_problem(n, batch=50):
    generator = torch.Generator().manual_seed(0)
    return torch.zeros(batch, n), torch.randn(batch, n * (n - 1) // 2, generator=generator), complete(n)


def test_argmax_refuses_what_it_cannot_prove(monkeypatch):
    monkeypatch.setattr(pairwise, "NODE_LIMIT", 200)
    start = perf_counter()
    with pytest.raises(NotExactError, match=r"n = 90.*gap of \d.*solver='heuristic'.*node_limit"):
        pairwise_argmax(*make_hard_problem(90), False)
    assert perf_counter() - start < 5  # it ends with the first example, not after all 50
    z = pairwise_argmax(*make_hard_problem(90), False, "heuristic")
    assert z.shape == (50, 90)


def test_solve_returns_the_gap():
    solution = solve_pairwise(*make_hard_problem(90, 2), supermodular=False, node_limit=200)
    assert not solution.is_exact
    assert (solution.gap > 0).all()
    good = solve_pairwise(*make_hard_problem(90, 2), supermodular=False, solver="heuristic")
    assert (good.value <= solution.bound).all()
    assert (solution.value <= good.bound).all()
    assert good.solver == "heuristic"


def test_large_graph_of_any_sign():
    """Grids of both signs go to the heuristic; where scores of single bits dominate, it still proves its z."""
    generator = torch.Generator().manual_seed(0)
    edges = grid(40, 40)
    unary, couplings = torch.randn(2, 1600, generator=generator), torch.randn(2, len(edges), generator=generator)
    solution = solve_pairwise(unary, couplings, edges, supermodular=False)
    assert solution.solver == "heuristic"
    assert (solution.gap > 0).all()
    assert (solution.gap < 0.1 * solution.value).all()
    with pytest.raises(NotExactError, match="n = 1600"):
        pairwise_argmax(unary, couplings, edges, False)
    easy = pairwise_argmax(unary, 0.01 * couplings, edges, False)
    assert easy.eq(unary > 0).double().mean() > 0.9


def test_enumeration_has_a_limit():
    with pytest.raises(NotExactError, match="n = 25"):
        solve_pairwise(*make_hard_problem(25, 1), supermodular=False, solver="enumeration")


@pytest.mark.parametrize("solver", ["auto", "branch-and-bound", "enumeration", "heuristic", "dual"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", [0, 1])
def test_scores_that_are_not_finite_do_not_hang(solver, bad, where):
    instance = [tensor.clone() for tensor in problem("strong", 12, 3)]
    instance[where][1, 2] = bad
    solution = solve_pairwise(*instance, supermodular=False, solver=solver)
    assert solution.z.shape == (3, 12)


@pytest.mark.parametrize("solver", ["auto", "min-cut-sparse", "max-flow", "push-relabel"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", [0, 1])
def test_flows_that_are_not_finite_do_not_hang(solver, bad, where):
    instance = [tensor.clone() for tensor in problem("balanced", 12, 3)]
    instance[where][1, 2] = bad
    solution = solve_pairwise(*instance, supermodular=True, solver=solver)
    assert solution.z.shape == (3, 12)
