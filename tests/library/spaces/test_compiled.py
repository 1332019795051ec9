"""Structured spaces with and without Numba: the same results, for scores of any size, from few random numbers."""

import sys

import pytest
import torch
from cases import PATH, Toy
from scipy.stats import chisquare

import hardmax as hm
from hardmax.testing import assert_space, assert_unbiased
from hardmax.tracing import can_run_compiled

SUBSETS = [hm.Subset(6, 2), hm.Subset(5, 4)]
PATHS = [PATH, hm.GridPath(3, 3, connectivity=8, on="nodes")]
SPACES = [*SUBSETS, hm.Permutation(4), hm.Chain(4, 3), hm.SpanningTree(5), hm.PairwiseBinary(4), *PATHS]
SUMMED = [space for space in SPACES if not isinstance(space, hm.PairwiseBinary)]
LARGE = [hm.Subset(40, 9), hm.Subset(30, 29), hm.Chain(12, 5), hm.SpanningTree(12), hm.GridPath(9, 8)]
each = pytest.mark.parametrize("space", SPACES, ids=str)
summed = pytest.mark.parametrize("space", SUMMED, ids=str)


def block_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not can_run_compiled(torch.zeros(1))


@pytest.fixture(params=["compiled", "torch"])
def _backend(request, monkeypatch):
    if request.param == "torch":
        block_numba(monkeypatch)
    else:
        assert can_run_compiled(torch.zeros(1))


def scores_of(space, *batch, size=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)


def mask(space, scores):
    """Return scores with about a third of them at -1e30, but none of those that the best z uses."""
    used = space.statistics(space.argmax(scores)) > 0
    drawn = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    return scores.masked_fill(drawn & ~used, -1e30)


def list_extremes(space):
    scores = scores_of(space, 20)
    return {"N(0, 1)": scores, "100": 100 * scores, "1e3": 1e3 * scores, "masked": mask(space, scores)}


@pytest.mark.usefixtures("_backend")
@summed
def test_everything_offered_agrees_with_enumeration(space):
    assert_space(space)


@pytest.mark.usefixtures("_backend")
@summed
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_for_extreme_scores_against_enumeration(space, dtype):
    statistics = space.statistics(space.enumerate(dtype=torch.float64)).flatten(1)
    for name, scores in list_extremes(space).items():
        rounded = scores.to(dtype)
        exact = rounded.double()
        log_q = space.log_probs(exact)
        largest = min(float(exact.abs().amax()), 1e4)
        tolerance = {"atol": 100 * torch.finfo(dtype).eps * (1 + largest), "rtol": 0}
        marginals = (log_q.exp() @ statistics).view(scores.shape)
        torch.testing.assert_close(space.marginals(rounded).double(), marginals, **tolerance, msg=name)
        log_z = (exact.flatten(1) @ statistics.mT).logsumexp(-1)
        torch.testing.assert_close(space.log_partition(rounded).double(), log_z, **tolerance, msg=name)


@pytest.mark.parametrize("space", LARGE, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_compiled_sums_are_those_of_torch(space, dtype, monkeypatch):
    """The reference is in logarithms and float64."""
    for name, scores in list_extremes(space).items():
        rounded = scores.to(dtype)
        results = space.marginals(rounded), space.log_partition(rounded), space.argmax(rounded)
        with monkeypatch.context() as patch:
            block_numba(patch)
            expected = space.marginals(rounded.double()), space.log_partition(rounded.double()), space.argmax(rounded)
        marginals, log_z, best = results
        largest = min(float(scores.abs().amax()), 1e4)
        atol = 100 * torch.finfo(dtype).eps * (1 + largest)
        torch.testing.assert_close(marginals.double(), expected[0], atol=atol, rtol=0, msg=name)
        torch.testing.assert_close(log_z.double(), expected[1], atol=atol, rtol=100 * torch.finfo(dtype).eps, msg=name)
        assert torch.equal(best, expected[2])


@pytest.mark.parametrize("space", [hm.Chain(6, 4), hm.SpanningTree(9), hm.GridPath(5, 5)], ids=str)
def test_compiled_solvers_break_ties_as_torch_does(space, monkeypatch):
    scores = scores_of(space, 300).round()
    compiled = space.argmax(scores), space.argmax(scores.float()), space.argmax(scores.bfloat16())
    block_numba(monkeypatch)
    for z in compiled:
        assert torch.equal(z.double(), space.argmax(scores))


def test_chains_whose_only_paths_have_tiny_weights(monkeypatch):
    """Every path ends badly in one way: what underflows next to the largest weight of its step is all that counts."""
    space = hm.Chain(5, 3)
    scores = scores_of(space, 4).float()
    scores[:, 1, :, 0] += 80  # the way into state 0 is wide, the way out is 200 narrower
    scores[:, 2, 0] -= 200
    uniform = space.draw_noise((2000, 4), torch.Generator().manual_seed(0))
    marginals, z = space.marginals(scores), space.draw(scores, uniform)
    block_numba(monkeypatch)
    torch.testing.assert_close(marginals, space.marginals(scores))
    assert (z == space.draw(scores, uniform)).flatten(2).all(-1).double().mean() > 0.999
    log_q = space.log_probs(scores.double())
    statistics = space.statistics(space.enumerate(dtype=torch.float64)).flatten(1)
    torch.testing.assert_close(marginals.double().flatten(1), log_q.exp() @ statistics, atol=1e-4, rtol=0)


# ------------------------------------------------------------------------------- derivatives
@summed
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_first_and_second_derivatives_are_those_of_torch(space, size, monkeypatch):
    weight = scores_of(space, 3, seed=1)

    def differentiate():
        scores = scores_of(space, 3, size=size).requires_grad_()
        value = (space.marginals(scores) * weight).sum() + space.entropy(scores).sum()
        value = value + space.log_partition(scores).square().sum()
        (plain,) = torch.autograd.grad(value, scores, retain_graph=True)
        (first,) = torch.autograd.grad(value, scores, create_graph=True)
        (second,) = torch.autograd.grad((first * weight).sum(), scores)
        return plain, first.detach(), second

    compiled = differentiate()
    block_numba(monkeypatch)
    torch.testing.assert_close(compiled, differentiate(), atol=1e-9 * size, rtol=1e-9)
    torch.testing.assert_close(compiled[0], compiled[1], atol=1e-9 * size, rtol=1e-9)


# ------------------------------------------------------------------------------- samples
def test_draws_need_fewer_numbers_than_scores():
    shapes = {
        hm.Chain(50, 20): 50, hm.Subset(100, 10): 10, hm.Permutation(8): 8, hm.PairwiseBinary(10): 2,
        hm.SpanningTree(5): 10, hm.GridPath(5, 5): 7,
    }  # fmt: skip
    for space, count in shapes.items():
        noise = space.draw_noise((3, 2), torch.Generator().manual_seed(0))
        assert noise.shape == (3, 2, *space.draw_shape)
        assert noise[0, 0].numel() == count


def count_members(space, z):
    members = space.enumerate(dtype=torch.float64).flatten(1)
    equal = (z.double().flatten(1)[:, None] == members).all(-1)
    assert (equal.sum(1) == 1).all()
    return equal.double().sum(0)


@pytest.mark.usefixtures("_backend")
@each
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["N(0, 1)", "masked"])
def test_samples_have_the_distribution_q(space, dtype, kind):
    draws, generator = 40_000, torch.Generator().manual_seed(0)
    scores = scores_of(space, seed=3)
    if kind == "masked":
        if isinstance(space, hm.PairwiseBinary):
            return  # a coupling of -1e30 and one of 1 have no common sum in float32
        scores = mask(space, scores)
    scores = scores.to(dtype)
    counts = count_members(space, space.sample(scores, draws, generator=generator))
    expected = draws * space.log_probs(scores.double()).exp()
    assert (counts[expected < 1e-9] == 0).all()
    rare = expected < 10
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    counts, expected = counts[expected > 0], expected[expected > 0]
    assert len(counts) == 1 or chisquare(counts, expected * (counts.sum() / expected.sum())).pvalue > 1e-6


@each
def test_compiled_samples_are_those_of_torch(space, monkeypatch):
    scores = scores_of(space, 2, 3, size=3.0)
    noise = space.draw_noise((50, 2, 3), torch.Generator().manual_seed(0), dtype=torch.float64)
    compiled = space.draw(scores, noise)
    torch.testing.assert_close(compiled[:, 1, 2], space.draw(scores[1, 2], noise[:, 1, 2]))
    block_numba(monkeypatch)
    assert torch.equal(compiled, space.draw(scores, noise))


@pytest.mark.usefixtures("_backend")
@each
def test_extreme_uniform_numbers_still_give_members(space):
    scores = scores_of(space, size=5.0)
    for dtype in (torch.float64, torch.float32):
        if isinstance(space, hm.PairwiseBinary | hm.SpanningTree):
            values = (-40.0, 0.0, 40.0)  # logistic, Gumbel
        else:
            values = (0.0, 0.5, 1 - torch.finfo(dtype).eps / 2)
        for value in values:
            noise = torch.full((1, *space.draw_shape), value, dtype=dtype)
            count_members(space, space.draw(scores.to(dtype), noise))


@each
def test_gibbs_covariance_is_unbiased(space):
    assert_unbiased(hm.GibbsCovariance(), space, samples=3, resolution=0.3)


@each
def test_weighted_sums_of_statistics(space):
    z = space.sample(scores_of(space, 2, 3), 5, generator=torch.Generator().manual_seed(0))
    weights = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = torch.einsum("s...,s...d->...d", weights, space.statistics(z).flatten(3)).view(2, 3, *space.score_shape)
    torch.testing.assert_close(space.sum_statistics(weights, z), expected)


@each
def test_the_caller_s_noise_may_have_either_shape(space):
    scores, f = scores_of(space, 3).requires_grad_(), Toy(space)
    for draw in (space.noise, space.draw_noise):
        noise = draw((4, 3), torch.Generator().manual_seed(0), dtype=torch.float64)
        out = hm.expectation(f, scores, space, hm.GibbsCovariance(), noise=noise)
        assert out.value.shape == (3,)


# ------------------------------------------------------------------------------- Sinkhorn
@pytest.mark.parametrize("n", [2, 5, 12, 40])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_column_sums_of_the_relaxation(n, size):
    space = hm.Permutation(n)
    for tau in (0.05, 0.1, 0.3, 1.0, 5.0):
        p = space.relax(scores_of(space, 30, size=size), tau)
        torch.testing.assert_close(p.sum(-1), torch.ones(30, n, dtype=torch.float64), atol=1e-12, rtol=0)
        torch.testing.assert_close(p.sum(-2), torch.ones(30, n, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_batch_of_easy_and_hard_relaxations_is_each_of_them():
    space = hm.Permutation(6)
    scores = scores_of(space, 4) * torch.tensor([0.1, 1.0, 8.0, 1e3])[:, None, None]
    together = space.relax(scores, 0.5)
    for example, p in zip(scores, together, strict=True):
        torch.testing.assert_close(space.relax(example, 0.5), p, atol=1e-8, rtol=0)
    with_gradient = space.relax(scores.requires_grad_(), 0.5)
    assert torch.equal(with_gradient.detach(), together)
