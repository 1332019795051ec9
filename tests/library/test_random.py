"""Gumbel-max, the Gumbel law and the Concrete density, and noise at its edges."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest
from torch.distributions import Gumbel, RelaxedOneHotCategorical

import hardmax as hm
from hardmax import random
from hardmax.random import draw_gumbel, draw_logistic, transform_to_gumbel

HALF = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
def test_gumbel_max_frequencies_are_softmax(dtype):
    space = hm.Categorical(6)
    scores = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0], dtype=dtype)
    counts = space.sample(scores, 200_000, generator=torch.Generator().manual_seed(0)).double().sum(0)
    assert chisquare(counts, 200_000 * scores.double().softmax(0)).pvalue > 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
@pytest.mark.parametrize("space", [hm.Categorical(6), hm.Categorical(6, 3)], ids=str)
def test_draws_from_one_uniform_number_per_variable(space, dtype):
    """By the inverse of the CDF; each variable has its own frequencies."""
    scores = torch.randn(space.score_shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    noise = space.draw_noise((100_000,), torch.Generator().manual_seed(0), dtype=dtype)
    assert noise.shape == (100_000, *space.draw_shape)
    z = space.draw(scores, noise)
    assert z.dtype == dtype
    assert (z.sum(-1) == 1).all()
    for counts, q in zip(z.double().sum(0).view(-1, 6), scores.double().softmax(-1).view(-1, 6), strict=True):
        assert chisquare(counts, 100_000 * q).pvalue > 1e-6


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("k", [4, 1000])
def test_values_of_probability_zero_are_never_drawn(uniform, k):
    """Also at the edges of the uniform number, where the last value would be drawn after rounding."""
    scores = torch.full((k,), -1e4)
    scores[1 : k - 1] = torch.randn(k - 2, generator=torch.Generator().manual_seed(0))
    z = hm.Categorical(k).draw(scores, torch.full((1, 1), uniform))
    assert scores[z[0].argmax()] > -1e4


def test_one_noise_for_all_categories_would_not_be():
    """The test above can fail: with shared noise (a slip of the lecture notes) the arg max is always the same."""
    scores = torch.tensor([-1.0, 0.0, 1.0])
    z = hm.Categorical(3).argmax(scores + draw_gumbel((1000, 1)))
    assert (z == z[0]).all()


def test_gumbel_follows_its_law():
    law = Gumbel(torch.tensor(0.0, dtype=torch.float64), 1.0)
    x = torch.linspace(-3, 8, 50, dtype=torch.float64)
    torch.testing.assert_close(law.log_prob(x), -(x + (-x).exp()))
    torch.testing.assert_close(law.cdf(x), (-(-x).exp()).exp())
    u = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    torch.testing.assert_close(law.icdf(u), -(-u.log()).log())
    noise = draw_gumbel((100_000,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert kstest(noise, lambda x: law.cdf(torch.as_tensor(x)).numpy()).pvalue > 1e-6


def test_logistic_follows_its_law():
    noise = draw_logistic((100_000,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert kstest(noise, "logistic").pvalue > 1e-6


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_concrete_density_integrates_to_one_and_has_the_corrected_form(tau):
    scores = torch.tensor([0.3, -0.5, 1.0], dtype=torch.float64)
    law = RelaxedOneHotCategorical(torch.tensor(tau), logits=scores, validate_args=False)

    # In x = softmax(a, b, 0) the integrand is smooth, and dx = prod(x) da db.
    line = torch.linspace(-40, 40, 1601, dtype=torch.float64)
    logits = torch.cartesian_prod(line, line, torch.zeros(1, dtype=torch.float64))
    mass = (law.log_prob(logits.softmax(-1)) + logits.log_softmax(-1).sum(-1)).exp()
    assert (mass.sum() * (line[1] - line[0]) ** 2).item() == pytest.approx(1, abs=1e-6)

    x = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    alpha = scores.exp()
    corrected = 2 * tau**2 * (alpha * x ** (-tau - 1)).prod() / (alpha * x**-tau).sum() ** 3
    torch.testing.assert_close(law.log_prob(x).exp(), corrected)


@pytest.mark.parametrize("tau", [0.4, 1.5])
def test_gumbel_softmax_samples_the_concrete_density(tau):
    """With two categories the density has one dimension: a Kolmogorov-Smirnov test against its integral."""
    scores = torch.tensor([0.7, -0.2], dtype=torch.float64)
    law = RelaxedOneHotCategorical(torch.tensor(tau), logits=scores, validate_args=False)
    logit = torch.linspace(-60, 60, 100_001, dtype=torch.float64)
    x = torch.stack([logit, -logit], -1).sigmoid()
    cdf = torch.cumulative_trapezoid(law.log_prob(x).exp() * x.prod(-1), logit)

    estimator, generator = hm.GumbelSoftmax(tau), torch.Generator().manual_seed(0)
    z = hm.sample(scores, hm.Categorical(2), estimator, samples=20_000, generator=generator)
    assert kstest(z[:, 0].logit(), lambda at: np.interp(at, logit[1:], cdf)).pvalue > 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_of_the_exponential_give_finite_noise(dtype):
    info = torch.finfo(dtype)
    edges = torch.tensor([0.0, info.smallest_normal, info.tiny / 4, 1.0, 1e3, info.max], dtype=dtype)
    noise = transform_to_gumbel(edges)
    assert noise.isfinite().all()
    assert (noise[:-1] >= noise[1:]).all()
    for half in HALF:
        assert noise.to(half).isfinite().all()


@pytest.mark.parametrize("space", [hm.Categorical(3), hm.Binary(3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_an_extreme_generator_gives_finite_noise_and_samples(space, dtype, monkeypatch):
    """Every exponential draw is exactly zero, or the largest a uniform of 24 bits can give."""
    scores = torch.tensor([-5.0, 0.0, 5.0], dtype=dtype)
    for extreme in (0.0, 88.0):
        monkeypatch.setattr(
            torch.Tensor, "exponential_", lambda self, lambd=1, *, generator=None, e=extreme: self.fill_(e)
        )
        noise = space.noise((2,), dtype=dtype)
        assert noise.isfinite().all()
        assert noise.to(dtype).isfinite().all()
        for estimator in (hm.GumbelSoftmax(0.1), hm.StraightThrough()):
            assert hm.sample(scores, space, estimator).isfinite().all()


def test_half_precision_noise_is_wider():
    assert draw_gumbel((2,), dtype=torch.float16).dtype == torch.float32
    assert draw_gumbel((2,), dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("name", random._RENAMED)
def test_former_names_warn(name):
    with pytest.warns(DeprecationWarning, match=f"use hardmax.random.{random._RENAMED[name]}"):
        assert getattr(random, name) is getattr(random, random._RENAMED[name])
