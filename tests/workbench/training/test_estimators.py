"""Every estimator by its name on the command line: it trains, and its own parameters are saved."""

from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import train
from hardmax.estimators.registry import ESTIMATORS, Settings, make_estimator
from hardmax.nn import ConvDecoder, MLPDecoder
from hardmax.spaces.registry import make_space
from hardmax.training.estimators import choose_estimator, explain_cost, explain_estimator
from hardmax.training.loop import Observer
from hardmax.training.run_folder import read_rows

NAMES = [name for name in ESTIMATORS if name != "exact"]
CATEGORICAL = {"arsm", "shortlist-direct"}
AT_LEAST_TWO = {"unordered-set", "double-control-variates", "rodeo"}
BITS = {"arm", "double-control-variates", "rodeo"}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Return the path of a file with four patterns with noise."""
    generator = np.random.default_rng(0)
    patterns = generator.integers(0, 2, (4, 8, 8))
    noise = generator.random((600, 8, 8)) < 0.05
    path = tmp_path_factory.mktemp("data") / "patterns.npy"
    np.save(path, ((patterns[generator.integers(0, 4, 600)] ^ noise) * 255).astype(np.uint8))
    return str(path)


def config_of(name, images, tmp_path, **options):
    space = "categorical" if name in CATEGORICAL else "binary"
    options = {"space": space, "variables": 4, "categories": 3, **options}
    return DiscreteConfig(
        data=images,
        out=str(tmp_path / "run"),
        estimator=name,
        samples=2 if name in AT_LEAST_TWO else None,
        hidden=32,
        lr=1e-2,
        **{"epochs": 6, **options},
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_trains(name, images, tmp_path):
    """The bound rises well above that of the first epoch, and the evaluations are reported."""
    config = config_of(name, images, tmp_path)
    rows = []
    assert train(config, Observer(on_epoch=rows.append))
    first, last = -rows[0][2]["elbo"], -rows[-1][2]["elbo"]
    assert last < first - 3
    assert read_rows(tmp_path / "run" / "metrics.jsonl")[0]["evaluations"] >= 1


@pytest.mark.parametrize("name", sorted(set(NAMES) - BITS - {"gibbs-covariance", "conditional"}))
def test_categories_are_served_too(name):
    config = DiscreteConfig(estimator=name, variables=4, categories=3)
    space = make_space(config)
    make_estimator(name, Settings(space, epsilon=0.5, tau=0.5)).check(space, 2)


def test_epsilon_and_tau_arrive():
    bits, categories = hm.Binary(4), hm.Categorical(3, 4)
    for name, space, expected in [
        ("averaged-direct", bits, hm.AveragedDirect(0.3)),
        ("debiased-direct", bits, hm.DebiasedDirect(0.3)),
        ("implicit-mle", bits, hm.ImplicitMLE(0.3)),
        ("gumbel-rao", bits, hm.GumbelRao(tau=0.7)),
        ("reinmax", bits, hm.ReinMax(0.7)),
        ("reinmax-rao", bits, hm.ReinMaxRao(tau=0.7)),
        ("reinmax-cv", bits, hm.ReinMaxCV(tau=0.7)),
        ("straight-through", bits, hm.StraightThrough(0.7)),
        ("disarm", bits, hm.DisArm()),
        ("disarm", categories, hm.DisArmCategorical()),
    ]:
        assert choose_estimator(DiscreteConfig(estimator=name, epsilon=0.3, tau=0.7), space, 0, 0) == expected
    rebar = choose_estimator(DiscreteConfig(estimator="rebar", epsilon=0.3, tau=0.7), bits, 0, 0)
    assert isinstance(rebar, hm.Rebar)
    assert (rebar.tau, rebar.learned) == (0.7, True)


def test_what_an_estimator_learns_survives_a_stop(images, tmp_path):
    """A run that is stopped within an epoch and resumed has the same rows as one that was not stopped."""
    complete = config_of("rebar", images, tmp_path / "whole", epochs=2)
    train(complete)
    calls = 0

    def stop():
        nonlocal calls
        calls += 1
        return calls == 7

    halves = config_of("rebar", images, tmp_path / "halves", epochs=2)
    assert not train(halves, Observer(should_stop=stop))
    assert train(replace(halves, resume=True))
    texts = [(tmp_path / name / "run" / "metrics.jsonl").read_text() for name in ("whole", "halves")]
    assert texts[0] == texts[1]


def test_an_expensive_estimator_is_named_after_the_first_epoch():
    conv = ConvDecoder((1, 40, 40), hm.Binary(25))
    assert "26 times per image and step" in explain_cost(26.0, conv)
    assert explain_cost(16.0, conv) == ""
    assert explain_cost(26.0, MLPDecoder((1, 6, 6), hm.Binary(25))) == ""


def test_auto_of_a_convolutional_decoder():
    """Samples instead of single changes, which would take a pass of the decoder each."""
    config = DiscreteConfig(space="binary", variables=25)
    conv, mlp = ConvDecoder((1, 40, 40), hm.Binary(25)), MLPDecoder((1, 6, 6), hm.Binary(25))
    assert choose_estimator(config, hm.Binary(25), 0, 0, decoder=conv) == hm.GibbsCovariance()
    assert choose_estimator(config, hm.Binary(19), 0, 0, decoder=conv) == hm.LocalExpectation(roulette=True)
    assert choose_estimator(config, hm.Binary(25), 0, 0, decoder=mlp) == hm.LocalExpectation(roulette=True)
    assert "16 samples, since local expectation would take up to 26" in explain_estimator(config, hm.Binary(25), conv)
