"""Sequence GANs on the command line, in a subprocess: train, sample, evaluate, report."""

import json
import subprocess
import sys

import pytest
from e2e.commands import hardmax

from hardmax.cli.main import main


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a language of four sentences."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "four.grammar").write_text("s -> a x | b y\nx -> u | v v\ny -> v | u u\n")
    options = ["--length", 3, "--epochs", 3, "--hidden", 32, "--discriminator-hidden", 32, "--lr", 1e-2]
    output = hardmax(
        "train", "--model", "sequence-gan", "--data", folder / "four.grammar", *options, "--out", folder / "run"
    )
    assert "4 sentences of at most 3 tokens" in output
    assert "adversarial training with the reward log-ratio, estimator AveragedDirect" in output
    assert "validity" in output
    return folder / "run"


def failing(capsys, *arguments):
    assert main([*map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hardmax: error: ")
    assert error.count("\n") == 1
    return error


def run_here(capsys, *arguments):
    """Run a command in this process, which is faster, and return its output."""
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_sequences_are_printed(run, tmp_path, capsys):
    lines = hardmax("sample", run, "--count", 30).splitlines()
    assert len(lines) == 30
    assert set(lines) & {"a u", "a v v", "b v", "b u u"}
    assert run_here(capsys, "sample", run, "--count", 30).splitlines() == lines
    assert run_here(capsys, "sample", run, "--count", 30, "--seed", 1).splitlines() != lines
    assert "30 sequences in" in run_here(capsys, "sample", run, "--count", 30, "--out", tmp_path / "new/samples.txt")
    assert (tmp_path / "new/samples.txt").read_text().splitlines() == lines


def test_evaluate(run, capsys):
    numbers = json.loads(run_here(capsys, "evaluate", run, "--json"))
    assert numbers["images"] == 1000
    assert numbers["samples"] == 10_000
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    best = next(row for row in rows if row["split"] == "test" and row["validity"] == pytest.approx(numbers["validity"]))
    assert best["coverage"] == pytest.approx(numbers["coverage"])
    table = " ".join(
        run_here(capsys, "evaluate", run, "--split", "validation").split()
    )  # for any width of the terminal
    assert "500 validation sequences" in table
    assert f"{numbers['validity']:.2%}" in table
    assert "coverage of 4 sentences" in table


def test_the_report(run, capsys):
    output = run_here(capsys, "report", run)
    page = (run / "report.html").read_text()
    assert "report.html" in output
    assert "a language of 4 sentences" in page
    assert "its gradient is estimated by averaged-direct" in page
    assert "Test sequences" in page
    assert "highest log q of the validation sequences" in page
    assert "images" not in page
    assert page.count("<svg viewBox") >= 5
    assert "--model sequence-gan" in page


def test_a_report_on_two_runs_of_text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sees a bird, and a dog likes the cat. " * 20)
    small = [f"--data={tmp_path / 'text.txt'}", "--epochs=1", "--hidden=8", "--batch-size=300"]
    options = ["train", "--model=sequence-gan", *small]
    for estimator in ("exact", "reinmax"):
        assert main([*options, f"--estimator={estimator}", f"--out={tmp_path / estimator}"]) == 0
    assert (
        main(["report", *(str(tmp_path / name) for name in ("exact", "reinmax")), f"--out={tmp_path / 'both.html'}"])
        == 0
    )
    page = (tmp_path / "both.html").read_text()
    assert "it is unknown which sequences are valid" in page
    assert "Coverage by epoch" not in page
    assert "−log q, last epoch" in page


def test_help_without_torch():
    code = "import sys; from hardmax.cli.main import main\ntry: main(['train', '--model', 'sequence-gan', '--help'])\n"
    code += "finally: print('torch' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert "--discriminator-steps" in output
    assert "--binarize" not in output
    assert "--kl" not in output
    assert output.rstrip().endswith("False")


def test_what_is_not_for_sequences(run, capsys):
    assert "--attributes is not for runs of --model sequence-gan" in failing(
        capsys, "sample", run, "--attributes", "a=1"
    )
    assert "--refine is not for runs of --model sequence-gan" in failing(capsys, "evaluate", run, "--refine")
    assert "--model mixed, but" in failing(capsys, "edit", run, "photo.png", "--set", "class=1")


def test_bad_input(tmp_path, capsys):
    train = ["train", "--model", "sequence-gan", "--out", tmp_path / "run"]
    assert "no sequences 'nothing'" in failing(capsys, *train, "--data", "nothing")
    (tmp_path / "bad.grammar").write_text("s = a\n")
    assert "line 1: expected a rule" in failing(capsys, *train, "--data", tmp_path / "bad.grammar")
    assert "length must be at least 2" in failing(capsys, *train, "--length", "1")
    assert not (tmp_path / "run").exists()


def test_reproduce_two_cells(tmp_path, capsys):
    cells = ["agreement-averaged-direct", "brackets-smooth-d-reinmax"]
    run_here(capsys, "reproduce", "sequences", "--quick", "--only", *cells, "--out", tmp_path / "table")
    rows = [json.loads(line) for line in (tmp_path / "table/results.jsonl").read_text().splitlines()]
    assert [row["cell"] for row in rows] == cells
    assert {"validity", "coverage", "entropy", "divergence"} <= rows[0]["test"][-1].keys()
    page = (tmp_path / "table/results.md").read_text()
    assert "| verdict |" in page
    assert "reached by 0 of 1" in page
