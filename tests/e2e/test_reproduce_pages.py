"""`hardmax reproduce table1` and the figures that are made of its runs, in a subprocess, as a user meets them."""

import os
import subprocess
import sys

import pytest
from unit.experiments.pages import Html, markdown_tables


def hardmax(*arguments):
    """Run a command."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("HARDMAX_DATA", None)
    command = [sys.executable, "-m", "hardmax.cli.main", "reproduce", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout


def test_a_grid_that_fills(tmp_path):
    """Two cells of ninety: the others leave dashes, and the figure of the same runs trains nothing again."""
    hardmax("table1", "--quick", "--only", "mnist-k-10-exact", "omniglot-k-10-direct", "--out", tmp_path / "table1")
    grid, *_ = markdown_tables((tmp_path / "table1" / "results.md").read_text())
    assert len(grid) == 2 + 15
    assert [line[0] for line in grid if any(place[0].isdigit() for place in line[1:])] == [
        "MNIST, k = 10",
        "Omniglot, k = 10",
    ]
    page = (tmp_path / "table1" / "results.html").read_text()
    assert Html(page).tables[0][1:] == [[place.strip("*") for place in line] for line in grid[2:]]
    assert "http" not in page
    assert r"\toprule" in (tmp_path / "table1" / "results.tex").read_text()
    rows = tmp_path / "table1" / "results.jsonl"
    hardmax("figure2", "--quick", "--only", "mnist-k-10-exact", "--rows", rows, "--out", tmp_path / "figure2")
    assert not (tmp_path / "figure2" / "mnist-k-10-exact-seed0").exists()
    assert Html((tmp_path / "figure2" / "results.html").read_text()).tags.count("svg") == 1


@pytest.mark.slow
def test_the_quick_table(tmp_path):
    hardmax("table1", "--quick", "--out", tmp_path)
    for table in markdown_tables((tmp_path / "results.md").read_text()):
        assert len(table) == 2 + 15
        assert not any("–" in line for line in table)
