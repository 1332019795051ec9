"""Permutation: assignment, permanents, and Sinkhorn's matrix."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import chisquare

import hardmax as hm
from hardmax.solvers.assignment import _run_scipy, solve_assignment
from hardmax.solvers.sinkhorn import solve_column_potentials
from hardmax.spaces._permanent import MAX_ITEMS
from hardmax.testing import assert_space


def random_scores(*shape, seed=0, size=1.0):
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_everything_offered_agrees_with_enumeration(n):
    assert_space(hm.Permutation(n))


def test_members_are_in_lexicographic_order():
    members = hm.Permutation(4).enumerate().argmax(-1).tolist()
    assert members == [list(columns) for columns in permutations(range(4))]
    with pytest.raises(hm.NotExactError, match="members"):
        hm.Permutation(10).enumerate()


# ------------------------------------------------------------------------------- the arg max
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_argmax_against_brute_force(n):
    space, scores = hm.Permutation(n), random_scores(1000, n, n)
    scores[500:] = scores[500:].round()  # ties
    values = scores.flatten(1) @ space.enumerate(dtype=torch.float64).flatten(1).mT
    torch.testing.assert_close(space.dot(scores, space.argmax(scores)), values.amax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_argmax_of_large_problems_is_scipy_s(dtype):
    scores = random_scores(2, 3, 40, 40).to(dtype)
    z = hm.Permutation(40).argmax(scores)
    assert z.dtype == dtype
    for example, matrix in zip(scores.flatten(0, 1), z.flatten(0, 1), strict=True):
        assert matrix.argmax(-1).tolist() == linear_sum_assignment(example.double().numpy(), maximize=True)[1].tolist()


def test_the_solver_is_a_proper_operator():
    torch.library.opcheck(_run_scipy, (random_scores(3, 4, 4),))
    torch.library.opcheck(_run_scipy, (random_scores(4, 4),))
    assert solve_assignment(torch.zeros(0, 3, 3)).shape == (0, 3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_cannot_be_assigned(value):
    scores = torch.zeros(2, 3, 3)
    scores[1, 0, 2] = value
    with pytest.raises(hm.ArgumentError, match="finite"):
        hm.Permutation(3).argmax(scores)


# ------------------------------------------------------------------------------- the Gibbs distribution
def test_permanents_against_ryser_s_formula():
    n, scores = 9, random_scores(3, 9, 9)
    subsets = (torch.arange(2**n)[:, None] >> torch.arange(n)) & 1
    sums = torch.einsum("bij,sj->bsi", scores.exp(), subsets.double())
    permanent = (sums.prod(-1) * (-1.0) ** (n - subsets.sum(-1))).sum(-1)
    torch.testing.assert_close(hm.Permutation(n).log_partition(scores), permanent.log())


def test_the_largest_size():
    space = hm.Permutation(MAX_ITEMS)
    zeros = torch.zeros(2, MAX_ITEMS, MAX_ITEMS, dtype=torch.float64)
    torch.testing.assert_close(space.log_partition(zeros), torch.full((2,), space.log_size, dtype=torch.float64))
    torch.testing.assert_close(space.marginals(zeros), torch.full_like(zeros, 1 / MAX_ITEMS))
    z = space.sample(random_scores(2, MAX_ITEMS, MAX_ITEMS), 3, generator=torch.Generator().manual_seed(0))
    assert (z.sum(-1) == 1).all()
    assert (z.sum(-2) == 1).all()


def test_scores_of_rank_one_are_uniform():
    """Row and column scores add the same to every permutation."""
    space = hm.Permutation(7)
    scores = random_scores(2, 7, 1, size=10) + random_scores(2, 1, 7, size=10, seed=1)
    torch.testing.assert_close(space.kl(scores), torch.zeros(2, dtype=torch.float64), atol=1e-10, rtol=0)


def test_sums_are_not_offered_beyond_the_limit():
    space, scores = hm.Permutation(MAX_ITEMS + 1), torch.zeros(MAX_ITEMS + 1, MAX_ITEMS + 1)
    z = space.argmax(scores)
    calls = {
        "log_prob": lambda: space.log_prob(scores, z), "draw": lambda: space.draw(scores, scores),
        "entropy": lambda: space.entropy(scores), "kl": lambda: space.kl(scores),
        "marginals": lambda: space.marginals(scores),
    }  # fmt: skip
    for name, call in calls.items():
        assert not space.offers(name)
        assert hm.Permutation(MAX_ITEMS).offers(name)
        with pytest.raises(hm.NotExactError, match="up to n = 12"):
            call()
    with pytest.raises(hm.NotExactError, match="Reinforce"):
        hm.expectation(pytest.fail, scores, space, hm.Reinforce())
    assert space.offers("relax")
    assert space.offers("parts")
    out = hm.expectation(lambda z: z.diagonal(dim1=-2, dim2=-1).sum(-1), scores.requires_grad_(), space, hm.Direct())
    out.value.backward()
    assert scores.grad.isfinite().all()


def test_perturb_and_map_is_not_q():
    space, draws = hm.Permutation(3), 20_000
    scores = random_scores(3, 3, seed=4)
    noise = space.noise((draws,), torch.Generator().manual_seed(0), dtype=torch.float64)
    members, q = space.enumerate(dtype=torch.float64), space.log_probs(scores).exp()
    for z, same in ((space.draw(scores, noise), True), (space.argmax(scores + noise), False)):
        counts = (z[:, None] == members).flatten(2).all(-1).double().sum(0)
        assert (chisquare(counts, draws * q).pvalue > 1e-6) == same


# ------------------------------------------------------------------------------- the relaxation
def sinkhorn(scores, tau, rounds):
    log_p = scores / tau
    for _ in range(rounds):
        log_p = log_p - log_p.logsumexp(-2, keepdim=True)
        log_p = log_p - log_p.logsumexp(-1, keepdim=True)
    return log_p.exp()


@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_relaxation_is_the_limit_of_sinkhorn_with_its_gradient(tau):
    scores, weight = random_scores(4, 5, 5).requires_grad_(), random_scores(5, 5, seed=1)
    relaxed, expected = hm.Permutation(5).relax(scores, tau), sinkhorn(scores, tau, 1500)
    torch.testing.assert_close(relaxed, expected, atol=1e-8, rtol=0)
    gradients = [torch.autograd.grad((p * weight + p.pow(3)).sum(), scores)[0] for p in (relaxed, expected)]
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("n", [4, 10, 30])
@pytest.mark.parametrize("tau", [10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4])
def test_relaxation_is_doubly_stochastic_at_any_temperature(n, tau):
    space, generator = hm.Permutation(n), torch.Generator().manual_seed(0)
    scores = 2 * random_scores(50, n, n) + space.noise((50,), generator, dtype=torch.float64)
    p = space.relax(scores, tau)
    assert (p >= 0).all()
    torch.testing.assert_close(p.sum(-1), torch.ones(50, n, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(p.sum(-2), torch.ones(50, n, dtype=torch.float64), atol=1e-6, rtol=0)
    # The best P of <scores, P> + tau H(P) is worth at least as much as the arg max, so it loses at most tau H.
    entropy = -(p * p.clamp_min(1e-300).log()).sum((-2, -1))
    gap = space.dot(scores, space.argmax(scores)) - space.dot(scores, p)
    assert (gap <= tau * entropy + 1e-5).all()


def test_relaxation_of_ties_and_in_float32():
    torch.testing.assert_close(hm.Permutation(4).relax(torch.zeros(4, 4), 1e-4), torch.full((4, 4), 0.25))
    space = hm.Permutation(6)
    scores = random_scores(5, 6, 6)
    torch.testing.assert_close(space.relax(scores.float(), 0.01).double(), space.relax(scores, 0.01), atol=1e-4, rtol=0)


def test_duals_start_at_the_arg_max_when_it_is_clear():
    scores = 1e6 * random_scores(20, 8, 8)
    p = (scores + solve_column_potentials(scores)[..., None, :]).softmax(-1)
    torch.testing.assert_close(p, hm.Permutation(8).argmax(scores), atol=1e-3, rtol=0)


# ------------------------------------------------------------------------------- properties
@settings(max_examples=40)
@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=2).map(tuple), st.integers(0, 2**32))
def test_what_holds_for_every_size(n, batch, seed):
    space, generator = hm.Permutation(n), torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(*batch, n, n, generator=generator, dtype=torch.float64)
    z = space.argmax(scores)
    assert (space.dot(scores, space.neighbours(z)) <= space.dot(scores, z) + 1e-12).all()
    ones = torch.ones(*batch, n, dtype=torch.float64)
    for p in (z, space.marginals(scores), space.relax(scores, 0.1), space.sample(scores, 1, generator=generator)[0]):
        torch.testing.assert_close(p.sum(-1), ones, atol=1e-6, rtol=0)
        torch.testing.assert_close(p.sum(-2), ones, atol=1e-6, rtol=0)
    torch.testing.assert_close(space.entropy(scores.mT), space.entropy(scores))
    torch.testing.assert_close(space.kl(scores), space.log_size - space.entropy(scores))


def test_a_planted_error_in_parts_is_found(monkeypatch):
    right = hm.Permutation.parts
    monkeypatch.setattr(hm.Permutation, "parts", lambda self, z, gains: right(self, z, gains).mT)
    with pytest.raises(AssertionError, match="parts"):
        assert_space(hm.Permutation(3))


def test_bad_sizes():
    with pytest.raises(hm.ArgumentError, match="n=0"):
        hm.Permutation(0)
