"""Knapsack: sets of items whose weights fit."""

import math
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import Toy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import hardmax as hm
from hardmax.solvers.solution import record_solvers
from hardmax.testing import assert_exact, assert_space, assert_unbiased

SPACES = [
    hm.Knapsack([2, 3, 4], 6),
    hm.Knapsack([1], 1),
    hm.Knapsack([1, 2, 3], 100),
    hm.Knapsack([0, 2, 0, 3, 5], 5),
    hm.Knapsack([[2, 3, 4, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.1]], [5, 0.5]),
    hm.Knapsack([[1, 2, 1, 2], [2, 1, 1, 1], [1, 1, 3, 1]], [4, 4, 4]),
    hm.Knapsack([0.1234567890123, 1 / 3, 0.7, 0.5], 1.1),
]
each = pytest.mark.parametrize("space", SPACES, ids=str)


@pytest.fixture(params=["compiled", "torch"])
def _backend(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setitem(sys.modules, "numba", None)


@pytest.fixture(scope="module")
def large():
    """Return a space with too many states for dynamic programming, and scores."""
    random = np.random.default_rng(0)
    weights = random.integers(1, 2000, (3, 60))
    generator = torch.Generator().manual_seed(0)
    return hm.Knapsack(weights, weights.sum(1) // 3), torch.rand(4, 60, generator=generator, dtype=torch.float64)


@pytest.mark.usefixtures("_backend")
@each
def test_everything_offered_agrees_with_enumeration(space):
    assert_space(space)


def test_size_and_order_of_members():
    space = hm.Knapsack([2, 3, 4], 6)
    assert space.enumerate().int().tolist() == [[1, 1, 0], [1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    many = hm.Knapsack([1] * 200, 100)
    assert many.size == sum(math.comb(200, k) for k in range(101))
    with pytest.raises(hm.NotExactError, match="members"):
        many.enumerate()
    torch.testing.assert_close(many.kl(torch.zeros(200, dtype=torch.float64)).item(), 0.0, atol=1e-9, rtol=0)


def test_decimal_weights_mean_what_they_print():
    assert hm.Knapsack([0.1, 0.2], 0.3).size == 4
    assert hm.Knapsack([0.1] * 10, 1).size == 2**10
    assert hm.Knapsack([1 / 3] * 3, 1).size == 2**3
    assert hm.Knapsack([2.0, 3.0], 4.0) == hm.Knapsack(torch.tensor([2, 3]), 4) == hm.Knapsack(np.array([2, 3]), 4)


def test_a_space_is_small_and_hashable():
    space = hm.Knapsack(np.ones((2, 30)), [5, 6.5], perturbation=hm.Perturbation("normal"))
    assert hash(space) == hash(pickle.loads(pickle.dumps(space)))
    assert pickle.loads(pickle.dumps(space)) == space
    assert len(pickle.dumps(space)) < 2000
    assert space != replace(space, perturbation=hm.Perturbation())
    assert repr(space) == "Knapsack(n=30, constraints=2)"
    assert space.weights == ((1,) * 30, (1,) * 30)


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_scores(dtype):
    space = hm.Knapsack([2, 2, 3, 3], 8)
    scores = torch.tensor([1e30, 0.5, -1e30, 1.0], dtype=dtype, requires_grad=True)
    # Item 0 is always chosen and item 2 never: four sets remain.
    weights = torch.tensor([0.0, 0.5, 1.0, 1.5]).exp().double()
    q = weights / weights.sum()
    expected = torch.tensor([1.0, q[1] + q[3], 0.0, q[2] + q[3]], dtype=dtype)
    torch.testing.assert_close(space.marginals(scores), expected)
    entropy = -(q * q.log()).sum()
    torch.testing.assert_close(space.entropy(scores).double(), entropy, rtol=1e-5, atol=0)
    torch.testing.assert_close(
        space.kl(scores, scores).double(), torch.zeros((), dtype=torch.float64), atol=1e-5, rtol=0
    )
    (gradient,) = torch.autograd.grad(space.log_partition(scores), scores)
    torch.testing.assert_close(gradient, expected)
    z = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=dtype)
    torch.testing.assert_close(space.log_prob(scores, z).double(), q[3].log(), rtol=1e-5, atol=0)
    assert torch.equal(space.argmax(scores), z)
    samples = space.sample(scores, 2000, generator=torch.Generator().manual_seed(0))
    assert (samples[:, 0] == 1).all()
    assert (samples[:, 2] == 0).all()
    torch.testing.assert_close(samples.mean(0), expected, atol=0.05, rtol=0)


@pytest.mark.parametrize("kind", ["gumbel", "normal", "multiplicative"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_from_noise_of_every_kind(kind, dtype):
    space = hm.Knapsack([2, 3, 1, 2], 5, perturbation=hm.Perturbation(kind, 0.7))
    generator, draws = torch.Generator().manual_seed(0), 40_000
    scores = torch.randn(4, generator=generator, dtype=torch.float64)
    z = space.sample(scores.to(dtype), draws, generator=generator).double()
    counts = (z[:, None] == space.enumerate(dtype=torch.float64)).all(-1).double().sum(0)
    assert chisquare(counts, draws * space.log_probs(scores).exp()).pvalue > 1e-6


def test_perturb_and_map_uses_the_perturbation():
    space = hm.Knapsack([1, 1], 1, perturbation=hm.Perturbation("multiplicative"))
    scores = torch.tensor([1.0, -1.0])
    z = space.argmax(space.perturb(scores, space.noise((200,), torch.Generator().manual_seed(0))))
    assert torch.equal(z, torch.tensor([1.0, 0.0]).expand(200, 2))


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(1, 3), st.lists(st.integers(0, 3), max_size=2).map(tuple), st.integers(0, 2**32))
def test_what_holds_for_every_size(n, d, batch, seed):
    random = np.random.default_rng(seed)
    weights = random.integers(0, 9, (d, n))
    space = hm.Knapsack(weights, np.maximum(weights.max(1), weights.sum(1) // 2))
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(*batch, n, generator=generator, dtype=torch.float64)
    rows, capacities = torch.tensor(space.weights).double(), torch.tensor(space.capacity).double()
    best = space.argmax(scores)
    for z in (best, space.marginals(scores), space.relax(scores, 0.1), space.sample(scores, 2, generator=generator)):
        assert (z @ rows.mT <= capacities + 1e-9).all()
        assert ((z >= 0) & (z <= 1 + 1e-12)).all()
    assert (space.dot(scores, best) >= space.dot(scores, space.sample(scores, 5, generator=generator)) - 1e-9).all()
    torch.testing.assert_close(space.kl(scores), space.log_size - space.entropy(scores))


# ------------------------------------------------------------------------------- too many states
def test_a_large_space_offers_only_the_arg_max(large, monkeypatch):
    space, scores = large
    assert not any(
        space.offers(name) for name in ("draw", "log_prob", "entropy", "kl", "marginals", "relax", "enumerate")
    )
    assert space.offers("noise_slope")
    assert space.chosen_solver == "branch-and-bound"
    with record_solvers() as names:
        z = space.argmax(scores)
    assert names == ["branch-and-bound"]
    assert (z @ torch.tensor(space.weights).double().mT <= torch.tensor(space.capacity)).all()
    for call in (space.marginals, space.log_partition, lambda scores: space.size, lambda scores: space.enumerate()):
        with pytest.raises(hm.NotExactError, match=r"too many different sums.*ImplicitMLE"):
            call(scores)
    with pytest.raises(hm.NotExactError):
        hm.expectation(pytest.fail, scores, space, hm.Exact())
    solution = space.solve(scores)
    assert solution.is_exact
    assert torch.equal(solution.z, z)
    for dtype in (torch.float32, torch.bfloat16):
        assert space.argmax(scores.to(dtype)).dtype == dtype
    monkeypatch.setitem(sys.modules, "numba", None)
    torch.testing.assert_close(space.solve(scores[:1]).value, solution.value[:1])


def test_estimators_that_need_only_the_arg_max(large):
    space, scores = large
    scores = scores.clone().requires_grad_()
    for estimator in (hm.PerturbedOptimizer(0.1), hm.ImplicitMLE()):
        out = hm.expectation(lambda z: z.sum(-1), scores, space, estimator, samples=4)
        assert torch.autograd.grad(out.value.sum(), scores)[0].isfinite().all()


# ------------------------------------------------------------------------------- estimators
def test_estimators_of_the_gibbs_distribution():
    space = SPACES[4]
    assert_exact(hm.Exact(), space)
    assert_unbiased(hm.GibbsCovariance(), space, samples=3, resolution=0.3)
    assert_unbiased(hm.Reinforce("leave-one-out"), space, samples=3, resolution=0.3)


@pytest.mark.parametrize("kind", ["gumbel", "normal", "multiplicative"])
def test_perturbed_optimizer_differentiates_the_mean_arg_max(kind):
    """Against differences of the mean with common noise."""
    space = hm.Knapsack([2, 3, 1, 2], 5, perturbation=hm.Perturbation(kind, 0.8))
    worth, draws, delta = torch.tensor([1.0, -0.5, 2.0, 0.3]).double(), 200_000, 0.1
    scores = torch.tensor([0.8, 1.0, 0.4, -0.6], dtype=torch.float64, requires_grad=True)
    noise = space.noise((draws,), torch.Generator().manual_seed(0), dtype=torch.float64)
    out = hm.expectation(lambda z: z @ worth, scores, space, hm.PerturbedOptimizer(), noise=noise)
    (gradient,) = torch.autograd.grad(out.value, scores)
    for i in range(4):
        step = delta * torch.eye(4, dtype=torch.float64)[i]
        up, down = (space.argmax(space.perturb(scores.detach() + sign * step, noise)) @ worth for sign in (1, -1))
        torch.testing.assert_close(gradient[i], (up - down).mean() / (2 * delta), atol=0.03, rtol=0)


def test_fenchel_young_loss_is_least_at_the_target():
    space = hm.Knapsack([2, 3, 1, 2], 5, perturbation=hm.Perturbation("normal", 0.5))
    target = space.argmax(torch.tensor([[1.0, -1.0, 1.0, 1.0], [-1.0, 2.0, 1.0, -1.0]]))
    scores = torch.zeros(2, 4, requires_grad=True)
    optimizer, generator = torch.optim.SGD([scores], 0.5), torch.Generator().manual_seed(0)
    for _ in range(60):
        optimizer.zero_grad()
        hm.fenchel_young_loss(scores, target, space, samples=20, generator=generator).sum().backward()
        optimizer.step()
    assert torch.equal(space.argmax(scores), target)


def test_projections_that_change_the_arg_max_are_refused():
    for space in (hm.Knapsack([2, 3], 4), hm.SolverSpace(lambda scores: scores > 0, 2)):
        with pytest.raises(hm.NotExactError, match="use project='sphere'"):
            hm.sample(torch.zeros(2), space, hm.IdentityBackward("plane"))


def test_direct_with_the_full_f():
    space, scores = hm.Knapsack([2, 3, 1, 2], 5), torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    with pytest.raises(hm.NotExactError, match="single changes"):
        hm.expectation(pytest.fail, scores, space, hm.Direct())
    hm.expectation(Toy(space), scores, space, hm.Direct(full=True), samples=2).value.sum().backward()
    assert scores.grad.isfinite().all()


def test_a_planted_error_in_the_marginals_is_noticed(monkeypatch):
    right = hm.Knapsack.marginals
    monkeypatch.setattr(hm.Knapsack, "marginals", lambda self, scores: 1.01 * right(self, scores))
    with pytest.raises(AssertionError, match="marginals"):
        assert_space(SPACES[0])


# ------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("weights", "capacity", "message"),
    [
        ([], 3, "at least one item"),
        ([[], []], [1, 2], "at least one item"),
        ([1, -2], 3, "finite and at least zero, got -2 for weight 1"),
        ([1, float("nan")], 3, "got nan for weight 1"),
        ([[1, 2], [1, float("inf")]], [3, 4], "got inf for weight 1 of constraint 1"),
        ([0, 0], -1, "got -1 for capacity"),
        ([1, 2], float("nan"), "got nan for capacity"),
        ([1, 5, 2, 7], 4, r"items 1, 3 can never be chosen: their weights are 5, 7 and the capacity is 4.*remove"),
        ([[1, 2], [3, 4]], [2, 3], r"items 1 can never be chosen: their weights of constraint 1 are 4"),
        ([[1, 2], [1]], [2, 3], r"rows of \[2, 1\] weights"),
        ([[1, 2]], [2, 3], "2 rows of n numbers, one for each capacity, got 1 rows"),
        ([1, 2], [2], "1 rows of n numbers, one for each capacity, got 2 numbers"),
        ([[1, 2]], 2, "got weights of 1 rows and a capacity of one number"),
    ],
)
def test_bad_constraints(weights, capacity, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.Knapsack(weights, capacity)


def test_nan_scores_are_refused():
    space, scores = hm.Knapsack([1, 2], 2), torch.tensor([0.0, float("nan")])
    with pytest.raises(hm.ArgumentError, match="finite"):
        space.solve(scores)
    with pytest.raises(hm.ArgumentError, match="finite"):
        hm.expectation(pytest.fail, scores, space, hm.Exact())
