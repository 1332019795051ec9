"""Runs and models that were saved before each application got its own folder: they load and give the same results.

`saved/` was written by the code before that change, with tiny networks; `expected.json` has its results for them, but
for numbers that depend on random draws: these are of version 2 of the random numbers (`hardmax.random.VERSION`), and
for those that it did not measure: PSNR and SSIM of a dVAE, and the mean average precision of a hash encoder.
Numbers are compared up to rounding, since faster code adds them in another order. That a run which is interrupted and
resumed by the same code is the same to the last bit is tested with the training loop.
"""

import json
import shutil
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.applications.registry import find_application
from hardmax.applications.runs import load_run, read_config, read_run, render_report
from hardmax.cli.main import main
from hardmax.experiments.rows import find_row, read_results
from hardmax.experiments.tables.registry import NAMES, find_experiment

SAVED = Path(__file__).parent / "saved"
RESULTS = Path(__file__).parents[2] / "docs" / "results"
EXPECTED = json.loads((SAVED / "expected.json").read_text())
RUNS = sorted(EXPECTED["evaluations"])


def is_same(result, expected):
    """Return whether numbers have not changed, except for rounding."""
    if isinstance(expected, dict):
        return list(result) == list(expected) and all(is_same(result[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(result) == len(expected) and all(map(is_same, result, expected))
    if not isinstance(expected, float):
        return result == expected
    return result == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Make a copy of the saved runs the current folder: their data are given by a relative path."""
    folder = tmp_path / "saved"
    shutil.copytree(SAVED, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_evaluate_gives_the_same_results(saved, capsys, name):
    assert main(["evaluate", name, "--json"]) == 0
    results, expected = json.loads(capsys.readouterr().out), EXPECTED["evaluations"][name]
    assert list(results) == list(expected)
    for key, value in expected.items():
        assert is_same(results[key], value), key


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_read_and_reported(saved, name):
    config, facts = read_config(name)
    assert config.to_dict() == {**type(config)().to_dict(), **facts["config"]}  # later options have their defaults
    run = load_run(name)
    assert isinstance(run.model, find_application(config.model).load_model())
    page = render_report([read_run(name)])
    assert page.startswith("<!DOCTYPE html>")
    assert f"<title>{name}" in page


def test_an_interrupted_run_is_resumed(saved, capsys):
    """It was begun with other random numbers, so it goes on with a message."""
    assert main(["train", "--resume", "--out", "interrupted"]) == 0
    assert "random numbers: this version draws other noise" in capsys.readouterr().out
    rows = [json.loads(line) for line in Path("interrupted/metrics.jsonl").read_text().splitlines()]
    assert len(rows) == len(EXPECTED["resumed"])
    for row, expected in zip(rows, EXPECTED["resumed"], strict=True):
        assert list(row) == list(expected)
        assert all(is_same(row[key], value) for key, value in expected.items())


@pytest.mark.parametrize(
    "folder", [*sorted(SAVED.glob("*/checkpoint-*")), SAVED / "gaussian-vae"], ids=lambda f: f.parent.name
)
def test_models_load_by_their_kind(folder):
    kind = json.loads((folder / "config.json").read_text())["model"]
    assert hm.load_model(folder).kind == kind


# Published results, by table. Options that were added later have their defaults.
TABLES = {name: RESULTS / f"{name}.jsonl" for name in NAMES if (RESULTS / f"{name}.jsonl").is_file()}
# Number of rows of each that the code before the change used; of a newer table, which is not listed, all rows.
COUNTS = {
    **{"figure1": 62, "table1": 90, "figure2": 18, "figure6": 72, "figure3": 24, "table2": 53, "table2-ablation": 16},
    **{"table2-grey": 30, "figure4": 4, "figure5": 1, "dvae": 9, "hashing": 16, "completion": 48, "epsilon": 20},
    **{"gradient-quality": 189, "bits-200": 12, "categories-10x30": 12, "sequences": 99},
    **{"decisions": 950, "decisions-maps": 30, "decisions-denoising": 108, "tokenizers": 60},
}
TABLES |= {"figure2": RESULTS / "table1.jsonl", "figure6": RESULTS / "table1.jsonl"}


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_results_are_read_and_belong_to_their_table(name):
    experiment = find_experiment(name)
    rows, broken = read_results(TABLES[name], experiment.planned_row.fields)
    assert broken == []
    assert len(rows) == len(TABLES[name].read_text().splitlines())
    used = [find_row(rows, planned) for planned in experiment.plan(Path("runs"))]
    assert sum(row is not None for row in used) == COUNTS.get(name, len(rows))


def test_no_rows_of_results_are_left_out():
    named = {path.name for path in TABLES.values()} | {
        "decisions-pyepo.jsonl",
        "discrete-vae.jsonl",
        "routers.jsonl",
        "feature-selection.jsonl",
        "segmentation.jsonl",
        "segmentation-heads.jsonl",
        "segmentation-repeatability.jsonl",
        "speed.jsonl",
    }  # written by other tools
    assert {path.name for path in RESULTS.glob("*.jsonl")} == named
