"""The helpers must fail on wrong estimators and spaces: a test that cannot fail shows nothing."""

from dataclasses import dataclass, replace

import pytest
import torch

import hardmax as hm
from hardmax.testing import assert_bias_vanishes, assert_exact, assert_space, assert_unbiased

SPACES = [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3)]


@dataclass(frozen=True)
class Scaled(hm.AbstractEstimator):
    """Another estimator with its gradient multiplied: -1 a wrong sign, 2 a factor, epsilon a forgotten 1/epsilon."""

    inner: hm.AbstractEstimator
    factor: float

    def estimate(self, f, scores, space, noise):
        out = self.inner.estimate(f, scores, space, noise)
        v = out.value
        return replace(out, value=v.detach() + self.factor * (v - v.detach()))


@dataclass(frozen=True)
class SharedNoise(hm.AbstractEstimator):
    """Another estimator with the same noise for all categories, an error that we once made."""

    inner: hm.AbstractEstimator

    def estimate(self, f, scores, space, noise):
        return self.inner.estimate(f, scores, space, noise[..., :1].expand_as(noise))


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("factor", [-1.0, 2.0, 1.25])
@pytest.mark.parametrize("inner", [hm.Reinforce("leave-one-out"), hm.LocalExpectation()], ids=str)
def test_unbiased_catches_a_factor(space, factor, inner):
    with pytest.raises(AssertionError, match="is biased"):
        assert_unbiased(Scaled(inner, factor), space, samples=2)


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("inner", [hm.Reinforce("none"), hm.LocalExpectation()], ids=str)
def test_unbiased_catches_shared_noise(space, inner):
    with pytest.raises(AssertionError, match="is biased"):
        assert_unbiased(SharedNoise(inner), space)


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda e: Scaled(hm.Direct(e), -1.0),
        lambda e: Scaled(hm.Direct(e), 2.0),
        lambda e: Scaled(hm.Direct(e), e),
        lambda e: SharedNoise(hm.Direct(e)),
        lambda t: Scaled(hm.GumbelSoftmax(t), -1.0),
        lambda t: Scaled(hm.GumbelSoftmax(t), 2.0),
        lambda t: SharedNoise(hm.GumbelSoftmax(t)),
    ],
    ids=["sign", "factor", "no 1/epsilon", "shared", "gsm sign", "gsm factor", "gsm shared"],
)
def test_bias_vanishes_catches(space, wrong):
    with pytest.raises(AssertionError, match="does not fall"):
        assert_bias_vanishes(wrong, space, steps=(0.8, 0.4, 0.2))


def test_bias_vanishes_distinguishes_order_one_from_order_two():
    with pytest.raises(AssertionError, match="order 2"):
        assert_bias_vanishes(lambda e: hm.Direct(e), hm.Categorical(3, 2), steps=(0.8, 0.4, 0.2), order=2)
    ladder = assert_bias_vanishes(
        lambda e: hm.Direct(e, two_sided=True), hm.Categorical(3, 2), steps=(0.8, 0.4, 0.2), order=2
    )
    assert ladder.order > 1.7


def test_exact_catches_a_small_error():
    with pytest.raises(AssertionError, match="off by"):
        assert_exact(Scaled(hm.Exact(), 1 + 1e-8), hm.Binary(2))


def test_helpers_refuse_to_pass_blind():
    with pytest.raises(AssertionError, match="raise draws"):
        assert_unbiased(hm.Reinforce("none"), hm.Categorical(4), draws=100)
    with pytest.raises(AssertionError, match="raise draws"):
        assert_bias_vanishes(lambda e: hm.Direct(e), hm.Categorical(4), steps=(0.02, 0.01), draws=1000)
    with pytest.raises(hm.ArgumentError, match="falling"):
        assert_bias_vanishes(lambda e: hm.Direct(e), hm.Categorical(4), steps=(0.1, 0.2))


class TestSpaces:
    """`assert_space` on spaces with one planted error, each a subclass created at run time."""

    @staticmethod
    def make_broken(**methods):
        return type("Broken", (hm.Categorical,), methods)(3, 2)

    @pytest.mark.parametrize(
        ("name", "method"),
        [
            ("argmax", lambda self, scores: hm.Categorical(3, 2).argmax(-scores)),
            ("log_prob", lambda self, scores, z: (z * scores).sum((-2, -1))),
            ("entropy", lambda self, scores: -hm.Categorical(3, 2).entropy(scores)),
            ("kl", lambda self, scores, prior=None: hm.Categorical(3, 2).kl(scores)),
            ("marginals", lambda self, scores: scores.sigmoid()),
            ("relax", lambda self, scores, tau: (scores * tau).softmax(-1)),
            ("enumerate", lambda self, dtype=None, device=None: torch.zeros(9, 3, 2, dtype=dtype)),
            ("change", lambda self, z, index: z),
            ("parts", lambda self, z, gains: 2 * hm.Categorical(3, 2).parts(z, gains)),
        ],
    )
    def test_catches(self, name, method):
        with pytest.raises(AssertionError, match=name):
            assert_space(self.make_broken(**{name: method}))

    def test_catches_shared_noise_in_draw(self):
        def draw(self, scores, noise):
            return self.argmax(scores + noise[..., :1])

        with pytest.raises(AssertionError, match="draw"):
            assert_space(self.make_broken(draw=draw))
