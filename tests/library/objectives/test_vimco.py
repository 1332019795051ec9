"""The importance-weighted bound and VIMCO's gradient, against enumeration of all pairs and triples of z."""

from itertools import product
from math import log

import pytest
import torch

import hardmax as hm

SPACES = [hm.Binary(2), hm.Categorical(3), hm.Categorical(2, 2), hm.PairwiseBinary(2)]


def problem(space):
    """Return scores, prior, a table of values, and an f that looks its values up in the table."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    prior = torch.randn(space.score_shape, generator=generator, dtype=torch.float64)
    worth = 2 * torch.randn(space.size, generator=generator, dtype=torch.float64)
    members = space.enumerate(dtype=torch.float64).flatten(1)
    event = -len(space.event_shape)

    def f(z):
        return (z.flatten(event)[..., None, :] == members).all(-1).double() @ worth

    return scores, prior, worth, f


def enumerate_bound(space, scores, prior, worth, samples):
    """Return E[L] and its gradient from every tuple of members."""
    scores = scores.clone().requires_grad_()
    log_q, log_p = space.log_probs(scores), space.log_probs(prior)
    weights = worth + log_p - log_q
    total = scores.new_zeros(())
    for members in product(range(space.size), repeat=samples):
        index = list(members)
        total = total + log_q[index].sum().exp() * (weights[index].logsumexp(0) - log(samples))
    return total.detach(), torch.autograd.grad(total, scores)[0]


def estimate_bound(space, f, scores, prior, samples, draws=60_000):
    copies = scores.expand(draws, *scores.shape).clone().requires_grad_()
    generator = torch.Generator().manual_seed(1)
    out = hm.importance_weighted_elbo(f, copies, space, samples=samples, prior=prior, generator=generator)
    out.value.sum().backward()
    return out, copies.grad


@pytest.mark.parametrize("samples", [2, 3])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_value_and_gradient_are_unbiased(space, samples):
    scores, prior, worth, f = problem(space)
    value, gradient = enumerate_bound(space, scores, prior, worth, samples)
    out, estimates = estimate_bound(space, f, scores, prior, samples)
    root = len(estimates) ** 0.5
    values = out.value.detach()
    assert float((values.mean() - value) / (values.std() / root)) == pytest.approx(0, abs=5.5)
    z = (estimates.mean(0) - gradient) / (estimates.std(0) / root)
    assert float(z.abs().max()) < 5.5
    # Without the term of the weights themselves, or with half of it, the test would fail.
    without = estimates.mean(0) + _average_weight_term(space, f, scores, prior, samples)
    assert float(((without - gradient) / (estimates.std(0) / root)).abs().max()) > 5.5
    assert out.evaluations == samples


def _average_weight_term(space, f, scores, prior, samples, draws=20_000):
    leaf = scores.expand(draws, *scores.shape).clone().requires_grad_()
    z = space.sample(leaf, samples, generator=torch.Generator().manual_seed(2))
    log_q = space.log_prob(leaf, z)
    weights = (f(z) + space.log_prob(prior, z) - log_q).detach().softmax(0)
    return torch.autograd.grad((weights * log_q).sum(), leaf)[0].mean(0)


def test_the_bound_is_tighter_with_more_samples():
    space = hm.Binary(6)
    generator = torch.Generator().manual_seed(0)
    decoder = torch.nn.Linear(6, 20)
    x = torch.rand(500, 20, generator=generator).round()
    scores = torch.zeros(500, 6)
    likelihood = hm.BernoulliLikelihood(decoder, x)
    exact = hm.exact_bounds(likelihood, scores, space)
    values = [
        hm.importance_weighted_elbo(likelihood, scores, space, samples=samples, generator=generator).value.mean()
        for samples in (2, 8, 64)
    ]
    assert exact.elbo.mean() < values[0] < values[1] < values[2] < exact.log_likelihood.mean() + 0.05


def test_the_decoder_gets_the_ordinary_gradient():
    space, weight = hm.Categorical(3), torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64, requires_grad=True)
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = space.noise((5, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    out = hm.importance_weighted_elbo(lambda z: z @ weight, scores, space, noise=noise)
    weights = out.z @ weight - log(3) - space.log_prob(scores, out.z)
    expected = (weights.logsumexp(0) - log(5)).sum()
    torch.testing.assert_close(out.value.sum(), expected)
    torch.testing.assert_close(
        torch.autograd.grad(out.value.sum(), weight)[0], torch.autograd.grad(expected, weight)[0]
    )


def test_errors():
    with pytest.raises(hm.ArgumentError, match="two samples"):
        hm.importance_weighted_elbo(lambda z: z.sum(-1), torch.zeros(3), hm.Binary(3), samples=1)
    with pytest.raises(hm.NotExactError, match="does not offer"):
        hm.importance_weighted_elbo(lambda z: z.sum(-1), torch.zeros(465), hm.PairwiseBinary(30))
