"""The page that compares our numbers with published ones is up to date, and a wrong number would be noticed."""

import json
import re
from dataclasses import replace

import pytest
import write_overview as overview

from hardmax.experiments.tables.metrics import ACCURACY, BOUND


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of rows with two cells, one of them with two seeds, of which the first was made twice."""
    rows = [
        {"cell": "a", "seed": 0, "test": [{"negative_elbo": 3.0}, {"negative_elbo": 9.0}]},
        {"cell": "a", "seed": 0, "test": [{"negative_elbo": 2.0}]},
        {"cell": "a", "seed": 1, "test": [{"negative_elbo": 4.0}]},
        {"cell": "b", "seed": 0, "test": [{"negative_elbo": 8.0}], "exhibit": {"numbers": [{"negative_elbo": 3.5}]}},
        {"cell": "of others", "seed": 0, "test": [{"negative_elbo": 0.0}]},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(overview, "RESULTS", tmp_path)
    return overview.Comparison("task", BOUND, overview.Published(3.2, "they"), "rows", ("a", "b", "missing"))


def test_page_is_up_to_date():
    assert overview.main(["--check"]) == 0, "run tools/write_overview.py"


def test_changed_row_is_noticed(tmp_path, monkeypatch):
    for file in overview.RESULTS.glob("*.jsonl"):
        text = file.read_text()
        (tmp_path / file.name).write_text(text.replace("140.0", "139.0") if file.name == "table1.jsonl" else text)
    monkeypatch.setattr(overview, "RESULTS", tmp_path)
    assert overview.main(["--check"]) == 1


def test_links_and_rows_exist():
    files = re.findall(r"\]\(([^#)]+)\)", overview.PAGE.read_text().split("Other tasks")[0])
    assert len(files) > 20
    assert all((overview.RESULTS / file).exists() for file in files)
    for comparison in overview.COMPARISONS:
        ours = overview.find_ours(comparison)
        assert ours is None or all(row["command"].startswith("hardmax train") for row in ours.rows)


def test_best_of_ours_is_the_mean_over_seeds(results):
    ours = overview.find_ours(results)
    assert (ours.cell, ours.mean.value, len(ours.rows)) == ("a", 3.0, 2)
    line = overview._format_line(results, ours)
    assert "[3.00 ± 1.00](rows.md)" in line
    assert "**−0.20**" in line
    worse = replace(results, published=overview.Published(2.9, "they", is_checked=False))
    assert "| +0.10 | [2](rows.jsonl) |" in overview._format_line(worse, ours)
    assert "2.90*" in overview._format_line(worse, ours)


def test_direction_and_missing_rows(results):
    assert overview.find_ours(replace(results, ours=("missing",))) is None
    assert overview.find_ours(replace(results, page="no such file")) is None
    higher = replace(results, metric=replace(ACCURACY, key="negative_elbo", scale=1))
    assert overview.find_ours(higher).cell == "b"  # by the numbers of its figure
