"""Runs below folders, and what is read of them while they change."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import train
from hardmax.studio.runs.comparison import draw_comparison, list_differing_options, list_quantities
from hardmax.studio.runs.run_list import WatchedRun, find_runs
from hardmax.training.loop import Observer

SAVED = Path(__file__).parents[1] / "compatibility" / "saved"
SMALL = DiscreteConfig(epochs=3, batch_size=500, hidden=8, evaluate_images=50, estimator="exact")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    assert train(replace(SMALL, out=str(folder / "first")))
    assert train(replace(SMALL, out=str(folder / "second"), categories=4, lr=0.01))
    return folder


@pytest.fixture
def runs(trained, tmp_path):
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def test_runs_are_found_and_models_checkpoints_and_links_are_not(runs, tmp_path):
    shutil.copytree(SAVED / "gaussian-vae", runs / "model")
    shutil.copytree(runs / "first", runs / ".hidden")
    deep = runs / "a" / "b, c" / "third"
    shutil.copytree(runs / "first", deep)
    outside = tmp_path / "outside"
    shutil.copytree(runs / "first", outside)
    (runs / "link").symlink_to(outside)
    (runs / "loop").symlink_to(runs)
    (runs / "broken").mkdir()
    (runs / "broken" / "config.json").write_text("{")
    (runs / "broken" / "metrics.jsonl").touch()
    assert find_runs([runs]) == [deep, runs / "broken", runs / "first", runs / "second"]
    assert find_runs([deep, runs / "first"]) == [deep, runs / "first"]
    assert find_runs([runs / "nothing"]) == []
    if os.getuid():  # root may read anything
        (runs / "a").chmod(0)
        assert deep not in find_runs([runs])
        (runs / "a").chmod(0o755)


def test_a_run_in_training_is_followed(tmp_path):
    """The rows appear epoch by epoch, and the run is stopped, resumed and finished."""
    folder = tmp_path / "run"
    run, seen = WatchedRun(folder), []

    def look(rows):
        run.refresh()
        seen.append((run.status.state, run.status.epoch, len(run.rows), len(run.timing)))

    config = replace(SMALL, out=str(folder))
    assert run.refresh()
    assert run.status.state == "broken"
    assert not run.refresh()
    assert not train(config, Observer(on_epoch=look, should_stop=lambda: len(seen) == 2))
    assert seen == [("training", 1, 3, 1), ("training", 2, 6, 2)]
    assert run.refresh()
    assert run.status.state == "stopped"
    assert train(replace(config, resume=True))
    assert run.refresh()
    assert (run.status.state, len(run.rows)) == ("finished", 9)
    assert run.score == max(row["elbo"] for row in run.rows if row["split"] == "validation")
    assert not run.refresh()
    shutil.rmtree(folder)
    assert run.refresh()
    assert "does not exist any more" in run.status.reason


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b'{"config": {"model": "unknown"}}'),
        ("config.json", b'{"config": {"model": "discrete", "epochs": "x"}}'),
        ("config.json", b"\xff"),
        ("metrics.jsonl", b'{"epoch": 1}\n{"ep\n'),
        ("timing.jsonl", b"[]\n"),
        ("latest", b"checkpoint-7"),
    ],
)
def test_a_corrupt_run_has_a_reason_and_recovers(runs, name, content):
    path = runs / "first" / name
    good = path.read_bytes()
    run = WatchedRun(runs / "first")
    run.refresh()
    assert run.status.state == "finished"
    path.write_bytes(content)
    assert run.refresh()
    assert run.status.state == "broken"
    assert run.status.reason
    path.write_bytes(good)
    assert run.refresh()
    assert run.status.state == "finished"


def test_reading_changes_no_file(runs):
    def snapshot():
        return {path: path.stat().st_mtime_ns for path in runs.rglob("*")}

    before = snapshot()
    for folder in find_runs([runs]):
        WatchedRun(folder).refresh()
    assert snapshot() == before


def test_curves_have_the_values_of_the_rows(runs):
    first, _ = watched = [WatchedRun(runs / name) for name in ("first", "second")]
    for run in watched:
        run.refresh()
    assert list(list_quantities(watched))[:2] == ["−ELBO", "−log p(x)"]
    comparison = draw_comparison(watched, ["a", "b"], "−ELBO", "validation")
    assert [key.name for key in comparison.keys] == ["a", "b"]
    assert len(comparison.figures) == 2
    ends = [-run.rows[-2]["elbo"] for run in watched]
    assert f"a ends at {ends[0]:.2f}; b ends at {ends[1]:.2f}" in comparison.figures[0].svg
    single = draw_comparison([first], ["a"], "−ELBO", "test")
    assert [key.name for key in single.keys] == ["train", "validation", "test"]
    assert dict(list_differing_options(watched)) == {"lr": ["not set", "0.01"], "categories": ["10", "4"]}


def test_a_row_without_a_value_is_a_problem_and_not_an_error(runs):
    path = runs / "first" / "metrics.jsonl"
    path.write_text(json.dumps({"epoch": 1, "step": 1, "split": "test", "elbo": "x"}) + "\n")
    run = WatchedRun(runs / "first")
    run.refresh()
    comparison = draw_comparison([run], ["a"], "−ELBO", "test")
    assert comparison.figures == []
    assert "is broken" in comparison.problems[0]
