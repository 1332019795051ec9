"""Exact bounds against brute force, importance-weighted bounds against their exact mean."""

import itertools
import math

import pytest
import torch
from torch import nn

import hardmax as hm

SPACES = [hm.Categorical(4), hm.Categorical(3, 1), hm.Categorical(3, 2), hm.Binary(3)]


def largest_z(draws, exact):
    """Return the largest |z| of the mean of draws `[draws, ...]`; above 5.5 is not chance (1e-6, 25 components)."""
    error = draws.std(0) / len(draws) ** 0.5
    return ((draws.mean(0) - exact) / error.clamp_min(1e-12)).abs().max().item()


def problem(space, batch=(4,)):
    """Return a decoder, images, scores and a prior, float64."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    decoder = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(space.event_shape), 5)).double()
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(random(*parameter.shape))
    x, scores, prior = (
        random(*batch, 5).sigmoid().round(),
        random(*batch, *space.score_shape),
        random(*space.score_shape),
    )
    return hm.BernoulliLikelihood(decoder, x, batch_dims=len(batch)), scores, prior


def by_hand(likelihood, scores, space, prior):
    """Return elbo, log p(x), reconstruction and KL of every example by loops over examples and members."""
    batch = scores.shape[: scores.dim() - len(space.score_shape)]
    images = likelihood.x.view(*batch, -1)
    members = space.enumerate(dtype=torch.float64)
    prior = torch.zeros(space.score_shape, dtype=torch.float64) if prior is None else prior
    rows = []
    for at in itertools.product(*map(range, batch)):
        weight_q, weight_p = ([math.exp((s * space.statistics(z)).sum()) for z in members] for s in (scores[at], prior))
        logits = likelihood.decoder(members)
        joint = kl = reconstruction = 0.0
        for q, p, pixels in zip(weight_q, weight_p, logits, strict=True):
            q, p = q / sum(weight_q), p / sum(weight_p)
            log_likelihood = sum(
                math.log(1 / (1 + math.exp(-(2 * x - 1) * logit)))
                for x, logit in zip(images[at].tolist(), pixels.tolist(), strict=True)
            )
            joint += p * math.exp(log_likelihood)
            reconstruction += q * log_likelihood
            kl += q * math.log(q / p)
        rows.append([reconstruction - kl, math.log(joint), reconstruction, kl])
    return torch.tensor(rows, dtype=torch.float64).T.view(4, *batch)


def stack_bounds(bounds):
    return torch.stack([bounds.elbo, bounds.log_likelihood, bounds.reconstruction, bounds.kl]).detach()


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_exact_bounds_are_brute_force(space, batch, prior):
    likelihood, scores, learned = problem(space, batch)
    prior = learned if prior else None
    bounds = hm.exact_bounds(likelihood, scores, space, prior=prior)
    torch.testing.assert_close(stack_bounds(bounds), by_hand(likelihood, scores, space, prior), rtol=1e-12, atol=1e-12)
    assert (bounds.elbo < bounds.log_likelihood).all()
    without = hm.exact_bounds(lambda z: likelihood(z), scores, space, prior=prior)
    torch.testing.assert_close(stack_bounds(without), stack_bounds(bounds), rtol=1e-12, atol=1e-12)


def test_the_bound_is_tight_where_q_is_the_posterior():
    space = hm.Categorical(4)
    likelihood, _, prior = problem(space)
    posterior = likelihood.table().detach() + prior
    bounds = hm.exact_bounds(likelihood, posterior, space, prior=prior)
    torch.testing.assert_close(bounds.elbo, bounds.log_likelihood, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_exact_bounds_have_the_gradient_of_the_exact_elbo(space):
    likelihood, scores, prior = problem(space)
    leaves = [scores.requires_grad_(), prior.requires_grad_(), *likelihood.decoder.parameters()]
    first = hm.exact_bounds(likelihood, scores, space, prior=prior).elbo
    second = hm.elbo(likelihood, scores, space, hm.Exact(), prior=prior).value
    torch.testing.assert_close(
        torch.autograd.grad(first.sum(), leaves), torch.autograd.grad(second.sum(), leaves), rtol=1e-10, atol=1e-10
    )


def mean_bound(likelihood, scores, space, prior, samples):
    """Return E[log 1/S sum_s p(x, z_s) / q(z_s)] from all S-tuples of z: `[B]`."""
    table = likelihood.pairs(space.enumerate(dtype=torch.float64)).detach()
    log_q, log_p = space.log_probs(scores), space.log_probs(prior)
    ratio = table + log_p - log_q
    tuples = torch.cartesian_prod(*[torch.arange(space.size)] * samples).view(-1, samples)
    weight = log_q[:, tuples].sum(-1).exp()
    return (weight * (ratio[:, tuples].logsumexp(-1) - math.log(samples))).sum(-1)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_importance_weighted_bounds_have_their_exact_mean(space):
    """For S = 1 (the ELBO), 2 and 3; the bounds rise, and stay below log p(x)."""
    draws = 50_000
    likelihood, scores, prior = problem(space, (1,))
    exact = hm.exact_bounds(likelihood, scores, space, prior=prior)
    means = [mean_bound(likelihood, scores, space, prior, samples) for samples in (1, 2, 3)]
    torch.testing.assert_close(means[0], exact.elbo.detach(), rtol=1e-12, atol=1e-12)
    copies = hm.BernoulliLikelihood(likelihood.decoder, likelihood.x.expand(draws, 5))
    for samples, mean in zip((1, 2, 3), means, strict=True):
        generator = torch.Generator().manual_seed(samples)
        bounds = hm.importance_weighted_bound(
            copies,
            scores.expand(draws, *space.score_shape),
            space,
            samples=samples,
            prior=prior,
            generator=generator,
        )
        assert largest_z(bounds.log_likelihood.detach(), mean) < 5.5
        assert largest_z(bounds.elbo.detach(), exact.elbo.detach()) < 5.5
        assert largest_z(bounds.reconstruction.detach(), exact.reconstruction.detach()) < 5.5
        torch.testing.assert_close(bounds.kl, exact.kl.expand(draws))
        torch.testing.assert_close(bounds.elbo, bounds.reconstruction - bounds.kl)
        # The test would detect the bound of another S (a forgotten log S is a larger error).
        assert largest_z(bounds.log_likelihood.detach(), means[samples % 3]) > 5.5
    assert means[0] < means[1] < means[2] < exact.log_likelihood


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_importance_weighted_bounds_rise_to_the_likelihood(space):
    """The mean weight is exactly p(x). At large S its logarithm is within its Monte Carlo error (delta method)."""
    likelihood, scores, _ = problem(space)
    exact = hm.exact_bounds(likelihood, scores, space)
    samples, generator = 100_000, torch.Generator().manual_seed(0)
    bounds = hm.importance_weighted_bound(likelihood, scores, space, samples=samples, generator=generator)
    log_q = space.log_probs(scores)
    log_p = space.log_probs(torch.zeros(space.score_shape, dtype=torch.float64))
    table = likelihood.pairs(space.enumerate(dtype=torch.float64))
    second_moment = (2 * (table + log_p) - log_q - 2 * exact.log_likelihood[:, None]).logsumexp(-1).exp()
    error = ((second_moment - 1) / samples).sqrt()
    assert ((bounds.log_likelihood - exact.log_likelihood) / error).abs().max() < 5.5
    assert (bounds.log_likelihood > exact.elbo).all()


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_batches(space, batch):
    likelihood, scores, prior = problem(space, batch)
    bounds = hm.importance_weighted_bound(likelihood, scores, space, samples=5, prior=prior)
    assert stack_bounds(bounds).shape == (4, *batch)


class Counted:
    """Calls another likelihood, and records the largest number of z in one call."""

    def __init__(self, likelihood):
        self._likelihood = likelihood
        self.most = 0

    def __call__(self, z):
        self.most = max(self.most, len(z))
        return self._likelihood(z)

    def pairs(self, z):
        self.most = max(self.most, len(z))
        return self._likelihood.pairs(z)


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_chunks_change_nothing_but_the_memory(space, chunk_size):
    likelihood, scores, prior = problem(space)
    counted = Counted(likelihood)
    whole = hm.exact_bounds(likelihood, scores, space, prior=prior)
    parts = hm.exact_bounds(counted, scores, space, prior=prior, chunk_size=chunk_size)
    torch.testing.assert_close(stack_bounds(parts), stack_bounds(whole), rtol=1e-12, atol=1e-12)
    assert counted.most <= chunk_size

    counted = Counted(likelihood)
    whole, parts = (
        hm.importance_weighted_bound(
            f,
            scores,
            space,
            samples=7,
            prior=prior,
            generator=torch.Generator().manual_seed(0),
            chunk_size=size,
        )
        for f, size in [(likelihood, None), (counted, chunk_size)]
    )
    torch.testing.assert_close(stack_bounds(parts), stack_bounds(whole), rtol=1e-12, atol=1e-12)
    assert counted.most <= chunk_size


def test_generators():
    space = hm.Binary(3)
    likelihood, scores, _ = problem(space)
    before = torch.get_rng_state()
    first, again, other = (
        hm.importance_weighted_bound(
            likelihood, scores, space, samples=2, generator=torch.Generator().manual_seed(seed)
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(stack_bounds(first), stack_bounds(again))
    assert not torch.equal(stack_bounds(first), stack_bounds(other))


def test_a_space_too_large_to_enumerate():
    with pytest.raises(hm.NotExactError, match="members"):
        hm.exact_bounds(pytest.fail, torch.zeros(2, 40), hm.Binary(40))
