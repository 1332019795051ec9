"""Which estimator is recommended, with rows made up for the purpose."""

import pytest

import hardmax as hm
from hardmax.diagnosis import Quality, list_candidates
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


def choose(*rows, batch=100):
    advice = recommend(rows, 10.0, batch)
    return advice.name, advice.reason


def test_error():
    assert row("a", bias=0.3, deviation=4.0).error(100) == pytest.approx(0.5)


def test_the_least_error():
    """Noise counts for less the larger the batch, bias does not."""
    rows = [row("noisy", deviation=2.0), row("biased", bias=0.3, deviation=0.1)]
    assert choose(*rows, batch=100)[0] == "noisy"
    assert choose(*rows, batch=10)[0] == "biased"
    _, reason = choose(*rows)
    assert "0.2 of the gradient" in reason
    assert "no bias seen, standard deviation 2" in reason
    assert "next best is biased with 0.3" in reason


@pytest.mark.parametrize(("deviation", "name"), [(1.04, "unbiased"), (1.07, "biased")])
def test_no_bias_is_preferred_within_a_tenth(deviation, name):
    """Of the squared error: 1.04^2 is within a tenth of 1, 1.07^2 is not."""
    rows = [row("biased", bias=0.05, deviation=(1 - 0.25) ** 0.5), row("unbiased", deviation=deviation)]
    recommended, reason = choose(*rows)
    assert recommended == name
    assert ("biased has 0.1, but a bias" in reason) == (name == "unbiased")


def test_equal_evaluations():
    """An estimator that takes more evaluations than the budget is not chosen, but mentioned."""
    name, reason = choose(row("exact", deviation=0.0, evaluations=1000.0), row("other"))
    assert name == "other"
    assert "more evaluations: exact (1000)" in reason
    assert choose(row("only", evaluations=1000.0))[0] == "only"


@pytest.mark.parametrize(
    ("seconds", "deviation", "mentioned"), [(1e-3, 1.2, True), (1e-3, 1.3, False), (2e-3, 1.2, False)]
)
def test_time_where_another_is_nearly_as_good(seconds, deviation, mentioned):
    _, reason = choose(row("best", seconds=3.1e-3), row("quick", deviation=deviation, seconds=seconds))
    assert ("quick is nearly as good" in reason) == mentioned


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (8e-3, "One estimate of the batch takes 2 ms. The next best is other with 0.12, in 8 ms (4 times as long)."),
        (
            5e-4,
            "One estimate of the batch takes 2 ms. The next best is other with 0.12, in 0.5 ms (0.25 times as long).",
        ),
        (2.1e-3, "The next best is other with 0.12, in 2.1 ms (about as long)."),
    ],
)
def test_the_price_in_time(seconds, words):
    advice = recommend([row("best", seconds=2e-3), row("other", deviation=1.2, seconds=seconds)], 10.0)
    assert words in advice.reason
    assert advice.seconds == 2e-3
    assert advice.to_dict()["seconds"] == 2e-3


def test_rounding_decides_nothing():
    """Of two estimators without an error, the faster one is chosen."""
    rows = [row("slow", deviation=1e-12, seconds=2e-3), row("quick", bias=1e-8, deviation=0.0, biased=False)]
    name, reason = choose(*rows)
    assert name == "quick"
    assert "no noise" in reason


def test_nothing_to_choose_from():
    assert recommend([], 10.0) is None


@pytest.mark.parametrize(
    "space", [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3), hm.PairwiseBinary(3), hm.Subset(4, 2)]
)
def test_candidates_are_called_as_on_the_command_line(space):
    for name, estimator in list_candidates(space).items():
        family = name.split(",")[0]
        assert type(make_estimator(family, Settings(space))) is type(estimator), name
