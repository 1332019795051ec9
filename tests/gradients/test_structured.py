"""Estimators on structured spaces, each compared with its target.

For the Gibbs distribution the target is enumerated; for perturb-and-MAP, which has no formula, it is estimated.
"""

from functools import cache

import pytest
import torch
from cases import PATH, Toy

import hardmax as hm
from hardmax.testing import assert_exact, assert_unbiased

PAIRWISE = [hm.PairwiseBinary(4), hm.PairwiseBinary(5, [(0, 1), (1, 2), (3, 4), (0, 4)])]
STRUCTURED = [*PAIRWISE, hm.Subset(5, 2), hm.Chain(3, 3), hm.Permutation(3), hm.SpanningTree(4), PATH]
STRUCTURED += [hm.Knapsack([[2, 3, 1, 2], [1, 0.5, 0.5, 1]], [4, 2])]


@pytest.mark.parametrize("space", STRUCTURED, ids=str)
def test_exact_is_exact(space):
    assert_exact(hm.Exact(), space, tolerance=1e-10)


@pytest.mark.parametrize("space", STRUCTURED, ids=str)
@pytest.mark.parametrize("samples", [2, 5])
def test_gibbs_covariance_is_unbiased(space, samples):
    assert_unbiased(hm.GibbsCovariance(), space, samples=samples)


@pytest.mark.parametrize("space", STRUCTURED, ids=str)
def test_reinforce_is_unbiased(space):
    assert_unbiased(hm.Reinforce("mean"), space, samples=3)


@pytest.mark.parametrize("space", [hm.Binary(3), *STRUCTURED], ids=str)
def test_gibbs_covariance_is_leave_one_out_reinforce(space):
    """The deviations sum to zero, so the gradient of log Z drops out."""
    scores = torch.randn(6, *space.score_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = space.noise((4, 6), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    results = []
    for estimator in (hm.GibbsCovariance(), hm.Reinforce("leave-one-out")):
        leaf = scores.clone().requires_grad_()
        out = hm.expectation(Toy(space, (6,)), leaf, space, estimator, noise=noise)
        results.append((out.value, torch.autograd.grad(out.value.sum(), leaf)[0]))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("draws", ["perturb-and-map", "gibbs"])
def test_conditional_gradient_of_independent_bits_is_unbiased(draws):
    assert_unbiased(hm.ConditionalGradient(draws), hm.Binary(3))
    space = hm.PairwiseBinary(3, [])
    assert_unbiased(hm.ConditionalGradient(draws, roulette=hm.Roulette(rate=2.0, floor=0.05)), space, draws=400_000)


def test_conditional_gradient_of_interacting_bits_is_biased_but_points_the_right_way():
    space = hm.PairwiseBinary(5)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(hm.ConditionalGradient("gibbs"), space)
    scores = _scores(space)
    exact, estimate = (
        _mean_gradient(hm.Exact(), space, scores, 1),
        _mean_gradient(hm.ConditionalGradient("gibbs"), space, scores, 100_000),
    )
    assert torch.cosine_similarity(exact, estimate, 0) > 0.9


@pytest.mark.parametrize("n", [4, 6, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("two_sided", [False, True])
def test_direct_with_the_full_f_comes_to_the_gradient_of_perturb_and_map(n, two_sided):
    space, draws = hm.PairwiseBinary(n), 200_000 if n < 8 else 80_000
    scores = _scores(space)
    target = _perturb_and_map_gradient(n)
    bias = []
    for epsilon in (0.8, 0.4, 0.2):
        estimator = hm.Direct(epsilon, two_sided, full=True)
        estimate = _mean_gradient(estimator, space, scores, draws)
        bias.append(float((estimate - target).norm() / target.norm()))
    # Order 1 halves the bias each time, order 2 quarters it; the target itself is accurate to about 0.02.
    assert bias[1] < (0.65 if two_sided else 0.75) * bias[0], bias
    assert bias[2] < (0.25 if two_sided else 0.5) * bias[0] + 0.02, bias


def test_the_low_dimensional_f_leaves_a_bias_one_sided_that_two_sides_remove():
    """Several bits move at once however small epsilon is. In the two-sided difference most of that cancels."""
    space, draws = hm.PairwiseBinary(6), 400_000
    scores, target = _scores(space), _perturb_and_map_gradient(6)

    def bias(*settings):
        estimate = _mean_gradient(hm.Direct(*settings), space, scores, draws)
        return float((estimate - target).norm() / target.norm())

    assert bias(0.1, False, True) < 0.15
    assert 0.15 < bias(0.1, False) < 0.4
    assert bias(0.1, True) < 0.12


def test_direct_with_the_full_f_serves_spaces_without_single_changes():
    space = hm.SpanningTree(4)
    scores = torch.zeros(7, *space.score_shape, requires_grad=True)
    with pytest.raises(hm.NotExactError, match="single changes of z"):
        hm.expectation(lambda z: z[..., 0], scores, space, hm.Direct())
    out = hm.expectation(lambda z: z[..., 0], scores, space, hm.Direct(full=True), samples=2)
    out.value.sum().backward()
    assert scores.grad[:, 0].sum() > 0
    assert out.evaluations == space.size + 2


def _scores(space):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    scores[space.n :] *= 0.7
    return scores


def _objective(n):
    weight = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return lambda z: (z @ weight).sin() + 0.3 * (z @ weight.flip(0)).square()


def _mean_gradient(estimator, space, scores, draws):
    leaf = scores.clone().requires_grad_()
    noise = space.noise((draws,), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    value = hm.expectation(_objective(space.n), leaf, space, estimator, noise=noise).value
    return torch.autograd.grad(value, leaf)[0]


@cache
def _perturb_and_map_gradient(n, delta=0.1):
    """Return the gradient of E[f(argmax(scores + noise))], computed without the estimators and solvers of the library.

    For the unary scores, moving the noise instead of the scores gives E[f(z) tanh(noise / 2)]. For the couplings, it is
    the limit of finite differences with common noise, by extrapolation.
    """
    space, draws = hm.PairwiseBinary(n), 400_000 if n < 8 else 120_000
    scores, members = _scores(space), space.enumerate(dtype=torch.float64)
    statistics, worth = space.statistics(members), _objective(n)(members)
    noise = space.noise((draws,), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    base = noise @ statistics.mT

    def values(shift):
        return worth[(base + statistics @ (scores + shift)).argmax(-1)]

    gradient = torch.zeros_like(scores)
    base_values = values(torch.zeros_like(scores))
    gradient[:n] = ((base_values - base_values.mean())[:, None] * (noise[:, :n] / 2).tanh()).mean(0)
    for edge in range(n, len(scores)):
        step = torch.zeros_like(scores)
        step[edge] = delta
        near, far = (float((values(k * step) - values(-k * step)).mean()) / (2 * k * delta) for k in (1, 2))
        gradient[edge] = (4 * near - far) / 3
    return gradient
