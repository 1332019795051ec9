"""Configurations as text: commands, labels, values."""

import shlex
from dataclasses import fields

import pytest

from hardmax.applications.argument_parser import parse
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.estimators.registry import ESTIMATORS
from hardmax.report.tables import find_differing_options, format_command, format_value, label_runs
from hardmax.spaces.registry import SPACES

DIRECT = DiscreteConfig(estimator="direct", epsilon=0.5, two_sided=True, out="my runs/it's", patience=3, clip=1.5)


@pytest.mark.parametrize("config", [DiscreteConfig(), DIRECT, DiscreteConfig(data_dir="d", space="binary", samples=2)])
def test_the_command_gives_the_configuration_back(config):
    words = shlex.split(format_command(config))
    assert words[:2] == ["hardmax", "train"]
    assert parse(DiscreteConfig, "train", words[2:]) == config


def test_the_command_of_another_model():
    config = MixedConfig(labels=50, attributes="smiling,male", out="here")
    words = shlex.split(format_command(config))
    assert words[2:4] == ["--model", "mixed"]
    assert parse(MixedConfig, "train", words[2:]) == config


def test_the_command_has_only_what_is_not_the_default():
    assert format_command(DiscreteConfig()) == "hardmax train"
    assert format_command(DiscreteConfig(epochs=3, hard=True)) == "hardmax train --epochs 3 --hard"
    assert format_command(DiscreteConfig(resume=True)) == "hardmax train"


def test_labels_name_what_differs():
    configs = [DiscreteConfig(estimator="direct", epsilon=0.1), DiscreteConfig(estimator="direct", epsilon=2.0)]
    assert label_runs(configs, ["a", "b"]) == ["epsilon 0.1", "epsilon 2"]
    configs = [DiscreteConfig(estimator="direct", two_sided=True), DiscreteConfig(estimator="direct", data="x/mnist")]
    assert label_runs(configs, ["a", "b"]) == ["sample, two-sided", "mnist, not two-sided"]


def test_labels_leave_out_options_without_effect():
    configs = [DiscreteConfig(estimator="exact", categories=20, tau=0.5), DiscreteConfig(space="binary", variables=8)]
    assert label_runs(configs, ["a", "b"]) == [
        "categorical, categories 20, variables 1, exact",
        "binary, variables 8, auto",
    ]


STRAIGHT_THROUGH = ["straight-through", "gapped-straight-through", "reinmax", "reinmax-rao", "reinmax-cv", "gumbel-rao"]


@pytest.mark.parametrize("name", [*STRAIGHT_THROUGH, "rebar"])
def test_labels_of_the_straight_through_family_have_a_tau(name):
    configs = [DiscreteConfig(estimator=name, tau=0.5), DiscreteConfig(estimator=name, tau=2.0)]
    assert label_runs(configs, ["r1", "r2"]) == ["tau 0.5", "tau 2"]


def test_every_option_of_an_estimator_or_a_space_is_an_option_of_the_training():
    names = {field.name for field in fields(DiscreteConfig)}
    for record in (*ESTIMATORS.values(), *SPACES.values()):
        assert set(record.options) <= names
    assert DiscreteConfig(estimator="exact").unused_options <= names
    assert "epsilon" not in DiscreteConfig(estimator="direct").unused_options
    assert {"tau", "tau_floor", "graph"} <= DiscreteConfig(estimator="direct").unused_options
    assert {"anneal", "epsilon_floor"} <= DiscreteConfig(estimator="exact").unused_options


def test_labels_of_mixed_runs():
    configs = [
        MixedConfig(labels=0, categories=20, consistency=0.0),
        MixedConfig(labels=600, estimator="gumbel-softmax"),
    ]
    assert label_runs(configs, ["a", "b"]) == [
        "labels 0, categories 20, consistency 0, auto",
        "labels 600, categories not set, consistency 10, gumbel-softmax",
    ]


def test_labels_fall_back_on_folders():
    assert label_runs([DiscreteConfig(), DiscreteConfig(out="elsewhere")], ["a", "b"]) == ["a", "b"]
    configs = [DiscreteConfig(seed=1), DiscreteConfig(seed=1), DiscreteConfig(seed=2)]
    assert label_runs(configs, ["a", "b", "c"]) == ["seed 1, a", "seed 1, b", "seed 2"]


def test_where_a_run_is_does_not_differ():
    assert find_differing_options([DiscreteConfig(out="a", data_dir="b"), DiscreteConfig()]) == []


def test_values():
    assert [format_value(value) for value in (None, True, 1e-5, 0.5, 1000, "x")] == [
        "not set",
        "yes",
        "1e-05",
        "0.5",
        "1000",
        "x",
    ]
