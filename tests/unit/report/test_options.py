"""Configurations in words."""

import shlex

import pytest

from hardmax.cli.options import parse
from hardmax.report.options import command, differing, labels, shown
from hardmax.training.config import TrainConfig

DIRECT = TrainConfig(estimator="direct", epsilon=0.5, two_sided=True, out="my runs/it's", patience=3, clip=1.5)


@pytest.mark.parametrize("config", [TrainConfig(), DIRECT, TrainConfig(data_dir="d", space="binary", samples=2)])
def test_the_command_gives_the_configuration_back(config):
    words = shlex.split(command(config))
    assert words[:2] == ["hardmax", "train"]
    assert parse(TrainConfig, "train", words[2:]) == config


def test_the_command_has_only_what_is_not_the_default():
    assert command(TrainConfig()) == "hardmax train"
    assert command(TrainConfig(epochs=3, hard=True)) == "hardmax train --hard --epochs 3"
    assert command(TrainConfig(resume=True)) == "hardmax train"


def test_labels_name_what_differs():
    configs = [TrainConfig(estimator="direct", epsilon=0.1), TrainConfig(estimator="direct", epsilon=2.0)]
    assert labels(configs, ["a", "b"]) == ["epsilon 0.1", "epsilon 2"]
    configs = [TrainConfig(estimator="direct", two_sided=True), TrainConfig(estimator="direct", data="x/mnist")]
    assert labels(configs, ["a", "b"]) == ["sample, two-sided", "mnist, not two-sided"]


def test_labels_leave_out_what_plays_no_part():
    configs = [TrainConfig(estimator="exact", categories=20, tau=0.5), TrainConfig(space="binary", variables=8)]
    assert labels(configs, ["a", "b"]) == [
        "categorical, categories 20, variables 1, exact",
        "binary, variables 8, auto",
    ]


def test_labels_fall_back_on_folders():
    assert labels([TrainConfig(), TrainConfig(out="elsewhere")], ["a", "b"]) == ["a", "b"]
    configs = [TrainConfig(seed=1), TrainConfig(seed=1), TrainConfig(seed=2)]
    assert labels(configs, ["a", "b", "c"]) == ["seed 1, a", "seed 1, b", "seed 2"]


def test_where_a_run_is_does_not_differ():
    assert differing([TrainConfig(out="a", data_dir="b"), TrainConfig()]) == []


def test_values():
    assert [shown(value) for value in (None, True, 1e-5, 0.5, 1000, "x")] == [
        "not set",
        "yes",
        "1e-05",
        "0.5",
        "1000",
        "x",
    ]
