"""Which estimator is used when, and the learning rate."""

import math

import pytest

import hardmax as hm
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.spaces.registry import make_space
from hardmax.training.estimators import choose_estimator, explain_estimator
from hardmax.training.state import schedule_rate


@pytest.mark.parametrize(
    ("options", "space"),
    [
        ({"categories": 7}, hm.Categorical(7)),
        ({"categories": 7, "variables": 3}, hm.Categorical(7, 3)),
        ({"space": "binary", "variables": 5}, hm.Binary(5)),
        ({"space": "pairwise", "variables": 5}, hm.PairwiseBinary(5)),
        ({"space": "pairwise", "variables": 4, "supermodular": True}, hm.PairwiseBinary(4, supermodular=True)),
        (
            {"space": "pairwise", "variables": 3, "graph": "chain", "solver": "heuristic"},
            hm.PairwiseBinary(3, [(0, 1), (1, 2)], solver="heuristic"),
        ),
        ({"space": "subset", "variables": 5, "chosen": 2}, hm.Subset(5, 2)),
        ({"space": "chain", "variables": 5, "categories": 3}, hm.Chain(5, 3)),
        ({"space": "permutation", "variables": 5}, hm.Permutation(5)),
        ({"space": "spanning-tree", "variables": 5}, hm.SpanningTree(5)),
    ],
)
def test_space(options, space):
    assert make_space(DiscreteConfig(**options)) == space


def test_auto_on_one_categorical_is_direct_then_exact():
    config, space = DiscreteConfig(direct_epochs=3), hm.Categorical(10)
    assert choose_estimator(config, space, 2, 0) == hm.AveragedDirect(1.0)
    assert choose_estimator(config, space, 3, 0) == hm.Exact()
    assert "3 epochs" in explain_estimator(config, space)
    assert DiscreteConfig(epochs=1).epochs_of_direct == 1
    assert DiscreteConfig(epochs=40).epochs_of_direct == 20


def test_auto_on_several_variables_is_local_expectation_with_roulette():
    config = DiscreteConfig(space="binary", variables=5)
    assert choose_estimator(config, hm.Binary(5), 0, 0) == hm.LocalExpectation(roulette=True)
    assert "roulette" in explain_estimator(config, hm.Binary(5))


def test_auto_on_structured_spaces():
    small, large = DiscreteConfig(space="pairwise", variables=15), DiscreteConfig(space="pairwise", variables=30)
    assert choose_estimator(small, make_space(small), 0, 0) == hm.GibbsCovariance()
    assert choose_estimator(large, make_space(large), 0, 0) == hm.ConditionalGradient(roulette=True)
    assert "no bias" in explain_estimator(small, make_space(small))
    assert "too many" in explain_estimator(large, make_space(large))


def test_options_of_pairwise_bits_belong_to_them():
    for option in ({"supermodular": True}, {"graph": "chain"}, {"solver": "min-cut"}):
        with pytest.raises(hm.ArgumentError, match="--space pairwise"):
            DiscreteConfig(space="binary", variables=5, **option)


@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        ("gibbs-covariance", hm.GibbsCovariance()),
        ("conditional", hm.ConditionalGradient(roulette=True)),
        ("direct", hm.Direct(1.0)),
        ("exact", hm.Exact()),
        ("gumbel-softmax", hm.GumbelSoftmax(1.0)),
        ("straight-through", hm.StraightThrough()),
        ("reinforce", hm.Reinforce("mean")),
        ("local-expectation", hm.LocalExpectation(roulette=False)),
    ],
)
def test_by_name(name, estimator):
    config = DiscreteConfig(estimator=name)
    assert choose_estimator(config, hm.Categorical(10), 0, 0) == estimator
    assert name in explain_estimator(config, hm.Categorical(10))


def test_the_paper_s_annealing():
    """epsilon = max(0.1, exp(-1e-5 t)), tau = max(0.5, exp(-1e-5 t)), updated every 1,000 steps."""
    space = hm.Categorical(10)
    direct = DiscreteConfig(estimator="direct", anneal=1e-5)
    assert choose_estimator(direct, space, 0, 999).epsilon == 1.0
    assert choose_estimator(direct, space, 0, 1999).epsilon == pytest.approx(math.exp(-1e-2))
    assert choose_estimator(direct, space, 0, 10**6).epsilon == 0.1
    soft = DiscreteConfig(estimator="gumbel-softmax", anneal=1e-5)
    assert choose_estimator(soft, space, 0, 10**6).tau == 0.5


def test_a_setting_below_the_floor_stays():
    config = DiscreteConfig(estimator="direct", epsilon=0.05, anneal=1.0)
    assert choose_estimator(config, hm.Categorical(10), 0, 10**6).epsilon == 0.05


def test_learning_rate():
    config = DiscreteConfig(lr=0.1)
    assert [schedule_rate(config, step, 100) for step in (0, 50, 75, 100)] == pytest.approx([1, 1, 0.5, 0])
    assert schedule_rate(DiscreteConfig(lr=0.1, lr_schedule="constant"), 99, 100) == 1
    assert DiscreteConfig().learning_rate == 1e-3
    assert DiscreteConfig(space="binary", variables=15).learning_rate == 3e-3
    assert DiscreteConfig(space="pairwise", variables=15).learning_rate == 2e-3


@pytest.mark.parametrize("options", [
    {"epochs": 0}, {"epsilon": 0.0}, {"lr": -1.0}, {"mixed_precision": True},
    {"estimator": "reinforce", "baseline": "leave-one-out"},
])  # fmt: skip
def test_bad_configurations(options):
    with pytest.raises(hm.ArgumentError):
        DiscreteConfig(**options)
