"""Which model a command serves, and what is said where it does not."""

from dataclasses import dataclass
from importlib import import_module

import pytest

from hardmax.cli.by_model import SERVED, module_for, refuse
from hardmax.cli.main import COMMANDS
from hardmax.errors import ArgumentError, DataError
from hardmax.report.catalogue import STORIES, story_of
from hardmax.training.catalogue import MODELS, folder_of
from hardmax.training.describe import describe
from hardmax.training.discrete.config import DiscreteConfig
from hardmax.training.mixed.config import MixedConfig


@pytest.fixture
def folder(tmp_path):
    """Return a function from a configuration to a folder that holds it."""
    from hardmax.data import load

    def one(config):
        (tmp_path / "config.json").write_text(describe(config, load("sample")))
        return str(tmp_path)

    return one


def test_what_is_promised_is_there():
    assert set(SERVED) <= set(COMMANDS)
    for command, models in SERVED.items():
        assert set(models) <= set(MODELS)
        for model in models:
            assert callable(getattr(import_module(f"hardmax.cli.{folder_of(model)}.{command}"), command))


def test_every_model_that_is_trained_can_be_looked_at():
    for model in MODELS:
        assert model in SERVED["evaluate"]
        assert model in SERVED["sample"] or model in SERVED["index"]  # what draws nothing finds something
        assert model in STORIES
        assert story_of(model).template.startswith(folder_of(model))


def test_the_model_of_the_run_decides(folder):
    assert module_for("sample", folder(DiscreteConfig())).__name__ == "hardmax.cli.discrete.sample"
    assert module_for("sample", folder(MixedConfig())).__name__ == "hardmax.cli.mixed.sample"


def test_a_command_that_is_not_for_the_model(folder):
    with pytest.raises(
        DataError, match=r"hardmax edit is for runs of --model mixed, but .* is one of --model discrete"
    ):
        module_for("edit", folder(DiscreteConfig()))


def test_a_model_without_a_story(monkeypatch):
    monkeypatch.delitem(STORIES, "mixed")
    with pytest.raises(DataError, match=r"there is no report about .* yet; there are some about: discrete, dvae"):
        story_of("mixed")


@dataclass(frozen=True)
class Options:
    run: str
    refine: bool = False
    perturb_and_map: bool = False


def test_options_that_mean_nothing_are_refused(folder):
    run = folder(MixedConfig())
    refuse(Options(run), "refine", "perturb_and_map")
    with pytest.raises(
        ArgumentError, match=r"--perturb-and-map is not for runs of --model mixed, such as .*; leave it"
    ):
        refuse(Options(run, perturb_and_map=True), "refine", "perturb_and_map")
