"""`hardmax report`."""

import subprocess
import sys

import pytest

from hardmax.cli.main import main
from hardmax.cli.report import run
from hardmax.errors import ArgumentError, DataError


def test_one_run_is_reported_in_its_folder(trained, capsys):
    folder = trained("categorical")
    assert run([str(folder)]) == 0
    assert capsys.readouterr().out == f"the report is in {folder / 'report.html'}\n"
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_several_runs_are_reported_in_the_current_folder(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run([str(trained("categorical")), str(trained("bits"))]) == 0
    assert capsys.readouterr().out.endswith("the report is in report.html\n")
    assert "2 runs" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_same_run_twice_is_one(trained, tmp_path):
    folder = str(trained("categorical"))
    run([folder, folder + "/", "--out", str(tmp_path / "page.html")])
    assert "<h1>categorical</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_errors_are_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "holds no run" in error
    with pytest.raises(DataError, match="holds no run"):
        run([str(tmp_path / "nowhere")])
    with pytest.raises(ArgumentError, match="hardmax report needs RUNS"):
        run([])


def test_help_needs_no_torch():
    code = (
        "import sys\nfrom hardmax.cli.main import main\n"
        "try: main(['report', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'matplotlib', 'jinja2'} & sys.modules.keys()"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "hardmax report runs/first" in output
