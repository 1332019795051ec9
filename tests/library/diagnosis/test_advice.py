"""Which estimator is recommended, by rows made up for the purpose."""

import pytest

import hardmax as hm
from hardmax.diagnosis import Quality, candidates
from hardmax.diagnosis.advice import recommend
from hardmax.estimators.registry import Settings, make_estimator


def row(name, bias=0.0, deviation=1.0, seconds=1e-3, evaluations=10.0, biased=None):
    return Quality(
        name=name,
        estimator=hm.Direct(),
        samples=1,
        bias=bias,
        floor=0.01,
        biased=bias > 0 if biased is None else biased,
        deviation=deviation,
        cosine=0.5,
        evaluations=evaluations,
        solves=1.0,
        seconds=seconds,
    )


def chosen(*rows, batch=100):
    found = recommend(rows, 10.0, batch)
    return found.name, found.reason


def test_error():
    assert row("a", bias=0.3, deviation=4.0).error(100) == pytest.approx(0.5)


def test_the_least_error():
    """Noise counts for less the larger the batch, bias does not."""
    rows = [row("noisy", deviation=2.0), row("biased", bias=0.3, deviation=0.1)]
    assert chosen(*rows, batch=100)[0] == "noisy"
    assert chosen(*rows, batch=10)[0] == "biased"
    _, reason = chosen(*rows)
    assert "0.2 of the gradient" in reason
    assert "no bias seen, standard deviation 2" in reason
    assert "next best is biased with 0.3" in reason


@pytest.mark.parametrize(("deviation", "name"), [(1.04, "unbiased"), (1.07, "biased")])
def test_no_bias_is_preferred_within_a_tenth(deviation, name):
    """Of the squared error: 1.04^2 is within a tenth of 1, 1.07^2 is not."""
    rows = [row("biased", bias=0.05, deviation=(1 - 0.25) ** 0.5), row("unbiased", deviation=deviation)]
    found, reason = chosen(*rows)
    assert found == name
    assert ("biased has 0.1, but a bias" in reason) == (name == "unbiased")


def test_equal_evaluations():
    """What takes more than the others is not chosen, but told."""
    found, reason = chosen(row("exact", deviation=0.0, evaluations=1000.0), row("other"))
    assert found == "other"
    assert "more evaluations: exact (1000)" in reason
    assert chosen(row("only", evaluations=1000.0))[0] == "only"


@pytest.mark.parametrize(("seconds", "deviation", "told"), [(1e-3, 1.2, True), (1e-3, 1.3, False), (2e-3, 1.2, False)])
def test_time_where_another_is_nearly_as_good(seconds, deviation, told):
    _, reason = chosen(row("best", seconds=3.1e-3), row("quick", deviation=deviation, seconds=seconds))
    assert ("quick is nearly as good" in reason) == told


def test_rounding_decides_nothing():
    """Two without an error: the quicker one."""
    rows = [row("slow", deviation=1e-12, seconds=2e-3), row("quick", bias=1e-8, deviation=0.0, biased=False)]
    found, reason = chosen(*rows)
    assert found == "quick"
    assert "no noise" in reason


def test_nothing_to_choose_from():
    assert recommend([], 10.0) is None


@pytest.mark.parametrize(
    "space", [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3), hm.PairwiseBinary(3), hm.Subset(4, 2)]
)
def test_candidates_are_called_as_on_the_command_line(space):
    for name, estimator in candidates(space).items():
        family = name.split(",")[0]
        assert type(make_estimator(family, Settings(space))) is type(estimator), name
