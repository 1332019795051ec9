"""What the runs of a cell come to: numbers of epochs, and seconds."""

from dataclasses import replace

import pytest

from hardmax.experiments.pages.summary import summarize
from hardmax.experiments.rows import identify_run
from hardmax.experiments.tables.metrics import ACCURACY, BOUND, NLL, SAMPLED, VALIDATION_BOUND
from hardmax.experiments.tables.registry import find_experiment


@pytest.fixture
def summary_of(tmp_path):
    """From what rows say of seconds to the summary of their cell."""
    experiment = find_experiment("figure3")
    runs = experiment.plan(tmp_path, only=[experiment.cells[0].name])

    def make(*own_fields, metrics=(BOUND, NLL)):
        test = [{"epoch": 1, "negative_elbo": 2.0, "nll": 1.0}, {"epoch": 2, "negative_elbo": 1.5, "nll": 1.0}]
        rows = [
            {
                "cell": run.cell.name,
                "seed": run.seed,
                "config": identify_run(run.config),
                "test": test,
                "command": "",
                **own,
            }
            for run, own in zip(runs, own_fields, strict=False)
        ]
        return summarize(replace(experiment, metrics=metrics), runs, rows)[runs[0].cell.name]

    return make


def test_a_metric_in_its_unit(summary_of):
    """The first metric after each epoch, all of them after the last; metrics that rows do not contain are left out."""
    test = [
        [{"epoch": 1, "accuracy": 0.5, "nll": 3.0}, {"epoch": 2, "accuracy": share, "nll": 1.0}] for share in (0.7, 0.9)
    ]
    rows = [{"seconds": [1.0, 1.0], "test": own} for own in test]
    summary = summary_of(*rows, metrics=(ACCURACY, NLL, SAMPLED))
    assert [mean.value for mean in summary.curve] == pytest.approx([50, 80])  # percent, not shares
    assert summary.curve[-1].error == pytest.approx(10)
    assert summary.last.keys() == {"accuracy", "nll"}
    assert (summary.last["accuracy"].value, summary.last["nll"].value) == pytest.approx((80, 1))
    assert summary_of(*rows, metrics=(SAMPLED,)).curve == []


def test_a_metric_of_the_validation_examples(summary_of):
    validation = [{"epoch": 1, "negative_elbo": 5.0}, {"epoch": 2, "negative_elbo": 4.0}]
    summary = summary_of({"seconds": [1.0, 1.0], "validation": validation}, metrics=(VALIDATION_BOUND, NLL))
    assert [mean.value for mean in summary.curve] == [5, 4]
    assert (summary.last["negative_elbo"].value, summary.last["nll"].value) == (4, 1)


def test_seconds_of_the_processor_count_where_they_are_known(summary_of):
    busy = {"seconds": [5.0, 9.0], "processor_seconds": [2.0, 4.0]}
    assert summary_of(busy).seconds == [2.0, 6.0]
    assert summary_of(busy).seconds_per_epoch == 3.0
    assert summary_of({**busy, "processor_seconds": [None, 4.0]}).seconds == [5.0, 14.0]
    assert summary_of({"seconds": [5.0, 9.0]}).seconds == [5.0, 14.0]  # a row of an earlier version, without them
    assert summary_of(busy, {"seconds": [4.0, 4.0]}).seconds == [3.0, 7.0]


def test_starts_come_before_the_first_epoch(summary_of):
    starts = [{"seconds": 3.0, "processor": 1.0}, {"seconds": 4.0, "processor": 1.5}]
    assert summary_of({"seconds": [5.0, 9.0], "starts": starts}).seconds == [12.0, 21.0]
    both = summary_of({"seconds": [5.0, 9.0], "processor_seconds": [2.0, 4.0], "starts": starts})
    assert both.seconds == [4.5, 8.5]
    assert both.seconds_per_epoch == 3.0
