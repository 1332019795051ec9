"""The check used in these tests notices broken solvers."""

from dataclasses import replace

import pytest
import torch
from library.solvers.problems import assert_valid, brute_force, evaluate, problem

from hardmax.solvers import Solution, branch_and_bound, min_cut, solve_pairwise

PROBLEM = problem("strong", 8, 300)
OPTIMUM = brute_force(*PROBLEM)
SOLUTION = solve_pairwise(*PROBLEM, supermodular=False)


def check(solution, **options):
    assert_valid(solution, *PROBLEM, OPTIMUM, **options)


def test_the_true_solution_passes():
    check(SOLUTION)


@pytest.mark.parametrize("exact", [True, False])
def test_wrong_bound(exact):
    with pytest.raises(AssertionError, match="bound below the optimum"):
        check(replace(SOLUTION, bound=SOLUTION.bound - 1e-3), exact=exact)


def test_wrong_value():
    with pytest.raises(AssertionError, match="value is not that of z"):
        check(replace(SOLUTION, value=SOLUTION.value - 1e-3, bound=SOLUTION.bound), exact=False)


def test_one_wrong_bit_in_one_example():
    z = SOLUTION.z.clone()
    z[7, 3] = 1 - z[7, 3]
    value = evaluate(z, *PROBLEM)
    with pytest.raises(AssertionError, match="bound below the optimum"):
        check(Solution(z, value, value, "claims to be best"))
    with pytest.raises(AssertionError, match="gap"):
        check(Solution(z, value, SOLUTION.bound.maximum(value), "admits a gap"))


def test_gap():
    with pytest.raises(AssertionError, match="gap"):
        check(replace(SOLUTION, bound=SOLUTION.bound + 1e-3))


def test_a_kernel_that_solves_another_problem(monkeypatch):
    true = branch_and_bound.solve_batch

    def broken(unary, couplings, *rest):
        true(unary, abs(couplings), *rest)

    monkeypatch.setattr(branch_and_bound, "solve_batch", broken)
    with pytest.raises(AssertionError):
        check(solve_pairwise(*PROBLEM, supermodular=False))


def test_a_min_cut_without_half_of_the_flow(monkeypatch):
    true = min_cut.solve_batch

    def broken(unary, couplings, *rest):
        true(unary, couplings / 2, *rest)

    unary, couplings, edges = problem("balanced", 8, 300)
    monkeypatch.setattr(min_cut, "solve_batch", broken)
    with pytest.raises(AssertionError):
        assert_valid(
            solve_pairwise(unary, couplings, edges, supermodular=True),
            unary, couplings, edges, brute_force(unary, couplings, edges),
        )  # fmt: skip


def test_brute_force_itself():
    unary, edges = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]]), torch.tensor([[0, 1], [2, 1]])
    couplings = torch.tensor([[-3.0, -3.0], [1.5, 2.0]])
    assert brute_force(unary, couplings, edges).tolist() == [2.0, 0.5]
