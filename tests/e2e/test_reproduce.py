"""`hardmax reproduce` in a subprocess, as a user runs it."""

import json

import pytest
from e2e.commands import reproduce


def test_some_cells_then_the_same_again(tmp_path):
    cells = ["unstructured-gumbel-softmax", "unstructured-direct"]
    output = reproduce("figure3", "--quick", "--only", *cells, cwd=tmp_path)
    out = tmp_path / "hardmax-figure3-quick"
    assert f"the results are in {out.name}" in output
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [row["cell"] for row in rows] == ["unstructured-direct", "unstructured-gumbel-softmax"]
    assert {path.name for path in out.iterdir()} >= {"results.md", "figure3.svg", "figure3.png"}
    assert "2 of 2 runs are finished already" in reproduce("figure3", "--quick", "--only", *cells, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part", "figure", "count"), [
    ("figure1", "likelihood", "figure1", 24),
    ("gradient-quality", "2-evaluations", "gradient-quality-2-evaluations", 38),
])  # fmt: skip
def test_one_part_of_a_measurement(name, part, figure, count, tmp_path):
    output = reproduce(name, "--quick", "--only", part, cwd=tmp_path)
    out = tmp_path / f"hardmax-{name}-quick"
    pages = "results.html, results.md, results.tex"
    assert f"the results are in {out.name}: {pages}, {figure}.png, {figure}.svg, results.jsonl" in output
    assert output.count(f", {part}, ") == count
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [row["part"] for row in rows] == [part] * count


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure1", "gradient-quality"])
def test_quick_measurements(name, tmp_path):
    output = reproduce(name, "--quick", "--out", tmp_path / "out")
    assert "not measured" not in output
    assert "not measured" not in (tmp_path / "out" / "results.md").read_text()


@pytest.mark.slow
def test_the_quick_figure(tmp_path):
    reproduce("figure3", "--quick", "--out", tmp_path / "out")
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 12
    assert "not run" not in (tmp_path / "out" / "results.md").read_text()


def test_lists():
    everything = reproduce("--list")
    for name in ("figure1", "figure3", "gradient-quality"):
        assert f"hardmax reproduce {name}\n" in everything
    assert "29-evaluations  up to 29 evaluations" in reproduce("gradient-quality", "--list")
    output = reproduce("figure3", "--list")
    assert "general-gibbs-covariance" in output
    assert "lr 0.003" in output


@pytest.mark.parametrize(("arguments", "words"), [
    ([], "there are: figure1, table1, figure2"),
    (["figur3"], "did you mean figure3"),
    (["gradient_quality"], "did you mean gradient-quality"),
    (["figure3", "--only", "general"], "its cells are: unstructured-direct"),
    (["figure3", "--seeds", "9"], "its seeds are: "),
    (["figure1", "--seeds", "0"], "--seeds is for experiments of many runs"),
    (["figure1", "--only", "general"], "its parts are: likelihood, bound"),
    (["figure1", "--data-dir", "nowhere", "--out", "OUT"], "nowhere"),
    (["figure3", "--data-dir", "nowhere", "--out", "OUT"], "nowhere"),
])  # fmt: skip
def test_one_clear_line(arguments, words, tmp_path, failing):
    assert words in failing("reproduce", *[tmp_path / "out" if word == "OUT" else word for word in arguments])
