"""`hm.distributions`: torch's distributions with samples that carry a gradient."""

import math

import pytest
import torch
from torch import distributions as td

import hardmax as hm
from hardmax.distributions import Bernoulli, OneHotCategorical

INF = float("inf")


def random_logits(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_one_hot_categorical_equals_torch_where_torch_has_the_method():
    logits = random_logits(4, 3, 5)
    ours, theirs = OneHotCategorical(logits=logits), td.OneHotCategorical(logits=logits)
    z = theirs.sample((7,))
    for name in ("probs", "logits", "mean", "mode", "variance", "batch_shape", "event_shape"):
        assert torch.equal(torch.as_tensor(getattr(ours, name)), torch.as_tensor(getattr(theirs, name)))
    torch.testing.assert_close(ours.log_prob(z), theirs.log_prob(z))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    other = random_logits(3, 5).flip(-1)
    torch.testing.assert_close(
        td.kl_divergence(ours, OneHotCategorical(logits=other)),
        td.kl_divergence(theirs, td.OneHotCategorical(logits=other)),
    )
    torch.testing.assert_close(
        td.kl_divergence(td.Independent(ours, 1), td.Independent(OneHotCategorical(logits=other.expand(4, 3, 5)), 1)),
        td.kl_divergence(theirs, td.OneHotCategorical(logits=other)).sum(-1),
    )
    assert OneHotCategorical(probs=theirs.probs).log_prob(z).allclose(theirs.log_prob(z))


def test_bernoulli_equals_torch_where_torch_has_the_method():
    logits = random_logits(4, 3)
    ours, theirs = Bernoulli(logits=logits), td.Bernoulli(logits=logits)
    z = theirs.sample((7,))
    torch.testing.assert_close(ours.log_prob(z), theirs.log_prob(z))
    other = logits.flip(0)
    torch.testing.assert_close(
        td.kl_divergence(ours, Bernoulli(logits=other)), td.kl_divergence(theirs, td.Bernoulli(logits=other))
    )
    assert Bernoulli(0.3).rsample((2,)).shape == (2,)


@pytest.mark.parametrize("estimator", [None, hm.StraightThrough(), hm.GumbelSoftmax(0.7), hm.GumbelRao(4)], ids=str)
@pytest.mark.parametrize("kind", [OneHotCategorical, Bernoulli])
def test_rsample_is_hm_sample(kind, estimator):
    logits = random_logits(6, 4).requires_grad_()
    seeded = lambda: torch.Generator().manual_seed(3)  # noqa: E731
    distribution = kind(logits=logits, estimator=estimator, generator=seeded())
    z = distribution.rsample((2, 5))
    assert z.shape == (2, 5, 6, 4)
    if kind is Bernoulli:
        space, scores = hm.Binary(1), distribution.logits[..., None]
    else:
        space, scores = hm.Categorical(4), distribution.logits
    expected = hm.sample(scores, space, estimator or hm.ReinMax(), samples=10, generator=seeded())
    assert torch.equal(z, expected.view(z.shape))
    weights = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).view(z.shape)
    one, other = (
        torch.autograd.grad((value.view(z.shape) * weights).sum(), logits, retain_graph=True)[0]
        for value in (z, expected)
    )
    torch.testing.assert_close(one, other)
    assert (one != 0).any()


def test_samples_have_the_right_frequencies():
    logits = random_logits(3, 4)
    distribution = OneHotCategorical(logits=logits, generator=torch.Generator().manual_seed(0), unimix=0.2)
    expected = 0.8 * logits.softmax(-1) + 0.05
    torch.testing.assert_close(distribution.probs, expected)
    for draw in (distribution.sample, distribution.rsample):
        error = draw((20_000,)).mean(0) - expected
        assert (error.abs() < 5 * (expected * (1 - expected) / 20_000).sqrt()).all()
    bits = Bernoulli(logits=logits, generator=torch.Generator().manual_seed(0), unimix=0.2)
    expected = 0.8 * logits.sigmoid() + 0.1
    error = bits.sample((20_000,)).mean(0) - expected
    assert (error.abs() < 5 * (expected * (1 - expected) / 20_000).sqrt()).all()


def test_unimix_of_world_models():
    """32 variables of 32 values: the KL stays finite for any logits, and masks stay masks."""
    sharp = torch.full((2, 32, 32), -1e4)
    sharp[..., 0] = 1e4
    other = sharp.flip(-1)
    posterior, prior = (OneHotCategorical(logits=x, unimix=0.01) for x in (sharp, other))
    divergence = td.kl_divergence(td.Independent(posterior, 1), td.Independent(prior, 1))
    share = 0.99 + 0.01 / 32
    expected = 32 * (share * math.log(share * 3200) + 0.01 / 32 * math.log(0.01 / 32 / share))
    torch.testing.assert_close(divergence, torch.full((2,), expected), rtol=1e-4, atol=0)
    masked = OneHotCategorical(logits=torch.tensor([0.0, 3.0, -INF]), unimix=0.5)
    assert masked.probs[2] == 0
    torch.testing.assert_close(masked.probs[0], torch.tensor(0.25 + 0.5 / (1 + math.e**3)))
    torch.testing.assert_close(OneHotCategorical(logits=torch.randn(3), unimix=1.0).probs, torch.full((3,), 1 / 3))


def test_kl_with_masked_logits_has_a_finite_gradient():
    """torch's own KL gives NaN here; where q has no mass and p has, the KL is infinite."""
    logits = torch.tensor([0.5, -0.5, -INF])
    for kind in (td.OneHotCategorical, OneHotCategorical):
        leaf = logits.clone().requires_grad_()
        td.kl_divergence(kind(logits=leaf), kind(logits=torch.zeros(3))).backward()
        assert leaf.grad.isfinite().all() == (kind is OneHotCategorical)
    p = logits.softmax(-1)[:2]
    ours = td.kl_divergence(OneHotCategorical(logits=logits), OneHotCategorical(logits=torch.zeros(3)))
    torch.testing.assert_close(ours, (p * (p * 3).log()).sum())
    assert td.kl_divergence(OneHotCategorical(logits=torch.zeros(3)), OneHotCategorical(logits=logits)) == INF
    same = td.kl_divergence(OneHotCategorical(logits=logits), OneHotCategorical(logits=logits))
    torch.testing.assert_close(same, torch.tensor(0.0))


@pytest.mark.parametrize("kind", [OneHotCategorical, Bernoulli])
def test_expand_keeps_the_estimator(kind):
    distribution = kind(logits=random_logits(4), estimator=hm.StraightThrough())
    wide = distribution.expand((6,) if kind is OneHotCategorical else (6, 4))
    assert type(wide) is kind
    assert wide.estimator == hm.StraightThrough()
    assert wide.rsample((2,)).shape == (2, 6, 4)
    assert wide.rsample((0,)).shape == (0, 6, 4)


def test_bad_arguments():
    with pytest.raises(hm.ArgumentError, match="unimix must be from 0 to 1, got 2"):
        Bernoulli(logits=torch.zeros(3), unimix=2)
    with pytest.raises(ValueError, match=r"exactly|Either"):
        OneHotCategorical()
