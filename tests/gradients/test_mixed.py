"""Every gradient of a model with a discrete and a Gaussian latent variable, compared with enumeration."""

import pytest
import torch
from mixed_models import JOINS, Small, largest_z

import hardmax as hm
from hardmax.applications.mixed_vae import MixedObjective, mixed_elbo
from hardmax.testing import assert_bias_vanishes, assert_exact, assert_unbiased

DRAWS = 200_000
STEPS = (0.4, 0.2, 0.1)


@pytest.mark.parametrize("join", JOINS, ids=str)
class TestScores:
    def test_exact(self, join):
        model = Small(join)
        torch.testing.assert_close(model.any_batch(model.members), model.values(), rtol=1e-10, atol=1e-10)
        assert_exact(hm.Exact(), join.space, f=model.any_batch, scores=model.scores)

    @pytest.mark.parametrize("estimator", [hm.Reinforce("leave-one-out"), hm.LocalExpectation(roulette=False)], ids=str)
    def test_unbiased(self, join, estimator):
        model = Small(join)
        assert_unbiased(estimator, join.space, f=model.any_batch, scores=model.scores, samples=2, draws=DRAWS)

    def test_direct(self, join):
        model = Small(join)
        assert_bias_vanishes(
            hm.Direct, join.space, f=model.any_batch, scores=model.scores, steps=STEPS, draws=2 * DRAWS, resolution=0.3
        )

    def test_posterior_direct(self, join):
        """The bias for the gradient of the entire bound decreases in proportion to epsilon."""
        model = Small(join)
        exact = torch.autograd.grad(model.bound(), model.scores)[0]
        bias, noise = [], []
        for epsilon in (0.4, 0.1):
            estimates = score_gradients(model, hm.Direct(epsilon))
            bias.append((estimates.mean(0) - exact).norm() / exact.norm())
            noise.append((estimates.std(0) / DRAWS**0.5).norm() / exact.norm())
        assert 0.02 < bias[0] < 1  # otherwise there is nothing to measure
        assert bias[1] < bias[0] * 0.25**0.7 + 4 * noise[1]

    def test_auto_follows_the_posterior(self, join):
        """For one categorical the mean gradient is p(z | x) - q(z); for independent bits that of the bound."""
        model = Small(join)
        estimates = score_gradients(model, "auto")
        if join.space.categories is None:
            exact = torch.autograd.grad(model.bound(), model.scores)[0]
        else:
            exact = (model.values() + model.log_p()).softmax(0) - model.log_q().exp()
        assert largest_z(estimates, exact.detach()) < 5.5
        assert largest_z(estimates, 1.1 * exact.detach()) > 5.5  # would fail


def score_gradients(model, estimator):
    scores = model.scores.detach().expand(DRAWS, *model.scores.shape).clone().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    out = mixed_elbo(model.objective(DRAWS), scores, estimator, prior=model.prior, generator=generator)
    return torch.autograd.grad(out.value.sum(), scores)[0]


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_everything_else_is_exact_where_z_is(join):
    """Mean, log-variance, decoder and prior, against autograd of the enumerated bound with the same noise."""
    model = Small(join)
    out = mixed_elbo(model.objective(), model.scores, hm.Exact(), prior=model.prior)
    expected = model.bound()
    torch.testing.assert_close(out.value, expected, rtol=1e-10, atol=1e-10)
    gradients, exact = (torch.autograd.grad(value, model.leaves()) for value in (out.value, expected))
    torch.testing.assert_close(gradients, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_gaussians_are_unbiased_where_z_is_drawn(join):
    """Mean and log-variance through f at the draws; one batch with separate leaves for every example."""
    model, draws = Small(join), 50_000
    exact_gradients = torch.autograd.grad(model.bound(), [model.mean, model.log_variance])
    model.mean, model.log_variance = (
        tensor.detach().expand(draws, *tensor.shape).clone().requires_grad_()
        for tensor in (model.mean, model.log_variance)
    )
    likelihood = hm.BernoulliLikelihood(model.decoder, model.x.expand(draws, 5))
    noise = model.noise.expand(draws, *model.noise.shape)
    f = MixedObjective(likelihood, join, model.mean, model.log_variance, noise=noise)
    scores = model.scores.detach().expand(draws, *model.scores.shape)
    generator = torch.Generator().manual_seed(0)
    value = mixed_elbo(f, scores, hm.Direct(0.5), generator=generator).value.sum()
    estimated_gradients = torch.autograd.grad(value, [model.mean, model.log_variance])
    for estimates, exact in zip(estimated_gradients, exact_gradients, strict=True):
        assert largest_z(estimates, exact) < 5.5
        assert largest_z(estimates, 1.2 * exact) > 5.5


class TestSupervision:
    """The gradient of a label for the scores, from compositions of library functions only."""

    SPACES = (hm.Categorical(4), hm.Binary(3))

    @staticmethod
    def problem(space):
        generator = torch.Generator().manual_seed(0)
        scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
        label = space.argmax(-scores)
        return scores, label

    @pytest.mark.parametrize("space", SPACES, ids=str)
    @pytest.mark.parametrize("epsilon", [1.0, 0.25])
    def test_through_the_arg_max_is_cross_entropy_in_the_mean(self, space, epsilon):
        scores, label = self.problem(space)
        batch = scores.expand(DRAWS, *scores.shape).clone().requires_grad_()
        labels, generator = label.expand(DRAWS, *label.shape), torch.Generator().manual_seed(0)
        loss = hm.fenchel_young_loss(batch, labels, space, generator=generator) / epsilon
        estimates = torch.autograd.grad(loss.sum(), batch)[0]
        scores.requires_grad_()
        exact = torch.autograd.grad(-space.log_prob(scores, label), scores)[0] / epsilon
        assert largest_z(estimates, exact) < 5.5
        assert largest_z(estimates, 1.05 * exact) > 5.5
        # Every single estimate is that of the paper: the difference of z* and the label, divided by epsilon.
        assert set((estimates * epsilon).unique().tolist()) <= {-1.0, 0.0, 1.0}

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_any_loss(self, space):
        scores, label = self.problem(space)
        cost = torch.rand(space.event_shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5

        def loss(z, label):  # not additive: two errors cost more than twice one error
            return (cost * (z - label).abs()).sum(-1).square()

        assert_bias_vanishes(
            hm.Direct, space, f=lambda z: -loss(z, label), scores=scores, steps=STEPS, draws=2 * DRAWS, resolution=0.3
        )
