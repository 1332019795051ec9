"""Table 2 from invented rows, from the files of a run to the page: percents, signs and marks."""

import json
from dataclasses import replace

import pytest
from experiments.parsed_pages import markdown_tables

from hardmax.experiments.pages.render import render
from hardmax.experiments.runner.job import make_row
from hardmax.experiments.tables.metrics import ACCURACY
from hardmax.experiments.tables.table2 import TABLE2

CELLS = ("mnist-50-labels-direct", "mnist-50-labels-posterior-direct-augmentation-consistency")
SHARES = {CELLS[0]: (0.92, 0.93, 0.925), CELLS[1]: (0.95, 0.96, 0.955)}
BOUNDS = {CELLS[0]: 90.5, CELLS[1]: 86.0}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows of two cells and three seeds, from folders like those of trainings."""
    out = tmp_path_factory.mktemp("table2")
    rows = []
    for planned in TABLE2.plan(out, only=CELLS):
        name, run = planned.cell.name, out / planned.name
        run.mkdir()
        metrics = {"accuracy": SHARES[name][planned.seed], "accuracy_sampled": SHARES[name][planned.seed] - 0.01}
        test = {"elbo": -BOUNDS[name], "nll": 80.0, "kl": 20.0, "reconstruction": -70.0, **metrics}
        lines = [{"epoch": 1, "step": 9, "split": split, **test} for split in ("train", "validation", "test")]
        lines[0] |= {"accuracy": None, "accuracy_sampled": None, "evaluations": None}
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (run / "timing.jsonl").write_text(json.dumps({"epoch": 1, "train": 9.0, "evaluate": 1.0, "processor": 8.0}))
        (run / "config.json").write_text(json.dumps({"config": {**planned.config.to_dict(), "out": str(run)}}))
        rows.append(make_row("table2", planned, quick=False))
    return rows


def render_grids(rows, out, experiment=TABLE2):
    """Return the grids of a page, without their heads, by caption."""
    runs = experiment.plan(out)
    render(experiment, runs, rows, out, quick=False)
    page = (out / "results.md").read_text()
    captions = [line.strip("*") for line in page.splitlines() if line.startswith("**") and line.endswith("**")]
    return dict(zip(captions, (table[2:] for table in markdown_tables(page)), strict=True))


def test_rows_keep_shares(rows):
    bounds = {"negative_elbo": 90.5, "train_negative_elbo": 90.5, "nll": 80.0, "kl": 20.0}
    assert rows[0]["test"] == [{"epoch": 1, **bounds, "accuracy": 0.92, "accuracy_sampled": 0.91}]
    assert rows[0]["evaluations"] is None
    assert rows[0]["command"].startswith("hardmax train --model mixed ")


def test_percents_beside_the_papers(rows, tmp_path):
    grids = render_grids(rows, tmp_path)
    assert list(grids) == ["Test accuracy", "Test −ELBO", "Test accuracy of a sample", "Seconds per epoch"]
    assert [len(table) for table in grids.values()] == [10] * 4
    assert grids["Test accuracy"][0] == [
        "MNIST, 50 labels", "92.5 ± 0.3<br>paper 92.6 (−0.1)", "–<br>paper 84.7", "–", "**95.5 ± 0.3 †**", "–",
        "92.6<br>+2.9",
    ]  # fmt: skip
    assert grids["Test −ELBO"][0] == [
        "MNIST, 50 labels", "90.50 ± 0.00<br>paper 90.24 (+0.26)", "–<br>paper 91.23", "–", "**86.00 ± 0.00 †**",
        "–", "90.24<br>−4.24",
    ]  # fmt: skip
    sampled = grids["Test accuracy of a sample"][0]  # nothing published
    assert sampled[1:] == ["91.5 ± 0.3", "–", "–", "**94.5 ± 0.3**", "–"]
    assert grids["Test accuracy"][5][1] == "–<br>paper 63.3"


@pytest.mark.parametrize(("planted", "entry"), [
    (replace(ACCURACY, higher=False), "95.5 ± 0.3"), (replace(ACCURACY, scale=1), "**1.0 ± 0.0**"),
])  # fmt: skip
def test_a_sign_turned_round_or_a_percent_forgotten_shows(planted, entry, rows, tmp_path):
    wrong = replace(TABLE2, metrics=(planted, *TABLE2.metrics[1:]))
    assert render_grids(rows, tmp_path, wrong)["Test accuracy"][0][4] == entry
