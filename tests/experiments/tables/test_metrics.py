"""Metrics have a better direction, a unit and digits; an error in one of them is noticed."""

import math
from dataclasses import replace

import pytest

from hardmax.experiments.tables.metrics import ACCURACY, BOUND, NLL, SAMPLED, Mean, Metric, describe_units


def test_means():
    assert BOUND.format_mean(Mean.from_values([2.0])) == "2.00"
    assert BOUND.format_mean(Mean.from_values([1.0, 3.0])) == "2.00 ± 1.00"
    assert BOUND.format_mean(Mean.from_values([math.nan])) == "not finite"
    assert BOUND.format_mean(Mean.from_values([math.inf, 1.0])) == "not finite"
    assert ACCURACY.format_mean(ACCURACY.mean([0.95, 0.97])) == "96.0 ± 1.0"


def test_which_way_is_better():
    assert BOUND.best([3.0, 1.0, 2.0]) == 1.0
    assert ACCURACY.best([3.0, 1.0, 2.0]) == 3.0
    assert BOUND.best([]) is None
    assert BOUND.is_better(1.0, 2.0)
    assert not BOUND.is_better(2.0, 1.0)
    assert ACCURACY.is_better(2.0, 1.0)
    assert not ACCURACY.is_better(1.0, 2.0)


@pytest.mark.parametrize(("metric", "ours", "theirs"), [
    (BOUND, 129.811, 129.813), (BOUND, 90.244, 90.24), (ACCURACY, 92.64, 92.6), (ACCURACY, 92.6, 92.6),
])  # fmt: skip
def test_what_is_written_the_same_is_no_better(metric, ours, theirs):
    assert metric.format(ours) == metric.format(theirs)
    assert not metric.is_better(ours, theirs)
    assert not metric.is_better(theirs, ours)


def test_differences():
    assert BOUND.format_difference(86.1, 90.24) == "−4.14"
    assert ACCURACY.format_difference(97.0, 95.4) == "+1.6"
    assert BOUND.format_difference(1.0, 1.001) == "+0.00"


def test_planted_errors():
    """A percent forgotten and a sign turned round make another table."""
    shares = [0.95, 0.97]
    forgotten, turned = replace(ACCURACY, scale=1.0), replace(ACCURACY, higher=False)
    assert ACCURACY.is_better(ACCURACY.mean(shares).value, 92.6)
    assert not forgotten.is_better(forgotten.mean(shares).value, 92.6)
    assert not turned.is_better(turned.mean(shares).value, 92.6)


def test_units():
    assert describe_units([BOUND, NLL]) == "In nats after the last epoch, lower is better"
    assert describe_units([ACCURACY, BOUND, SAMPLED]) == (
        "After the last epoch: accuracy and accuracy of a sample in percent, higher is better; −ELBO in nats, lower is "
        "better"
    )
    bare = [Metric("ssim", "SSIM", "", higher=True), Metric("classes", "classes", "", compared=False)]
    assert describe_units([BOUND, *bare]) == (
        "After the last epoch: −ELBO in nats, lower is better; SSIM, higher is better; classes"
    )
