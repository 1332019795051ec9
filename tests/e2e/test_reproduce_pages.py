"""`hardmax reproduce` for tables and figures of several kinds, in a subprocess, as a user runs it."""

import json

import pytest
from e2e.commands import reproduce
from experiments.parsed_pages import Html, markdown_tables


def rows(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_grid_that_fills(tmp_path):
    """Two cells of ninety: the other cells are dashes, and the figure of the same runs trains nothing again."""
    reproduce("table1", "--quick", "--only", "mnist-k-10-exact", "omniglot-k-10-direct", "--out", tmp_path / "table1")
    grid, *_ = markdown_tables((tmp_path / "table1" / "results.md").read_text())
    assert len(grid) == 2 + 15
    assert [line[0] for line in grid if any(place[0].isdigit() for place in line[1:])] == [
        "MNIST, k = 10",
        "Omniglot, k = 10",
    ]
    page = (tmp_path / "table1" / "results.html").read_text()
    assert Html(page).tables[0][1:] == [[place.strip("*") for place in line] for line in grid[2:]]
    assert "http" not in page.replace("http-equiv", "")
    assert r"\toprule" in (tmp_path / "table1" / "results.tex").read_text()
    rows = tmp_path / "table1" / "results.jsonl"
    reproduce("figure2", "--quick", "--only", "mnist-k-10-exact", "--rows", rows, "--out", tmp_path / "figure2")
    assert not (tmp_path / "figure2" / "mnist-k-10-exact-seed0").exists()
    assert Html((tmp_path / "figure2" / "results.html").read_text()).tags.count("svg") == 1


@pytest.mark.slow
def test_the_quick_table(tmp_path):
    reproduce("table1", "--quick", "--out", tmp_path)
    for table in markdown_tables((tmp_path / "results.md").read_text()):
        assert len(table) == 2 + 15
        assert not any("–" in line for line in table)


def test_few_labels(tmp_path):
    """Two cells of table 2: percents and nats, each with its own best; a second call trains nothing."""
    cells = ["mnist-300-labels-direct", "mnist-300-labels-posterior-direct-augmentation-consistency"]
    output = reproduce("table2", "--quick", "--only", *cells, "--out", tmp_path)
    assert output.count(" accuracy ") == 2
    accuracy, bound, sampled, _ = markdown_tables((tmp_path / "results.md").read_text())
    all_rows = rows(tmp_path)
    assert [row["cell"] for row in all_rows] == cells
    for grid, key, scale, digits in (
        (accuracy, "accuracy", 100, 1),
        (bound, "negative_elbo", 1, 2),
        (sampled, "accuracy_sampled", 100, 1),
    ):
        line = next(line for line in grid if line[0] == "MNIST, 300 labels")
        numbers = [f"{scale * row['test'][-1][key]:.{digits}f}" for row in all_rows]
        assert [line[1].strip("*"), line[4].strip("*")] == numbers
        best = (min if key == "negative_elbo" else max)(numbers, key=float)
        assert [place.startswith("**") for place in (line[1], line[4])] == [number == best for number in numbers]
    assert "2 of 2 runs are finished already" in reproduce("table2", "--quick", "--only", *cells, "--out", tmp_path)


@pytest.mark.slow
def test_a_gallery(tmp_path):
    """One cell, made by a worker, which also draws the figure of the model; other panels have no image."""
    output = reproduce("figure4", "--quick", "--workers", 1, "--only", "mnist-with-100-labels", "--out", tmp_path)
    assert "results.tex, figure4.png, figure4.svg, results.jsonl" in output
    (table,) = markdown_tables((tmp_path / "results.md").read_text())
    (row,) = rows(tmp_path)
    assert row["look"] == {"rows": 4}
    assert [line[1] for line in table[2:]] == [f"{100 * row['exhibit']['numbers'][0]['agreement']:.1f}"]
    assert Html((tmp_path / "results.html").read_text()).tags.count("image") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("table2", 50), ("table2-ablation", 16), ("table2-grey", 20)),
        *(("few-labels", 2), ("few-labels-ablation", 16), ("figure4", 4)),
    ],
)
def test_quick_forms_of_the_mixed_vae(name, count, tmp_path):
    reproduce(name, "--quick", "--out", tmp_path)
    assert len(rows(tmp_path)) == count
    assert "| not run" not in (tmp_path / "results.md").read_text()


@pytest.mark.slow
def test_attributes_without_faces(tmp_path):
    """The quick form needs no faces; the error of the full form says what is missing."""
    reproduce("figure5", "--quick", "--out", tmp_path / "quick")
    (table,) = markdown_tables((tmp_path / "quick" / "results.md").read_text())
    assert [line[0] for line in table[2:]] == ["shoe", "bright", "all at once", "two samples"]
    (row,) = rows(tmp_path / "quick")
    assert row["exhibit"]["heads"] == ["none", "bright", "shoe", "shoe, bright"]


def test_faces_must_be_provided(tmp_path):
    output = reproduce("figure5", "--out", tmp_path / "out", check=2, environment={"XDG_CACHE_HOME": str(tmp_path)})
    assert output.startswith("hardmax: error: ")
    assert output.count("\n") == 1
    assert "faces64.npz" in output
