"""A new application is one folder and one record: the folder `kmeans/` next to this file, and the record below."""

import json

import pytest

import hardmax as hm
from hardmax.applications import registry
from hardmax.applications.explorer_controls import press
from hardmax.applications.registry import Application, SummaryNumber
from hardmax.cli.main import main
from hardmax.studio.explorer.state import ExplorerCache
from hardmax.training.config import Metrics
from hardmax.training.run_folder import read_rows

RECORD = Application(
    name="k-means",
    help="clusters of images, each of which has a centre",
    package="applications.kmeans",
    config="config:KMeansConfig",
    task="task:KMeansTask",
    model="model:KMeans",
    kind="k-means",
    report="report:KMeansReport",
    explorer="explorer:KMeansExplorer",
    evaluate="commands:evaluate",
    metrics=Metrics(("distance", "used"), criterion="distance", higher_is_better=False),
    row_metrics=("distance",),
    summary=(SummaryNumber("distance", "distance"),),
    comparable=("binarize",),
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(registry, "APPLICATIONS", (*registry.APPLICATIONS, RECORD))


@pytest.fixture
def run(tmp_path):
    """Train through the command line, and return the folder."""
    out = tmp_path / "run"
    words = ["--model", "k-means", "--clusters", "6", "--epochs", "3", "--batch-size", "500", "--lr", "0.01"]
    assert main(["train", *words, "--out", str(out)]) == 0
    return out


def test_train_evaluate_and_report(run, capsys):
    rows = [row for row in read_rows(run / "metrics.jsonl") if row["split"] == "test"]
    assert rows[-1]["distance"] < rows[0]["distance"]
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["images"] == 1000
    assert numbers["distance"] == pytest.approx(rows[-1]["distance"], rel=1e-4)
    assert main(["report", str(run), str(run), "--out", str(run / "page.html")]) == 0
    page = (run / "page.html").read_text()
    assert "6 clusters" in page
    assert page.count("<img") >= 6


def test_the_best_checkpoint_has_the_smallest_distance(run):
    rows = [row for row in read_rows(run / "metrics.jsonl") if row["split"] == "validation"]
    best = min(rows, key=lambda row: row["distance"])
    assert (run / "best").read_text().strip() == f"checkpoint-{best['step']}"
    assert hm.load_model(run / (run / "best").read_text().strip()).kind == "k-means"


def test_it_is_resumed_and_listed(run, capsys):
    assert main(["train", "--resume", "--model", "k-means", "--epochs", "4", "--out", str(run)]) == 0
    assert read_rows(run / "metrics.jsonl")[-1]["epoch"] == 4
    capsys.readouterr()
    assert main(["train", "--model", "kmeans"]) == 2
    assert "did you mean k-means?" in capsys.readouterr().err
    assert main(["sample", str(run)]) == 2
    assert "is one of --model k-means" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "--model", "k-means", "--help"])
    assert "--clusters" in capsys.readouterr().out


def test_the_studio_explores_it(run):
    explorer = ExplorerCache().load(run)
    state = explorer.start()
    view = explorer.draw(state, None)[1]
    chosen = explorer.update(
        {**state, "cluster": press(explorer.controls[1], state["cluster"], 2)}, "cluster", None, state
    )
    assert len(view.tiles) == 6
    assert view.chosen == state["cluster"][0]
    assert explorer.draw(chosen, None)[1].chosen == 2
    exec(explorer.write_python(state), {})
