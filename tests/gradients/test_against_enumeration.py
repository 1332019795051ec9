"""Every estimator on every space against the enumerated gradient, in float64, at one false-alarm rate."""

import pytest
import torch
from cases import SMALL_SPACES, UNBIASED, Rows

import hardmax as hm
from hardmax.testing import assert_bias_vanishes, assert_exact, assert_unbiased

single = [space for space in SMALL_SPACES if space.categories]


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_exact_is_exact(space):
    assert_exact(hm.Exact(), space, tolerance=1e-10)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(("estimator", "samples"), UNBIASED, ids=str)
def test_unbiased(estimator, samples, space):
    assert_unbiased(estimator, space, samples=samples)


@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(3, 2)], ids=str)
@pytest.mark.parametrize("samples", [1, 2])
def test_roulette_is_unbiased(space, samples):
    # With a floor this low and a rate this small, many variables are not evaluated, and the weights matter.
    estimator = hm.LocalExpectation(roulette=hm.Roulette(rate=2.0, floor=0.05))
    assert_unbiased(estimator, space, f=Rows(space), samples=samples, draws=400_000)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize("samples", [1, 2])
def test_direct_bias_vanishes(space, samples):
    assert_bias_vanishes(lambda e: hm.Direct(e), space, steps=(0.8, 0.4, 0.2), samples=samples, order=1)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_gumbel_softmax_bias_vanishes(space):
    ladder = assert_bias_vanishes(hm.GumbelSoftmax, space, steps=(1.0, 0.4, 0.15), order=0.8)
    assert ladder.bias[-1] < 0.3 * ladder.bias[0]


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_straight_through_is_unbiased_for_linear_f(space):
    weight = torch.randn(space.event_shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    event = tuple(range(-len(space.event_shape), 0))
    assert_unbiased(hm.StraightThrough(), space, f=lambda z: (z * weight).sum(event))


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_straight_through_is_biased_for_other_f(space):
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(hm.StraightThrough(), space)


def test_mean_baseline_in_a_small_batch():
    """A batch of three: the other examples' draws make the baseline, and no example's gradient is biased."""
    space, batch, draws = hm.Categorical(3), 3, 40_000
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    worth = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    noise = space.noise((draws, 1, batch), generator=generator, dtype=torch.float64)

    def value(scores, noise):
        f = lambda z: (z * worth).sum(-1)  # noqa: E731
        return hm.expectation(f, scores, space, hm.Reinforce("mean"), noise=noise).value.sum()

    estimates = torch.func.vmap(torch.func.grad(value), in_dims=(None, 0))(scores, noise)
    q = scores.softmax(-1)
    exact = q * (worth - (q * worth).sum(-1, keepdim=True))
    z = (estimates.mean(0) - exact) / (estimates.std(0) / draws**0.5)
    assert z.abs().max() < 5.5  # two-sided normal tail of 1e-6 shared by nine components
    assert (estimates.mean(0) * 1.5 - exact).abs().max() / (estimates.std(0) / draws**0.5).max() > 5.5  # would fail
