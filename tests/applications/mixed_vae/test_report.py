"""Reports of mixed VAEs: predictions, samples, pages."""

import re

import pytest
import torch

from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.report import draw_samples
from hardmax.applications.mixed_vae.report_labels import (
    LatentNames,
    Predictions,
    arrange_columns,
    make_confusion,
    predict,
    read_latent_names,
)
from hardmax.applications.mixed_vae.task import evaluate
from hardmax.applications.runs import read_run, render_report
from hardmax.data.mnist import CLASS_NAMES
from hardmax.errors import ArgumentError
from hardmax.spaces import Binary
from hardmax.training.run_folder import read_rows

SECTIONS = ["numbers", "curves", "samples", "reconstructions", "predictions", "configuration"]
CLASSES = LatentNames(("class",), 3, has_attributes=False)


def make_predictions(predicted, labels):
    predicted, labels = torch.tensor(predicted), torch.tensor(labels)
    return Predictions(predicted, labels, torch.full(labels.shape, 0.5).where(labels >= 0, 0.0))


def read_text(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


@pytest.mark.parametrize("kind", ["classes", "attributes"])
def test_predictions_agree_with_the_log(trained, kind):
    run = read_run(trained(kind))
    predictions = predict(
        run.model, read_latent_names(run.config, run.model.space, run.facts), run.test_examples, batch_size=7
    )
    assert predictions.accuracy() == pytest.approx(run.best.accuracy)
    # the log has one sample of each variable, the prediction is the mean over all samples
    count = int(predictions.is_labelled.sum())
    assert predictions.accuracy_sampled() == pytest.approx(run.best.accuracy_sampled, abs=5 * (0.25 / count) ** 0.5)
    sampled = [evaluate(run.model, run.test_examples, seed=seed)["accuracy_sampled"] for seed in range(30)]
    spread = torch.tensor(sampled).std().item() / 30**0.5
    assert sum(sampled) / 30 == pytest.approx(predictions.accuracy_sampled(), abs=5 * spread + 1e-6)


def test_accuracies_count_what_is_labelled():
    predictions = make_predictions([[1, 0], [1, 1], [0, 0]], [[1, -1], [0, 1], [-1, -1]])
    assert predictions.accuracy(0) == 0.5
    assert predictions.accuracy(1) == 1.0
    assert predictions.accuracy() == pytest.approx(2 / 3)
    assert predictions.accuracy_sampled() == 0.5
    assert make_predictions([[1]], [[-1]]).accuracy() is None


def test_confusion_of_classes():
    predictions = make_predictions([[0], [0], [1], [2]], [[0], [1], [1], [-1]])
    table = make_confusion(CLASSES, predictions, "a")
    assert table.headings == ["class", "0", "1", "2"]
    assert [[cell.text for cell in cells] for _, cells in table.rows] == [["1", "", ""], ["1", "1", ""], ["", "", ""]]
    assert [cell.shade for cell in table.rows[1][1]] == [0.5, 0.5, 0]
    assert make_confusion(CLASSES, make_predictions([[0]], [[-1]]), "a") is None
    # more classes than categories
    assert len(make_confusion(CLASSES, make_predictions([[0]], [[4]]), "a").rows) == 5
    many = make_confusion(LatentNames(("category",), 24, has_attributes=False), make_predictions([[3]], [[4]]), "a")
    assert many.figure is not None
    assert not many.rows


def test_attributes_one_by_one():
    latent = LatentNames(("red", "big"), 2, has_attributes=True)
    table = make_confusion(latent, make_predictions([[1, 0], [1, 0]], [[1, -1], [0, -1]]), "a")
    assert [(name, [cell.text for cell in cells]) for name, cells in table.rows] == [
        ("red", ["50.0 %", "50.0 %", "50.0 %", "100 %"]),
        ("big", ["no labels", "", "", ""]),
    ]


def test_rows_of_samples_differ_only_in_what_the_columns_set():
    torch.manual_seed(0)
    model = MixedVAE.build(Binary(3), (1, 4, 4), join="beside", continuous=2, hidden=8)
    latent = LatentNames(("a", "b", "c"), 2, has_attributes=True)
    columns = arrange_columns(latent, {2: 1}, [0])
    samples = draw_samples(model, latent, columns, 5, torch.Generator().manual_seed(1))
    _, drawn, z_c = model.sample(5, generator=torch.Generator().manual_seed(1))
    assert samples.images.shape == (5, 2, 1, 4, 4)
    for row in range(5):
        assert samples.rows[row] == f"b={int(drawn[row, 1])}"
        for value in (0, 1):
            z = torch.tensor([[value, drawn[row, 1], 1.0]])
            torch.testing.assert_close(samples.images[row, value], model.decode(z, z_c[row : row + 1])[0])
    columns = arrange_columns(latent)
    assert draw_samples(model, latent, columns, 2, torch.Generator()).rows == ["", ""]


@pytest.mark.parametrize("kinds", [["classes"], ["attributes"], ["unlabelled"], ["classes", "unlabelled"]])
def test_page_is_complete_and_self_contained(page, kinds):
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
    words = read_text(text)
    for value in (-row["elbo"], row["nll"], -row["reconstruction"], row["kl"]):
        assert f"{value:,.2f}" in words
    for name in ("accuracy", "accuracy_sampled"):
        assert f"{100 * row[name]:.2f} %" in words
    assert "100 of 4,500" in words
    assert "one of 10 categories, and 4 continuous dimensions for each, trained on sample" in words
    assert "Trained with 100 labels, through the arg max" in words
    assert "Accuracy by epoch" in words
    assert [alt for alt in re.findall(r'alt="(.*?)"', text) if "samples" in alt] == [
        f"6 samples with class {name}" for name in CLASS_NAMES["fashion-mnist"]
    ]
    assert text.count("above its reconstruction") == 12
    assert text.count('class="wrong"') == text.count("<br>wrong")
    assert "hardmax train --model mixed" in text


def test_wrong_predictions_are_marked(trained, page):
    run = read_run(trained("classes"))
    predictions = predict(run.model, read_latent_names(run.config, run.model.space, run.facts), run.test_examples)
    index = [i * len(run.test_examples) // 12 for i in range(12)]
    wrong = sum(not predictions.is_correct[i] for i in index)
    assert 0 < wrong < 12
    assert page("classes").count("<br>wrong") == wrong
    assert "<br>wrong" not in page("unlabelled")


def test_page_of_attributes(page):
    text = page("attributes")
    words = read_text(text)
    assert "a bit for each of 2 attributes (red, on_the_right) and 4 continuous dimensions," in words
    assert "6 samples with red 1, on_the_right 0" in text
    assert "correct, arg max" in words
    assert "40 of 192" in words


def test_without_labels(page):
    words = read_text(page("unlabelled"))
    assert "Trained without labels: the categories need not correspond to classes." in words
    assert "20 of 24 columns are shown." in words
    assert "each class (row) that are classified as each category (column)" in words


def test_several_runs(trained, page):
    text = page("classes", "unlabelled")
    words = read_text(text)
    assert "Test accuracy by epoch" in words
    assert "The best of a column is bold" in words
    best = max(read_run(trained(kind)).best.accuracy for kind in ("classes", "unlabelled"))
    assert f"<strong>{100 * best:.2f} %</strong>" in text


def test_runs_of_different_models_have_no_page(trained):
    runs = [read_run(trained(kind)) for kind in ("classes", "categorical")]
    with pytest.raises(ArgumentError, match=r"runs of one model, but .*classes is mixed and .*categorical is discrete"):
        render_report(runs)
