"""The gradient of a bound: the exact one, and the bias of each treatment of the KL."""

from typing import get_args

import pytest
import torch

import hardmax as hm
import hardmax.diagnosis
from hardmax.diagnosis import (
    diagnose_elbo,
    enumerate_reference,
    estimate_reference,
    list_candidates,
    make_elbo_call,
)
from hardmax.training.config import EstimatorName

SPACES = [hm.Categorical(5), hm.Categorical(3, 2), hm.Binary(4), hm.PairwiseBinary(4), hm.Subset(5, 2), hm.Chain(3, 3)]


def problem(space, learned=True):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, 9, generator=generator, dtype=torch.float64).round()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        decoder = hm.DiscreteVAE.build(space, (1, 3, 3), hidden=7).decoder.double()
    scores = torch.randn(6, *space.score_shape, generator=generator, dtype=torch.float64)
    prior = torch.randn(space.score_shape, generator=generator, dtype=torch.float64) if learned else None
    return hm.BernoulliLikelihood(decoder, x), scores, prior


def gradient(likelihood, scores, space, prior):
    scores = scores.clone().requires_grad_()
    value = hm.exact_bounds(likelihood, scores, space, prior=prior).elbo.sum()
    return torch.autograd.grad(value, scores)[0]


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_exact_gradient(space, learned):
    likelihood, scores, prior = problem(space, learned)
    linear = (prior if learned else 0) - scores
    reference = enumerate_reference(likelihood, scores, space, linear=linear)
    torch.testing.assert_close(reference.gradient, gradient(likelihood, scores, space, prior))


@pytest.mark.parametrize("space", [hm.Binary(4), hm.PairwiseBinary(4)], ids=str)
def test_exact_gradient_by_draws(space):
    likelihood, scores, prior = problem(space)
    call = make_elbo_call(likelihood, space, prior=prior)
    reference = estimate_reference(call, scores, space, draws=2000, generator=torch.Generator().manual_seed(0))
    error = (reference.gradient - gradient(likelihood, scores, space, prior)).square()
    # The ratio has mean 1 and standard deviation 0.5 over seeds; one seed is enough for an error of a factor.
    assert 0.2 < float(error.sum() / reference.variance.sum()) < 4
    assert reference.error < 0.05


@pytest.mark.parametrize("kl", ["auto", "beside"])
def test_unbiased_estimators(kl):
    """With the KL inside the integrand, and with its gradient added."""
    space = hm.Binary(4)
    likelihood, scores, prior = problem(space)
    estimators = [hm.LocalExpectation(), hm.GibbsCovariance(), hm.Exact(), hm.StraightThrough()]
    diagnosis = diagnose_elbo(likelihood, scores, space, estimators, prior=prior, kl=kl, draws=500)
    assert [row.biased for row in diagnosis.rows] == [False, False, False, True]


def test_without_the_kl_its_gradient_is_missing():
    space = hm.Categorical(5)
    likelihood, scores, prior = problem(space)
    row = diagnose_elbo(likelihood, scores, space, [hm.Exact()], prior=prior, kl="none", draws=4).rows[0]
    scores = scores.requires_grad_()
    (missing,) = torch.autograd.grad(space.kl(scores, prior).sum(), scores)
    assert row.bias == pytest.approx(float(missing.norm() / gradient(likelihood, scores, space, prior).norm()))


def test_posterior_direct():
    """With the complete integrand as the objective, direct at epsilon 1 is `p(z | x) - q(z)` in the mean."""
    space = hm.Categorical(5)
    likelihood, scores, prior = problem(space)
    posterior = (likelihood.table() + prior.log_softmax(-1)).softmax(-1).detach()
    exact = gradient(likelihood, scores, space, prior)
    bias = float((posterior - scores.softmax(-1) - exact).norm() / exact.norm())
    generator = torch.Generator().manual_seed(0)
    row = diagnose_elbo(likelihood, scores, space, [hm.Direct(1.0)], prior=prior, draws=20_000, generator=generator)
    assert row.rows[0].bias == pytest.approx(bias, abs=0.02)
    beside = diagnose_elbo(likelihood, scores, space, [hm.Direct(1.0)], prior=prior, kl="beside", draws=2000)
    assert abs(beside.rows[0].bias - bias) > 0.1


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_candidates_serve_their_space(space):
    likelihood, scores, prior = problem(space)
    diagnosis = diagnose_elbo(likelihood, scores, space, prior=prior, draws=2)
    assert not diagnosis.refused
    names = [row.name for row in diagnosis.rows]
    assert {"direct, epsilon 0.05", "direct, epsilon 1"} <= set(names) or not space.offers("change")
    assert {name.split(",")[0] for name in names} <= set(get_args(EstimatorName))


def test_candidates_play_roulette_only_where_it_saves():
    space = hm.Binary(3)
    assert "local-expectation, roulette" in list_candidates(space, problem(space)[0])
    assert "local-expectation, roulette" not in list_candidates(space, lambda z: z.sum(-1))
    assert "local-expectation, roulette" not in list_candidates(space)


@pytest.mark.parametrize(("name", "new"), hardmax.diagnosis._RENAMED.items())
def test_former_names_warn_with_the_new_one(name, new):
    """Also the name of a module of the package, `candidates`."""
    with pytest.warns(DeprecationWarning, match=f"use hardmax.diagnosis.{new}"):
        assert getattr(hardmax.diagnosis, name) is getattr(hardmax.diagnosis, new)


def test_estimates_are_collected():
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    worth = torch.randn(5, generator=torch.Generator().manual_seed(2))
    blocks = {}
    diagnosis = hm.diagnose(
        lambda z: (z @ worth).square(), scores, hm.Categorical(5), [hm.Exact(), hm.Reinforce("leave-one-out")],
        draws=50, samples=4, generator=torch.Generator().manual_seed(3),
        collect=lambda name, estimates: blocks.setdefault(name, []).append(estimates),
    )  # fmt: skip
    for row in diagnosis.rows:
        estimates = torch.cat(blocks[row.name])
        assert estimates.shape == (50, 3, 5)
        assert float(estimates.var(0).sum().sqrt() / diagnosis.norm) == pytest.approx(row.deviation, rel=1e-6, abs=1e-6)


def test_direct_is_measured_with_the_arg_max_that_a_linear_f_allows():
    space = hm.GridPath(3, 3, on="nodes")  # has no single changes of z
    scores, worth = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1))
    f = hm.LinearObjective(worth, space)
    diagnosis = hm.diagnose(f, scores, space, [hm.Direct(0.5)], draws=2000, samples=1)
    (row,) = diagnosis.rows
    assert row.estimator == hm.Direct(0.5)
    copies = scores.expand(20_000, 3, 3).clone().requires_grad_()
    hm.expectation(f, copies, space, hm.Direct(0.5)).value.sum().backward()
    deviation = copies.grad.var(0).sum().sqrt() / diagnosis.norm
    assert row.deviation == pytest.approx(float(deviation), rel=0.1)
    refused = hm.diagnose(lambda z: f(z), scores, space, [hm.Direct(0.5), hm.Exact()], draws=8).refused
    assert "around z" in refused[0].reason
