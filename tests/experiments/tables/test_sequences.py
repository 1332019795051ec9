"""The verdict in the table of sequence GANs: how estimators fail."""

import pytest

from hardmax.experiments.pages.training_tables import mark_best
from hardmax.experiments.tables.metrics import ENTROPY, Mean
from hardmax.experiments.tables.registry import find_experiment
from hardmax.experiments.tables.sequences import judge_seeds


def end(validity, coverage):
    return {"validity": validity, "coverage": coverage}


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ([end(0.95, 0.8), end(0.99, 1.0)], "reached by 2 of 2"),
        ([end(0.99, 0.99), end(0.9499, 0.9)], "reached by 1 of 2; writes invalid ones 1"),
        (
            [end(0.99, 0.5), end(1.0, 0.01), end(0.5, 0.5)],
            "reached by 0 of 3; leaves sentences out 2; partly learned 1",
        ),
        ([end(0.0, 0.0)], "reached by 0 of 1; collapsed 1"),
    ],
)
def test_verdict(ends, verdict):
    assert judge_seeds(ends) == verdict


def test_nothing_is_best_where_more_is_not_better():
    entries = mark_best([Mean(1.0, None), Mean(2.0, None)], ENTROPY)
    assert not any(entry.best for entry in entries)


def test_every_method_is_tried_with_every_discriminator():
    experiment = find_experiment("sequences")
    problems = {cell.problem for cell in experiment.cells}
    for method in ("averaged direct", "ReinMax", "REINFORCE", "Gumbel-softmax"):
        assert {cell.problem for cell in experiment.cells if cell.method == method} == problems
    configs = [experiment.make_config(cell, 0) for cell in experiment.cells]
    assert len({repr(config) for config in configs}) == len(configs)
