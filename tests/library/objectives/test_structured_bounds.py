"""The bounds of structured encoders: below log p(x), and as tight as documented."""

import pytest
import torch

import hardmax as hm
from hardmax.nn import MLPDecoder


@pytest.fixture
def likelihood():
    torch.manual_seed(0)
    decoder = MLPDecoder((1, 5, 5), hm.Binary(6), hidden=12).double()
    for parameter in decoder.parameters():
        parameter.data *= 3
    return hm.BernoulliLikelihood(decoder, torch.rand(4, 25, dtype=torch.float64).round())


def scores_of(space, scale=1.0):
    return scale * torch.randn(4, *space.score_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_exact_bounds_are_those_of_the_gibbs_distribution(likelihood):
    space = hm.PairwiseBinary(6)
    scores = scores_of(space)
    bounds = hm.exact_bounds(likelihood, scores, space)
    sampled = hm.importance_weighted_bound(likelihood, scores, space, samples=50_000, chunk_size=10_000)
    torch.testing.assert_close(bounds.kl, space.kl(scores))
    torch.testing.assert_close(sampled.elbo, bounds.elbo, rtol=0, atol=0.2)
    torch.testing.assert_close(sampled.log_likelihood, bounds.log_likelihood, rtol=0, atol=0.2)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_perturb_and_map_bound(likelihood, scale):
    """Below log p(x); for independent bits it is the exact bound."""
    space = hm.PairwiseBinary(6)
    scores = scores_of(space)
    scores[:, 6:] *= scale
    exact = hm.exact_bounds(likelihood, scores, space)
    bounds = hm.perturb_and_map_bound(likelihood, scores, space, samples=40_000, chunk_size=10_000)
    assert (bounds.elbo < exact.log_likelihood).all()
    assert (bounds.log_likelihood < exact.log_likelihood + 0.2).all()
    assert (bounds.log_likelihood > bounds.elbo).all()
    if scale == 0:
        torch.testing.assert_close(bounds.elbo, exact.elbo, rtol=0, atol=0.2)


def test_the_released_bound_is_not_a_bound(likelihood):
    """log q from the unary scores only, as in the paper's released code, exceeds log p(x)."""
    space = hm.PairwiseBinary(6)
    scores = scores_of(space)
    scores[:, 6:] = 6.0  # all bits agree
    noise = space.noise((2000, 4), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z = space.argmax(space.perturb(scores, noise))
    unary = hm.Binary(6).log_prob(scores[:, :6], z)
    assert (
        unary < space.log_prob_bound(scores, z)
    ).double().mean() > 0.9  # its "probabilities" are far below the true ones
    values = likelihood(z).detach()
    released = (values - space.log_size - unary).mean(0)
    lower = (values - space.log_size - space.log_prob_bound(scores, z)).mean(0)
    assert (lower < hm.exact_bounds(likelihood, scores, space).log_likelihood).all()
    assert (released > lower + 1).all()


@pytest.mark.parametrize("estimator", [hm.Direct(), hm.ConditionalGradient(), hm.GibbsCovariance()], ids=str)
@pytest.mark.parametrize("kl", ["auto", "none"])
def test_the_value_of_elbo(likelihood, estimator, kl):
    """Its mean is the perturb-and-MAP bound, or the exact bound if the draws are exact."""
    space = hm.PairwiseBinary(6)
    scores = scores_of(space)
    generator = torch.Generator().manual_seed(2)
    out = hm.elbo(likelihood, scores, space, estimator, samples=20_000, kl=kl, generator=generator, chunk_size=10_000)
    if estimator.perturbs:
        expected = hm.perturb_and_map_bound(likelihood, scores, space, samples=40_000, chunk_size=10_000)
    else:
        expected = hm.exact_bounds(likelihood, scores, space)
    torch.testing.assert_close(out.value, expected.elbo, rtol=0, atol=0.4)
    torch.testing.assert_close(out.value, out.reconstruction - out.kl)


def test_gibbs_covariance_of_the_bound_is_unbiased_and_vanishes_at_the_posterior(likelihood):
    """grad ELBO by autograd through enumeration; at q = p(z | x) every single draw gives zero."""
    space = hm.PairwiseBinary(6)
    scores = scores_of(space).requires_grad_()
    exact = torch.autograd.grad(hm.exact_bounds(likelihood, scores, space).elbo.sum(), scores)[0]
    out = hm.elbo(likelihood, scores, space, hm.GibbsCovariance(), samples=100_000, chunk_size=10_000)
    gradient = torch.autograd.grad(out.value.sum(), scores)[0]
    assert (gradient - exact).norm() < 0.03 * exact.norm()

    # A likelihood that is linear in the statistics has a posterior in the family.
    weight = torch.randn(*space.score_shape, dtype=torch.float64)
    scores = weight.expand(4, -1).clone().requires_grad_()
    out = hm.elbo(lambda z: space.statistics(z) @ weight, scores, space, hm.GibbsCovariance(), samples=4)
    assert torch.autograd.grad(out.value.sum(), scores)[0].abs().max() < 1e-12


def test_greedy_bound(likelihood):
    for space in (hm.PairwiseBinary(6), hm.Binary(6)):
        scores = scores_of(space)
        bound, z = hm.greedy_bound(likelihood, scores, space)
        torch.testing.assert_close(bound, likelihood(z[None])[0].detach() - space.log_size)
        assert (likelihood(space.neighbours(z)) <= likelihood(z[None]) + 1e-12).all()
        assert (bound <= hm.exact_bounds(likelihood, scores, space).log_likelihood).all()
    prior = torch.randn(6, dtype=torch.float64)
    bound, z = hm.greedy_bound(likelihood, scores, hm.Binary(6), prior=prior)
    torch.testing.assert_close(bound, (likelihood(z[None])[0] + hm.Binary(6).log_prob(prior, z)).detach())


def test_spaces_without_such_a_bound_raise(likelihood):
    with pytest.raises(hm.NotExactError, match="importance_weighted_bound"):
        hm.perturb_and_map_bound(likelihood, torch.zeros(4, 6), hm.Subset(6, 2), samples=2)
