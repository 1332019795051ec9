"""EM of a Bernoulli mixture: likelihoods rise, the true mixture is recovered, and it is a discrete VAE with no gap."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Independent, MixtureSameFamily

import hardmax as hm
from hardmax.applications.discrete_vae import BernoulliMixture


def make_data(count=4000):
    """Return a mixture of well separated components, and data from it."""
    generator = torch.Generator().manual_seed(0)
    means = torch.rand(3, 12, generator=generator, dtype=torch.float64).round() * 0.8 + 0.1
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    z = torch.multinomial(weights, count, replacement=True, generator=generator)
    return BernoulliMixture(weights, means), torch.bernoulli(means[z], generator=generator)


def fit(x, steps, seed=1):
    return BernoulliMixture.fit(x, 3, steps=steps, generator=torch.Generator().manual_seed(seed))


def test_log_likelihood_agrees_with_torch():
    mixture, x = make_data(50)
    reference = MixtureSameFamily(Categorical(mixture.weights), Independent(Bernoulli(mixture.means), 1))
    torch.testing.assert_close(mixture.log_likelihood(x), reference.log_prob(x))


def test_every_step_raises_the_likelihood():
    _, x = make_data()
    likelihoods = [fit(x, steps).log_likelihood(x).mean() for steps in range(12)]
    assert all(after > before - 1e-6 for before, after in pairwise(likelihoods))  # the pseudo-counts may cost as much
    assert likelihoods[-1] > likelihoods[0] + 0.1


def test_the_true_mixture_is_recovered():
    truth, x = make_data()
    # EM may stop at a local maximum: take the best of a few starts.
    fitted = max((fit(x, 60, seed) for seed in range(12)), key=lambda mixture: mixture.log_likelihood(x).mean())
    order = torch.cdist(truth.means, fitted.means).argmin(1)
    assert sorted(order.tolist()) == [0, 1, 2]
    assert (fitted.means[order] - truth.means).abs().max() < 0.06
    assert (fitted.weights[order] - truth.weights).abs().max() < 0.03
    assert (
        fitted.log_likelihood(x).mean() > truth.log_likelihood(x).mean()
    )  # the maximum likelihood estimate for these x


def test_it_is_the_discrete_vae_whose_encoder_is_the_posterior():
    _, x = make_data(200)
    mixture = fit(x, 30)
    decoder = nn.Linear(3, 12, bias=False).double()
    decoder.weight.data = mixture.means.logit().T
    likelihood, prior = hm.BernoulliLikelihood(decoder, x), mixture.weights.log()
    bounds = hm.exact_bounds(likelihood, mixture.log_joint(x), hm.Categorical(3), prior=prior)
    torch.testing.assert_close(bounds.log_likelihood, mixture.log_likelihood(x))
    torch.testing.assert_close(bounds.elbo, bounds.log_likelihood)
    other = hm.exact_bounds(likelihood, torch.zeros(200, 3).double(), hm.Categorical(3), prior=prior)
    assert (other.elbo < bounds.log_likelihood - 1e-3).all()


@pytest.mark.parametrize("k", [0, 51])
def test_too_many_components_or_none(k):
    with pytest.raises(hm.ArgumentError, match=f"between 1 and the number of images, 50, got {k}"):
        BernoulliMixture.fit(torch.zeros(50, 4), k)
