"""The records of applications: all that they name exists, and commands use the application of the run."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from hardmax.applications.command_line import check_model, refuse_options
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.registry import APPLICATIONS, GROUPS, find_application, list_commands
from hardmax.cli.main import COMMANDS
from hardmax.errors import ArgumentError, DataError
from hardmax.models import AbstractModel
from hardmax.report.sections import AbstractReport
from hardmax.training.config import TrainConfig
from hardmax.training.run_folder import write_config
from hardmax.training.task import AbstractTask

TRAINED = [application for application in APPLICATIONS if application.config]


@pytest.fixture
def folder(tmp_path):
    """Return a function from a configuration to a folder that holds it."""
    from hardmax.data import load_images

    def write(config):
        write_config(tmp_path, config, load_images("sample"))
        return str(tmp_path)

    return write


@pytest.mark.parametrize("application", TRAINED, ids=lambda application: application.name)
def test_all_that_a_record_names_exists(application):
    config = application.load_config()
    assert issubclass(config, TrainConfig)
    assert config().model == application.name
    assert issubclass(application.load_task(), AbstractTask)
    assert issubclass(application.load_model(), AbstractModel)
    assert application.load_model().kind == application.kind
    report = application.load_report()
    assert isinstance(report, AbstractReport)
    folder = Path(__import__(application.package, fromlist=["_"]).__file__).parent
    assert (folder / report.template).is_file()
    assert all((folder / name).is_file() for name in report.styles)
    assert callable(application.load(application.evaluate))
    assert application.sample or application.commands  # it generates samples, or has a command of its own
    assert not application.sample or callable(application.load(application.sample))


@pytest.mark.parametrize("application", TRAINED, ids=lambda application: application.name)
def test_metrics_are_consistent(application):
    metrics = application.metrics
    assert metrics.criterion in metrics.columns
    assert set(application.row_metrics) <= set(metrics.columns)
    assert {*application.load_task().sums} <= {*metrics.columns}
    shown = {"elbo" if one.key == "negative_elbo" else one.key for one in application.summary}
    assert shown <= {*metrics.columns}
    assert all(hasattr(application.load_config(), name) for name in application.comparable)


@pytest.mark.parametrize("name", list_commands())
def test_commands_of_applications_exist(name):
    application, command = list_commands()[name]
    assert name not in COMMANDS
    assert name.split()[0] not in GROUPS or " " in name
    options = application.load(command.options)
    assert options.__doc__
    assert not command.run or command.run in options.__annotations__
    assert callable(application.load(command.function))


def test_names_are_unique():
    for names in ([record.name for record in APPLICATIONS], [record.kind for record in TRAINED]):
        assert len(set(names)) == len(names)


def test_the_application_is_that_of_the_run(folder):
    assert check_model("sample", folder(DiscreteConfig()), ["discrete", "mixed"]).name == "discrete"
    assert check_model("sample", folder(MixedConfig()), ["discrete", "mixed"]).name == "mixed"


def test_a_command_that_is_not_for_the_model(folder):
    with pytest.raises(
        DataError, match=r"hardmax edit is for runs of --model mixed, but .* is one of --model discrete"
    ):
        check_model("edit", folder(DiscreteConfig()), ["mixed"])


def test_an_unknown_model():
    with pytest.raises(ArgumentError, match="did you mean mixed"):
        find_application("mixd")
    with pytest.raises(ArgumentError, match="there are: discrete, mixed, dvae, token-prior"):
        find_application("xyz")
    with pytest.raises(ArgumentError, match="no model 'segmentation'"):  # hardmax train does not train it
        find_application("segmentation")


@dataclass(frozen=True)
class Options:
    run: str
    refine: bool = False
    perturb_and_map: bool = False


def test_options_of_other_models_are_refused(folder):
    run = folder(MixedConfig())
    refuse_options(Options(run), "refine", "perturb_and_map")
    with pytest.raises(
        ArgumentError, match=r"--perturb-and-map is not for runs of --model mixed, such as .*; leave it"
    ):
        refuse_options(Options(run, perturb_and_map=True), "refine", "perturb_and_map")
