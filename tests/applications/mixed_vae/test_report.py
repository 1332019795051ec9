"""Reports of mixed VAEs: predictions, samples, pages."""

import re

import pytest
import torch

from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.report import draw_samples
from hardmax.applications.mixed_vae.report_labels import (
    Meaning,
    Predictions,
    arrange_columns,
    count_confusion,
    predict,
    read_meaning,
)
from hardmax.applications.mixed_vae.task import evaluate
from hardmax.applications.runs import read_run, render_report
from hardmax.data.mnist import CLASS_NAMES
from hardmax.errors import ArgumentError
from hardmax.spaces import Binary
from hardmax.training.run_folder import read_rows

SECTIONS = ["numbers", "curves", "samples", "reconstructions", "predictions", "configuration"]
CLASSES = Meaning(("class",), 3, attributes=False)


def predictions(found, labels):
    found, labels = torch.tensor(found), torch.tensor(labels)
    return Predictions(found, labels, torch.full(labels.shape, 0.5).where(labels >= 0, 0.0))


def words(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


@pytest.mark.parametrize("kind", ["classes", "attributes"])
def test_predictions_are_those_that_were_logged(trained, kind):
    run = read_run(trained(kind))
    found = predict(run.model, read_meaning(run.config, run.model.space, run.facts), run.pictures, batch_size=7)
    assert found.accuracy() == pytest.approx(run.best.accuracy)
    # what was logged is of one draw of each variable, ours is the mean over all draws
    count = int(found.counted.sum())
    assert found.accuracy_sampled() == pytest.approx(run.best.accuracy_sampled, abs=5 * (0.25 / count) ** 0.5)
    drawn = [evaluate(run.model, run.pictures, seed=seed)["accuracy_sampled"] for seed in range(30)]
    spread = torch.tensor(drawn).std().item() / 30**0.5
    assert sum(drawn) / 30 == pytest.approx(found.accuracy_sampled(), abs=5 * spread + 1e-6)


def test_accuracies_count_what_is_labelled():
    found = predictions([[1, 0], [1, 1], [0, 0]], [[1, -1], [0, 1], [-1, -1]])
    assert found.accuracy(0) == 0.5
    assert found.accuracy(1) == 1.0
    assert found.accuracy() == pytest.approx(2 / 3)
    assert found.accuracy_sampled() == 0.5
    assert predictions([[1]], [[-1]]).accuracy() is None


def test_confusion_of_classes():
    found = predictions([[0], [0], [1], [2]], [[0], [1], [1], [-1]])
    table = count_confusion(CLASSES, found, "a")
    assert table.headings == ["class", "0", "1", "2"]
    assert [[cell.text for cell in cells] for _, cells in table.rows] == [["1", "", ""], ["1", "1", ""], ["", "", ""]]
    assert [cell.shade for cell in table.rows[1][1]] == [0.5, 0.5, 0]
    assert count_confusion(CLASSES, predictions([[0]], [[-1]]), "a") is None
    # more classes than categories
    assert len(count_confusion(CLASSES, predictions([[0]], [[4]]), "a").rows) == 5
    many = count_confusion(Meaning(("category",), 24, attributes=False), predictions([[3]], [[4]]), "a")
    assert many.figure is not None
    assert not many.rows


def test_attributes_one_by_one():
    meaning = Meaning(("red", "big"), 2, attributes=True)
    table = count_confusion(meaning, predictions([[1, 0], [1, 0]], [[1, -1], [0, -1]]), "a")
    assert [(name, [cell.text for cell in cells]) for name, cells in table.rows] == [
        ("red", ["50.0 %", "50.0 %", "50.0 %", "100 %"]),
        ("big", ["no labels", "", "", ""]),
    ]


def test_rows_of_samples_differ_in_what_the_columns_set_alone():
    torch.manual_seed(0)
    model = MixedVAE.build(Binary(3), (1, 4, 4), join="beside", continuous=2, hidden=8)
    meaning = Meaning(("a", "b", "c"), 2, attributes=True)
    columns = arrange_columns(meaning, {2: 1}, [0])
    found = draw_samples(model, meaning, columns, 5, torch.Generator().manual_seed(1))
    _, drawn, z_c = model.sample(5, generator=torch.Generator().manual_seed(1))
    assert found.pictures.shape == (5, 2, 1, 4, 4)
    for row in range(5):
        assert found.rows[row] == f"b={int(drawn[row, 1])}"
        for value in (0, 1):
            z = torch.tensor([[value, drawn[row, 1], 1.0]])
            torch.testing.assert_close(found.pictures[row, value], model.decode(z, z_c[row : row + 1])[0])
    alone = arrange_columns(meaning)
    assert draw_samples(model, meaning, alone, 2, torch.Generator()).rows == ["", ""]


@pytest.mark.parametrize("kinds", [["classes"], ["attributes"], ["unlabelled"], ["classes", "unlabelled"]])
def test_page_is_whole_and_self_contained(page, kinds):
    text = page(*kinds)
    assert re.findall(r'<section id="(.*?)">', text) == SECTIONS
    assert not re.search(r"https?://|@import|<script", text)
    assert set(re.findall(r'href="#([a-z]+)"', text)) == set(SECTIONS)
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', text))


def test_page_is_the_same_every_time(trained, page):
    assert render_report([read_run(trained("classes"))]) == page("classes")


def test_page_of_classes(trained, page):
    text = page("classes")
    rows = read_rows(trained("classes") / "metrics.jsonl")
    best = max((row for row in rows if row["split"] == "validation"), key=lambda row: row["elbo"])["epoch"]
    row = next(row for row in rows if row["split"] == "test" and row["epoch"] == best)
    found = words(text)
    for value in (-row["elbo"], row["nll"], -row["reconstruction"], row["kl"]):
        assert f"{value:,.2f}" in found
    for name in ("accuracy", "accuracy_sampled"):
        assert f"{100 * row[name]:.2f} %" in found
    assert "100 of 4,500" in found
    assert "one of 10 categories, and 4 continuous dimensions for each, trained on sample" in found
    assert "100 labels taught it through the arg max" in found
    assert "Accuracy by epoch" in found
    assert [alt for alt in re.findall(r'alt="(.*?)"', text) if "drawn" in alt] == [
        f"6 pictures drawn with class {name}" for name in CLASS_NAMES["fashion-mnist"]
    ]
    assert text.count("above its reconstruction") == 12
    assert text.count('class="wrong"') == text.count("<br>wrong")
    assert "hardmax train --model mixed" in text


def test_wrong_predictions_are_marked(trained, page):
    run = read_run(trained("classes"))
    found = predict(run.model, read_meaning(run.config, run.model.space, run.facts), run.pictures)
    shown = [i * len(run.pictures) // 12 for i in range(12)]
    wrong = sum(not found.right[i] for i in shown)
    assert 0 < wrong < 12
    assert page("classes").count("<br>wrong") == wrong
    assert "<br>wrong" not in page("unlabelled")


def test_page_of_attributes(page):
    text = page("attributes")
    found = words(text)
    assert "a bit for each of 2 attributes (red, on_the_right) and 4 continuous dimensions beside" in found
    assert "6 pictures drawn with red 1, on_the_right 0" in text
    assert "right, arg max" in found
    assert "40 of 192" in found


def test_without_labels(page):
    found = words(page("unlabelled"))
    assert "Without labels: the categories found meanings of their own." in found
    assert "Shown are 20 of 24 columns." in found
    assert "How much of each class, by row, is taken for each category" in found


def test_several_runs(trained, page):
    text = page("classes", "unlabelled")
    found = words(text)
    assert "Test accuracy by epoch" in found
    assert "The best of a column is bold" in found
    best = max(read_run(trained(kind)).best.accuracy for kind in ("classes", "unlabelled"))
    assert f"<strong>{100 * best:.2f} %</strong>" in text


def test_runs_of_different_models_have_no_page(trained):
    runs = [read_run(trained(kind)) for kind in ("classes", "categorical")]
    with pytest.raises(ArgumentError, match=r"runs of one model, but .*classes is mixed and .*categorical is discrete"):
        render_report(runs)
