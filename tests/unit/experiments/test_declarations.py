"""What is declared can be run: names, options, the quick form."""

import subprocess
import sys

import pytest

from hardmax.errors import ArgumentError
from hardmax.experiments.catalogue import NAMES, choose_cells, find_experiment
from hardmax.experiments.plan import plan
from hardmax.training.schedule import estimator_at, make_space


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [False, True])
def test_every_cell_can_be_run(name, quick, tmp_path):
    experiment = find_experiment(name)
    assert experiment.name == name
    runs = plan(experiment, experiment.cells, tmp_path, quick=quick)
    assert len({run.name for run in runs}) == len(runs)
    assert len({cell.name for cell in experiment.cells}) == len(experiment.cells)
    for run in runs:
        estimator_at(run.config, make_space(run.config), 0, 0)
        assert run.config.lr == run.cell.lr
        assert not quick or run.config.data == "sample"  # nothing to download


def test_runs_go_seed_by_seed(tmp_path):
    experiment = find_experiment("figure3")
    runs = plan(experiment, experiment.cells, tmp_path)
    assert [run.seed for run in runs] == [0] * len(experiment.cells) + [1] * len(experiment.cells)
    assert runs[0].name == "unstructured-direct-seed0"


def test_unknown_names():
    with pytest.raises(ArgumentError, match="did you mean figure3"):
        find_experiment("Figure-3")
    with pytest.raises(ArgumentError, match="there are: figure3"):
        find_experiment("nothing")
    with pytest.raises(ArgumentError, match=r"did you mean general-direct.* its cells are: unstructured-direct, "):
        choose_cells(find_experiment("figure3"), ["generaldirect"])


def test_chosen_cells_keep_their_order():
    experiment = find_experiment("figure3")
    names = [cell.name for cell in experiment.cells]
    assert [cell.name for cell in choose_cells(experiment, [names[3], names[1], names[3]])] == [names[1], names[3]]
    assert choose_cells(experiment) == list(experiment.cells)


def test_declarations_need_no_torch():
    code = (
        "import sys\nfrom hardmax.experiments.catalogue import NAMES, find_experiment\n"
        "for name in NAMES: find_experiment(name)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
