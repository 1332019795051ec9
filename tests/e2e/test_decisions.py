"""Decision models on the command line, in a subprocess: train, evaluate, decide, resume, report, reproduce."""

import json
import subprocess
import sys

import numpy as np
import pytest
from e2e.commands import hardmax

from hardmax.cli.main import main

OPTIONS = ["--grid", 3, "--examples", 64, "--validation-examples", 20, "--test-examples", 40, "--epochs", 2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a small grid."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    output = hardmax("train", "--model", "decisions", "--loss", "fenchel-young", *OPTIONS, "--out", folder)
    assert "shortest paths through a 3 x 3 grid" in output
    assert "loss fenchel-young with 3 noise samples of scale 1" in output
    assert "regret" in output
    return folder


def run_here(capsys, *arguments):
    """Run a command in this process, which is faster, and return its output."""
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def failing(capsys, *arguments):
    assert main([*map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hardmax: error: ")
    assert error.count("\n") == 1
    return error


def test_evaluate(run, capsys):
    numbers = json.loads(hardmax("evaluate", run, "--json", "--checkpoint", "latest"))
    assert numbers["images"] == 40
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["split"] == "test"
    assert numbers["regret"] == pytest.approx(rows[-1]["regret"])
    assert numbers["cost"] / numbers["best_cost"] - 1 == pytest.approx(numbers["regret"])
    assert "20 validation examples" in " ".join(run_here(capsys, "evaluate", run, "--split", "validation").split())


def test_your_own_examples(run, tmp_path, capsys):
    random = np.random.default_rng(0)
    features, costs = random.normal(size=(6, 5)), random.random((6, 12))
    np.savez(tmp_path / "own.npz", features=features, costs=costs)
    numbers = json.loads(run_here(capsys, "evaluate", run, "--json", "--data", tmp_path / "own.npz"))
    assert numbers["images"] == 6
    output = run_here(capsys, "decide", run, tmp_path / "own.npz", "--out", tmp_path / "new" / "decisions.npz")
    assert "6 decisions in" in output
    written = np.load(tmp_path / "new" / "decisions.npz")
    assert written["decisions"].sum(1).tolist() == [4] * 6
    assert numbers["cost"] == pytest.approx((written["decisions"] * costs).sum(1).mean(), rel=1e-5)


def test_resume(run, tmp_path, capsys):
    out = tmp_path / "run"
    base = ["train", "--model", "decisions", "--loss", "fenchel-young", *OPTIONS[:-1]]
    run_here(capsys, *base, 1, "--out", out)
    run_here(capsys, "train", "--resume", "--out", out, "--epochs", 2)
    assert (out / "metrics.jsonl").read_text() == (run / "metrics.jsonl").read_text()
    assert "--degree 2 (the run has 4)" in failing(capsys, "train", "--resume", "--out", out, "--degree", 2)


def test_the_report(run, capsys):
    assert "report.html" in run_here(capsys, "report", run)
    assert "--model decisions" in (run / "report.html").read_text()


def test_bad_input(run, tmp_path, capsys):
    train = ["train", "--model", "decisions", "--out", tmp_path / "run"]
    assert "chess" in failing(capsys, *train, "--data", "chess")
    assert "margin" in failing(capsys, *train, "--loss", "margin")
    assert not (tmp_path / "run").exists()
    assert "cannot be read" in failing(capsys, "evaluate", run, "--data", tmp_path / "nothing.npz")
    assert "--samples is not for runs of --model decisions" in failing(capsys, "evaluate", run, "--samples", 3)
    np.savez(tmp_path / "few.npz", features=np.ones((2, 3)))
    assert "must be numbers of shape [N, 5]" in failing(capsys, "decide", run, tmp_path / "few.npz")


def test_help_without_torch():
    code = "import sys; from hardmax.cli.main import main\ntry: main(['train', '--model', 'decisions', '--help'])\n"
    code += "finally: print('torch' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert "--temperature-end" in output
    assert "adaptive-implicit-mle" in output
    assert "--binarize" not in output
    assert output.rstrip().endswith("False")


def test_reproduce_two_cells(tmp_path, capsys):
    cells = ["path-degree-4-spo", "knapsack-degree-4-expected-regret-exact"]
    run_here(capsys, "reproduce", "decisions", "--quick", "--only", *cells, "--out", tmp_path / "table")
    rows = [json.loads(line) for line in (tmp_path / "table/results.jsonl").read_text().splitlines()]
    assert [row["cell"] for row in rows] == cells
    assert {"regret", "optimal"} <= rows[0]["test"][-1].keys()
    page = (tmp_path / "table/results.md").read_text()
    assert (
        "| | group | path, degree 1 | path, degree 2 | path, degree 4 | path, degree 6 | knapsack, degree 4 |" in page
    )
    assert "| SPO+ | costs and decisions | – | – | " in page
    assert "adaptive I-MLE 7.24 %" in page
