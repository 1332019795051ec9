"""One model is trained, estimators are measured in between, and a stop or a kill costs only time."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from hardmax.applications.runs import train
from hardmax.errors import ArgumentError
from hardmax.estimators import Direct, Exact, GumbelSoftmax, Reinforce
from hardmax.experiments.rows import find_row, hash_options, read_results
from hardmax.experiments.runner import results_folder
from hardmax.experiments.runner.measure import _TrainedModel, train_to_epoch
from hardmax.experiments.runner.progress import ProgressCallbacks
from hardmax.experiments.runner.reproduce import reproduce
from hardmax.experiments.tables.measurement import (
    MeasuredEstimator,
    Measurement,
    Part,
    PlannedMeasurement,
    QuickMeasurement,
    make_ladder,
)

FULL = Part("8-evaluations", "up to 8 evaluations", evaluations=8)
PLAIN = Part("likelihood", "gradient of E[log p(x | z)]", "expectation", samples=2, drawn=False)


def list_estimators(part):
    estimators = [
        MeasuredEstimator("Exact()", Exact()),
        MeasuredEstimator("Reinforce('leave-one-out')", Reinforce("leave-one-out")),
    ]
    if part == FULL:
        estimators += [
            MeasuredEstimator("posterior Direct(1)", Direct(), "auto"),
            MeasuredEstimator("Direct(1)", Direct()),
        ]
    return estimators + make_ladder("GumbelSoftmax", "GumbelSoftmax({})", (0.5, 1.0), GumbelSoftmax)


TINY = Measurement(
    name="tiny",
    title="Tiny",
    claim="Small is beautiful.",
    setting="The embedded images.",
    options={"data": "sample", "categories": 4, "batch_size": 1500, "hidden": 8, "evaluate_images": 20},
    epochs=(1, 3),
    draws=24,
    images=5,
    parts=(FULL, PLAIN),
    estimators=list_estimators,
    view="points",
    quick=QuickMeasurement({"hidden": 4}, "narrow", epochs=(1,), draws=8, images=3),
    notes=("A note.",),
)
ROWS = 2 * (6 + 4)  # epochs, estimators of each part


class Log:
    """Observes a measurement, and may stop it after a number of steps of training or measuring."""

    def __init__(self, steps=math.inf):
        self.finished, self.messages, self.doing, self.steps = [], [], [], steps

    def callbacks(self):
        return ProgressCallbacks(
            say=self.messages.append,
            step=self.count,
            finished=lambda name, result: self.finished.append(name),
            stop=lambda: self.steps <= 0,
        )

    def count(self, part, doing):
        assert 0 <= part <= 1
        self.doing.append(doing)
        self.steps -= 1


def measure(*arguments, **options):
    """Reproduce; return whether it was completed."""
    return not reproduce(*arguments, **options).stopped


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The tiny measurement, made in one go."""
    out, log = tmp_path_factory.mktemp("complete"), Log()
    assert measure(TINY, out, callbacks=log.callbacks())
    return out, log


def rows(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


def results(out):
    """Return the rows without the fields that depend on when they were made."""
    changing = ("seconds", "commit", "checksum")
    return [{key: value for key, value in row.items() if key not in changing} for row in rows(out)]


def copy(complete, tmp_path):
    """Return a folder with the rows and no run."""
    for name in ("results.jsonl", "experiment.json"):
        shutil.copy(complete[0] / name, tmp_path)
    return tmp_path


def test_a_row_for_every_epoch_part_and_estimator(complete):
    out, log = complete
    all_rows = rows(out)
    assert len(all_rows) == len(log.finished) == ROWS
    assert [(row["epoch"], row["part"]) for row in all_rows[::10]] == [(1, "8-evaluations"), (3, "8-evaluations")]
    for row in all_rows:
        assert row.keys() >= PlannedMeasurement.fields
        assert row["hash"] == hash_options(row["config"])
        assert row["config"]["training"]["epochs"] == 3
        assert row["command"].startswith("hardmax train --out runs/tiny ")
        assert (row["config"]["kl"] is None) == (row["part"] == "likelihood")
    by_name = {(row["epoch"], row["part"], row["name"]): row for row in all_rows}
    exact = by_name[1, "8-evaluations", "Exact()"]
    assert not exact["biased"]
    assert exact["deviation"] < 1e-5
    assert by_name[1, "8-evaluations", "Reinforce('leave-one-out')"]["samples"] == 8
    assert by_name[1, "likelihood", "Reinforce('leave-one-out')"]["samples"] == 2
    # An estimator of the entire integrand differs from one with the exact gradient of the KL; so do the two gradients.
    posterior, beside = (by_name[3, "8-evaluations", name] for name in ("posterior Direct(1)", "Direct(1)"))
    assert posterior["bias"] != beside["bias"]
    assert posterior["norm"] == beside["norm"] != by_name[3, "likelihood", "Exact()"]["norm"]


def test_models_are_those_of_one_training(complete, tmp_path):
    """A training that stops at a measured epoch gives the same model as one without a stop."""
    config = replace(TINY.training, out=str(tmp_path / "run"))
    train(config)
    latest = (tmp_path / "run" / "latest").read_text().strip()
    expected = load_file(tmp_path / "run" / latest / "model.safetensors")
    model = load_file(complete[0] / "run" / "epoch-3" / "model.safetensors")
    first = load_file(complete[0] / "run" / "epoch-1" / "model.safetensors")
    assert all(torch.equal(model[name], expected[name]) for name in expected)
    assert not all(torch.equal(first[name], expected[name]) for name in expected)


def test_what_is_shown(complete):
    out, _ = complete
    page = (out / "results.md").read_text()
    assert page.index("## After 1 epoch\n") < page.index("## After 3 epochs\n")
    assert page.count("| estimator | S |") == 4
    assert "Small is beautiful." in page
    assert "A note." in page
    assert "not measured" not in page
    assert "(tiny-8-evaluations.svg)" in page
    assert (out / "tiny-8-evaluations.svg").read_text().startswith("<?xml")
    assert (out / "tiny-8-evaluations.png").read_bytes().startswith(b"\x89PNG")
    assert not list(out.glob("*.tmp"))


def test_finished_measurements_are_not_made_again(complete, tmp_path):
    out, log = copy(complete, tmp_path), Log()
    assert measure(TINY, out, callbacks=log.callbacks())
    assert log.finished == log.doing == []
    assert log.messages == [f"{ROWS} of {ROWS} measurements are finished already"]
    assert not (out / "run").exists()
    for name in ("results.md", "tiny-8-evaluations.svg"):
        assert (out / name).read_text() == (complete[0] / name).read_text()


def test_other_terms_are_measured_again(complete, tmp_path):
    all_rows, _ = read_results(complete[0] / "results.jsonl", PlannedMeasurement.fields)
    wanted = TINY.plan(tmp_path)
    training = wanted[0].training
    assert all(find_row(all_rows, planned) for planned in wanted)
    for changed in (
        replace(TINY, draws=25),
        replace(TINY, images=6),
        replace(TINY, epochs=(2, 3)),
        replace(TINY, parts=(replace(FULL, evaluations=9), PLAIN)),
    ):
        assert find_row(all_rows, changed.plan(tmp_path)[0]) is None
    assert find_row(all_rows, replace(wanted[0], training=replace(training, hidden=9))) is None
    assert find_row(all_rows, replace(wanted[0], training=replace(training, data_dir="elsewhere"))) is not None


@pytest.fixture
def no_pages(monkeypatch):
    """Do not render pages, which takes the most time."""
    monkeypatch.setattr(results_folder, "render", lambda *arguments, **options: None)


@pytest.mark.parametrize("steps", [2, 20, 45])  # while it trains, measures, and trains for the second time
@pytest.mark.usefixtures("no_pages")
def test_goes_on_after_a_stop(complete, tmp_path, steps):
    log = Log(steps)
    assert not measure(TINY, tmp_path, callbacks=log.callbacks())
    before, doing, log = log.finished, log.doing[-1], Log()
    assert doing.startswith({2: "training, epoch 1/3", 20: "epoch 1, ", 45: "training, epoch 2/3"}[steps])
    assert measure(TINY, tmp_path, callbacks=log.callbacks())
    assert not set(before) & set(log.finished)
    assert len(before) + len(log.finished) == ROWS
    assert results(tmp_path) == results(complete[0])


def test_a_kill_between_a_checkpoint_and_its_copy(complete, tmp_path):
    log = Log()
    config = replace(TINY.training, out=str(tmp_path / "run"))
    folder = train_to_epoch(1, config, TINY.epochs, log.callbacks())
    shutil.rmtree(folder)
    log = Log()
    assert train_to_epoch(1, config, TINY.epochs, log.callbacks()) == folder
    assert log.doing == []  # nothing was trained again
    model = load_file(folder / "model.safetensors")
    expected = load_file(complete[0] / "run" / "epoch-1" / "model.safetensors")
    assert all(torch.equal(model[name], expected[name]) for name in expected)


def test_a_model_that_was_lost_is_made_again(complete, tmp_path):
    shutil.copytree(complete[0] / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "epoch-1")
    config, log = replace(TINY.training, out=str(tmp_path / "run")), Log()
    assert train_to_epoch(1, config, TINY.epochs, log.callbacks()) == tmp_path / "run" / "epoch-1"
    assert "no longer" in log.messages[0]
    assert log.doing


@pytest.mark.usefixtures("no_pages")
def test_another_training_is_made_again(complete, tmp_path):
    out, log = copy(complete, tmp_path), Log()
    shutil.copytree(complete[0] / "run", out / "run")
    changed = replace(TINY, options={**TINY.options, "hidden": 6}, epochs=(1,), parts=(PLAIN,))
    assert measure(changed, out, callbacks=log.callbacks())
    assert "made again" in log.messages[0]
    assert rows(out)[-1]["config"]["training"]["hidden"] == 6
    assert len(rows(out)) == ROWS + 4


@pytest.mark.usefixtures("no_pages")
def test_broken_rows_are_measured_again(complete, tmp_path):
    out, log = copy(complete, tmp_path), Log()
    shutil.copytree(complete[0] / "run", out / "run")
    lines = (out / "results.jsonl").read_text().splitlines()
    lines[3] = lines[3].replace('"draws": 24', '"draws": 25')  # no longer what the hash is of
    (out / "results.jsonl").write_text("\n".join(lines)[:-40])
    assert measure(TINY, out, callbacks=log.callbacks())
    assert "2 broken lines" in log.messages[0]
    assert log.finished == ["epoch 1, 8-evaluations, Direct(1)", "epoch 3, likelihood, GumbelSoftmax(1)"]
    assert sorted(map(str, results(out))) == sorted(map(str, results(complete[0])))


def test_one_part_of_the_quick_form(tmp_path):
    assert measure(TINY, tmp_path, quick=True, only=["likelihood"])
    assert [row["part"] for row in rows(tmp_path)] == ["likelihood"] * 4
    assert {(row["config"]["draws"], row["config"]["pictures"], row["epoch"]) for row in rows(tmp_path)} == {(8, 3, 1)}
    page = (tmp_path / "results.md").read_text()
    assert "quick form" in page
    assert page.count("| not measured") == 6
    with pytest.raises(ArgumentError, match=r"holds the quick form of tiny; choose another folder with --out"):
        measure(TINY, tmp_path)


def test_an_estimator_that_refuses_is_named(tmp_path):
    refuses = MeasuredEstimator("Reinforce('leave-one-out')", Reinforce("leave-one-out"))
    part = replace(PLAIN, samples=1)
    changed = replace(
        TINY, parts=(part,), estimators=lambda part: [refuses, MeasuredEstimator("Exact()", Exact())], epochs=(1,)
    )
    log = Log()
    assert measure(changed, tmp_path, callbacks=log.callbacks())
    assert log.finished == ["epoch 1, likelihood, Exact()"]
    assert (
        "Reinforce('leave-one-out') is not measured: Reinforce(baseline='leave-one-out') needs at least two"
        in log.messages[0]
    )
    assert "| `Reinforce('leave-one-out')` | not measured" in (tmp_path / "results.md").read_text()


def test_nothing_is_left_by_a_part_that_does_not_exist(tmp_path):
    with pytest.raises(ArgumentError, match="its parts are: 8-evaluations, likelihood"):
        measure(TINY, tmp_path / "out", only=["nothing"])
    assert not (tmp_path / "out").exists()


def test_the_measure_is_right(complete, monkeypatch):
    """A planted bias is detected: the reference of the likelihood for the gradient of the bound."""
    config = replace(TINY.training, out=str(complete[0] / "run"))
    trained = _TrainedModel(complete[0] / "run" / "epoch-1", config, TINY.images)
    planned = TINY.plan(complete[0], only=[FULL.name])[0]
    assert planned.measured.name == "Exact()"
    (honest,) = trained.measure(planned, ProgressCallbacks()).rows
    wrong = trained._reference(PLAIN)
    monkeypatch.setattr(trained, "_reference", lambda part: wrong)
    (planted,) = trained.measure(planned, ProgressCallbacks()).rows
    assert not honest.biased
    assert planted.biased
