"""The Gaussian VAE as a module: its networks, its bounds against quadrature, sampling, saving."""

import pytest
import torch
from mixed_models import largest_z
from torch import nn
from torch.distributions import Normal

import hardmax as hm


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
@pytest.mark.parametrize(("architecture", "shape"), [("mlp", (1, 9, 7)), ("conv", (3, 17, 33)), ("conv", (1, 8, 8))])
def test_every_part_gets_a_gradient(architecture, shape, likelihood):
    model = hm.GaussianVAE.build(3, shape, architecture=architecture, hidden=20, likelihood=likelihood)
    x = torch.rand(4, *shape)
    out = model(x, samples=2)
    (-out.value.mean()).backward()
    assert out.z.shape == (2, 4, 3)
    torch.testing.assert_close(out.value.detach(), out.reconstruction - out.kl)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    images, z = model.sample(5)
    assert images.shape == (5, *shape)
    assert z.shape == (5, 3)
    torch.testing.assert_close(model.decode(z), images)


@pytest.fixture
def small():
    """Return a model with one latent and four pixels, in float64, and an image; the encoder does not fit."""
    generator = torch.Generator().manual_seed(0)
    model = hm.GaussianVAE(nn.Linear(4, 2), nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 4)), 1).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model, torch.tensor([[1.0, 0.0, 1.0, 1.0]], dtype=torch.float64)


def integrals(model, x):
    """Return the bound and log p(x) of one image from the definitions, by quadrature over z."""
    z = torch.linspace(-12, 12, 48_001, dtype=torch.float64)[:, None]
    logits = model.decoder(z)
    log_p = -nn.functional.binary_cross_entropy_with_logits(logits, x.expand_as(logits), reduction="none").sum(-1)
    mean, log_variance = model.encode(x)
    log_q = Normal(mean, (log_variance / 2).exp()).log_prob(z)[:, 0]
    log_prior = Normal(0.0, 1.0).log_prob(z)[:, 0]
    step = (z[1] - z[0]).item()
    return ((log_q.exp() * (log_p + log_prior - log_q)).sum() * step).item(), (
        (log_p + log_prior).logsumexp(0) + torch.tensor(step).log()
    ).item()


def test_bounds_against_quadrature(small):
    model, x = small
    elbo, log_likelihood = integrals(model, x)
    assert elbo < log_likelihood - 0.05
    many = x.expand(40_000, 4)
    bounds = model.bounds(many, samples=20, generator=torch.Generator().manual_seed(1))
    assert largest_z(bounds.elbo, elbo) < 5.5
    assert bounds.log_likelihood.mean() < log_likelihood + 1e-3  # a lower bound in the mean
    weights = (bounds.log_likelihood - log_likelihood).exp()  # the mean of the weights themselves is p(x)
    assert largest_z(weights, 1.0) < 5.5
    assert largest_z(weights, 1.02) > 5.5  # a deviation of 2 % would be detected
    for form in ("prior-contrastive", "joint-contrastive"):
        value = model(many, form=form, generator=torch.Generator().manual_seed(2)).value.detach()
        assert largest_z(value, elbo) < 5.5


def test_bounds_of_the_posterior_have_no_gap():
    """x = z + noise: the posterior is N(x/2, 1/2), and every weight is p(x) = N(x; 0, 2)."""
    x = torch.tensor([[0.3], [-1.2]], dtype=torch.float64)
    likelihood = hm.GaussianLikelihood(nn.Identity(), x)
    log_variance = torch.full_like(x, 0.5).log()
    bounds = hm.gaussian_bounds(likelihood, x / 2, log_variance, samples=3)
    torch.testing.assert_close(bounds.log_likelihood, Normal(0.0, 2**0.5).log_prob(x)[:, 0])
    assert not torch.allclose(
        hm.gaussian_bounds(likelihood, x, log_variance, samples=3).log_likelihood, bounds.log_likelihood
    )


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_saved_and_loaded(likelihood, tmp_path):
    model = hm.GaussianVAE.build(3, (1, 4, 4), hidden=8, likelihood=likelihood)
    model.save_pretrained(tmp_path)
    loaded = hm.load_model(tmp_path)
    assert type(loaded) is hm.GaussianVAE
    z = torch.randn(5, 3)
    assert torch.equal(loaded.decode(z), model.decode(z))
    with pytest.raises(hm.DataError, match="'gaussian-vae', not 'discrete-vae'"):
        hm.DiscreteVAE.from_pretrained(tmp_path)
