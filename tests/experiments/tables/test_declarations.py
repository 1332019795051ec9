"""Every declaration can be run: names, options, the quick form."""

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.discrete_vae.task import make_space
from hardmax.data.sequences import LANGUAGES, TEXTS
from hardmax.diagnosis.candidates import find_least_samples
from hardmax.errors import ArgumentError
from hardmax.experiments.rows import identify_run, is_same_run
from hardmax.experiments.runner.model_figures import FIGURES
from hardmax.experiments.tables.declaration import AbstractTrainings, Experiment, Gallery
from hardmax.experiments.tables.measurement import Measurement
from hardmax.experiments.tables.registry import NAMES, find_experiment
from hardmax.spaces import Binary, Categorical
from hardmax.training.estimators import choose_estimator

RESULTS = Path(__file__).parents[3] / "docs" / "results"
DECLARED = [find_experiment(name) for name in NAMES]
TRAININGS = [each for each in DECLARED if isinstance(each, AbstractTrainings)]
EXPERIMENTS = [each for each in DECLARED if isinstance(each, Experiment)]
GALLERIES = [each for each in DECLARED if isinstance(each, Gallery)]
MEASUREMENTS = [each for each in DECLARED if isinstance(each, Measurement)]


def test_names():
    assert [each.name for each in DECLARED] == list(NAMES)
    assert len(EXPERIMENTS) + len(GALLERIES) + len(MEASUREMENTS) == len(NAMES)
    assert EXPERIMENTS
    assert GALLERIES
    assert MEASUREMENTS


def space_of(config):
    """Return the space of z for a configuration; sizes that depend on data are replaced by examples."""
    if config.model == "discrete":
        return make_space(config)
    if config.model == "dvae":
        return Categorical(config.codes, 49)
    if config.model == "sequence-gan":
        return Categorical(5)
    if config.model == "hashing":
        return Binary(config.bits)
    if config.model == "completion":
        return Categorical(max(config.components, 1))
    return Binary(len(config.attribute_names)) if config.attribute_names else Categorical(10)


@pytest.mark.parametrize("experiment", TRAININGS, ids=lambda each: each.name)
@pytest.mark.parametrize("quick", [False, True])
def test_every_cell_can_be_run(experiment, quick, tmp_path):
    runs = experiment.plan(tmp_path, quick=quick)
    assert len({run.name for run in runs}) == len(runs)
    assert len({cell.name for cell in experiment.cells}) == len(experiment.cells)
    for run in runs:
        if run.config.model != "decisions":  # which has losses instead of estimators
            choose_estimator(run.config, space_of(run.config), 0, 0)
        assert run.config.lr == run.cell.lr
        data = run.config.images if run.config.data == "denoising" else run.config.data
        assert not quick or data in ("sample", "path", "knapsack", "maps", *LANGUAGES, *TEXTS)  # nothing to download


def test_runs_go_seed_by_seed(tmp_path):
    experiment = find_experiment("figure3")
    runs = experiment.plan(tmp_path)
    assert [run.seed for run in runs] == [seed for seed in experiment.seeds for _ in experiment.cells]
    assert runs[0].name == "unstructured-direct-seed0"


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_every_cell_is_shown(experiment):
    """Panels are of existing problems; if some problems have panels, all have."""
    problems = {cell.problem for cell in experiment.cells}
    assert len({figure.name for figure in experiment.figures}) == len(experiment.figures)
    shown = {problem for figure in experiment.figures for problem in figure.problems}
    assert shown in (set(), problems)
    for figure in experiment.figures:
        assert len({len(row) for row in figure.rows}) == 1
    if experiment.view == "grid":
        assert len({(cell.problem, cell.method) for cell in experiment.cells}) == len(experiment.cells)


def test_figures_2_and_6_are_made_of_the_runs_of_table_1(tmp_path):
    """Their runs have the names and the configurations of those of table 1, so that rows are shared."""
    table, *figures = [find_experiment(name) for name in ("table1", "figure2", "figure6")]
    runs = {
        each.name: [(run.name, replace(run.config, out="")) for run in each.plan(tmp_path)]
        for each in (table, *figures)
    }
    assert sorted(map(str, runs["figure2"] + runs["figure6"])) == sorted(map(str, runs["table1"]))
    assert {run.categories for _, run in runs["figure2"]} == {10}
    assert {run.categories for _, run in runs["figure6"]} == {20, 30, 40, 50}


def test_table_2_and_what_is_made_of_it(tmp_path):
    """Every method has the same epochs; seeds have different labels; the other two change only what they name."""
    table, ablation, grey = (find_experiment(name) for name in ("table2", "table2-ablation", "table2-grey"))
    assert len(table.plan(tmp_path)) == 2 * 5 * 5 * 3
    for each in (table, ablation, grey):
        configs = [run.config for run in each.plan(tmp_path)]
        assert len({config.epochs for config in configs}) == 1
        assert {config.label_seed for config in configs} == {None}  # the seed's
        assert {config.encoder_input for config in configs} == {"grey" if each is grey else "same"}
    cells = {
        cell.method: table.make_config(cell, 0) for cell in table.cells if cell.problem == "Fashion-MNIST, 300 labels"
    }
    assert {config.labels for config in cells.values()} == {300}
    settings = {method: (c.estimator, c.kl, c.consistency > 0, c.augment, c.supervision) for method, c in cells.items()}
    assert settings == {
        "direct": ("direct", "none", False, "none", "argmax"),
        "Gumbel-softmax": ("gumbel-softmax", "auto", False, "none", "argmax"),
        "posterior direct": ("auto", "auto", False, "none", "argmax"),
        "posterior direct, augmentation, consistency": ("auto", "auto", True, "flip", "argmax"),
        "the same, labels by cross-entropy": ("auto", "auto", True, "flip", "cross-entropy"),
    }
    pieces = {cell.method: ablation.make_config(cell, 0) for cell in ablation.cells if cell.problem == "MNIST"}
    settings = {method: (c.elbo > 0, c.consistency > 0, c.augment != "none") for method, c in pieces.items()}
    assert (
        list(settings.values())
        == [(False, False, False), (False, False, True), (False, True, True), (True, False, True)]
        + [(True, True, True)] * 4
    )
    complete = cells["posterior direct, augmentation, consistency"]
    assert replace(pieces["VAE and consistency"], data="", augment="flip", labels=300) == replace(complete, data="")


def test_few_labels_and_its_ablation(tmp_path):
    """Ten samples of 100 labels; each line of the ablation changes one part, and the first line changes none."""
    table, ablation = find_experiment("few-labels"), find_experiment("few-labels-ablation")
    runs = table.plan(tmp_path)
    assert {(run.config.data, run.seed) for run in runs} == set(product(("mnist", "fashion-mnist"), range(10)))
    assert {(run.config.labels, run.config.label_seed) for run in runs} == {(100, None)}  # the seed's
    for problem in ("MNIST", "Fashion-MNIST"):
        (whole,) = [table.make_config(cell, 0).to_dict() for cell in table.cells if cell.problem == problem]
        changes = {}
        for cell in ablation.cells:
            if cell.problem == problem:
                config = ablation.make_config(cell, 0).to_dict()
                changes[cell.method] = {name for name in config if config[name] != whole[name]}
        assert changes == {
            "all": set(),
            "fully connected classifier": {"architecture"},
            "rounded images for the encoder": {"encoder_input"},
            "labels through the arg max": {"supervision"},
            "no correction of frequencies": {"align"},
            "no VAE": {"elbo"},
            "no consistency": {"consistency"},
            "no augmentation": {"augment", "consistency"},
        }


@pytest.mark.parametrize("gallery", GALLERIES, ids=lambda each: each.name)
@pytest.mark.parametrize("quick", [False, True])
def test_every_model_figure_can_be_drawn(gallery, quick):
    """There is such a figure, and it takes these options."""
    figure = gallery.choose_figure(quick=quick)
    parameters = inspect.signature(FIGURES[figure.kind]).parameters.values()
    assert {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY} == set(
        figure.options
    )


def test_a_measurement_has_no_seeds(tmp_path):
    with pytest.raises(ArgumentError, match=r"figure1 is one training .* has no seeds"):
        find_experiment("figure1").plan(tmp_path, seeds=[0])


@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=lambda each: each.name)
@pytest.mark.parametrize("quick", [False, True])
def test_everything_can_be_measured(measurement, quick):
    form = measurement.choose_form(quick=quick)
    config = form.training
    assert list(form.epochs) == sorted(set(form.epochs))
    assert config.epochs == form.epochs[-1]
    assert not quick or config.data == "sample"  # nothing to download
    assert len({part.name for part in form.parts}) == len(form.parts)
    space = make_space(config)
    choose_estimator(config, space, 0, 0)
    for part in form.parts:
        assert (part.evaluations is None) != (part.samples is None)
        estimators = form.estimators(part)
        assert len({measured.name for measured in estimators}) == len({measured.label for measured in estimators})
        assert len({measured.name for measured in estimators}) == len(estimators)
        for measured in estimators:
            samples = part.samples or find_least_samples(measured.estimator, space)
            measured.estimator.check(space, samples)  # none would be skipped
            assert (measured.line is None) == (measured.step is None)
            assert measured.kl == "beside" or measured.estimator.takes_integrand
            assert (measured.kl == "auto") == measured.name.startswith("posterior ")


@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=lambda each: each.name)
def test_names_are_what_a_user_would_type(measurement):
    """Each name, evaluated, is the estimator that goes by it."""
    for part in measurement.parts:
        for measured in measurement.estimators(part):
            expression = measured.name.removeprefix("posterior ")
            estimator = eval(expression, {type(each).__name__: type(each) for each in _with_inner(measured.estimator)})
            assert estimator == measured.estimator or repr(estimator) == repr(measured.estimator)


def _with_inner(estimator):
    return [estimator, *([estimator.estimator] if hasattr(estimator, "estimator") else [])]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_published_rows_have_a_cell(path):
    """A renamed cell would orphan the rows that were made under its former name."""
    if path.stem not in NAMES or not isinstance(find_experiment(path.stem), AbstractTrainings):
        pytest.skip("not the rows of a table of trainings")
    names = {cell.name for cell in find_experiment(path.stem).cells}
    assert {json.loads(line)["cell"] for line in path.read_text().splitlines()} <= names


def test_unknown_names():
    with pytest.raises(ArgumentError, match="did you mean figure3"):
        find_experiment("Figure-3")
    with pytest.raises(ArgumentError, match="there are: figure1, "):
        find_experiment("nothing")
    with pytest.raises(ArgumentError, match=r"did you mean general-direct.* its cells are: unstructured-direct, "):
        find_experiment("figure3").choose_items(["generaldirect"])
    with pytest.raises(ArgumentError, match=r"no part 'bond'; did you mean bound\? its parts are: likelihood, bound"):
        find_experiment("figure1").choose_items(["bond"])


def test_chosen_cells_keep_their_order():
    experiment = find_experiment("figure3")
    names = [cell.name for cell in experiment.cells]
    assert [cell.name for cell in experiment.choose_items([names[3], names[1], names[3]])] == [names[1], names[3]]
    assert experiment.choose_items() == list(experiment.cells)
    chosen = experiment.choose_items(["general-*", names[0]])
    assert chosen == [cell for cell in experiment.cells if cell.name == names[0] or cell.name.startswith("general-")]


def test_declarations_need_no_torch():
    code = (
        "import sys\nfrom hardmax.experiments.tables.registry import NAMES, find_experiment\n"
        "for name in NAMES: find_experiment(name)\n"
        "assert not {'torch', 'scipy', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_options_that_a_run_does_not_use_do_not_identify_it():
    plain, adaptive = (DecisionsConfig(loss=loss) for loss in ("least-squares", "adaptive-implicit-mle"))
    assert is_same_run({**identify_run(plain), "share": 0.3}, plain)
    assert not is_same_run({**identify_run(plain), "lr": 0.3}, plain)
    assert not is_same_run({**identify_run(adaptive), "share": 0.3}, adaptive)
    assert is_same_run({name: value for name, value in identify_run(adaptive).items() if name != "share"}, adaptive)
