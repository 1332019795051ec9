"""A gallery: models are trained and draw their figures once; a page is made from rows only."""

import json
import math
from dataclasses import replace

import pytest
import torch
from experiments.parsed_pages import Html, markdown_tables

from hardmax.drawing.images import encode_data_uri, make_grid, read_data_uri
from hardmax.experiments.pages import gallery_page
from hardmax.experiments.rows import ModelFigure
from hardmax.experiments.runner.model_figures import FIGURES
from hardmax.experiments.runner.progress import ProgressCallbacks
from hardmax.experiments.runner.reproduce import reproduce
from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Quick
from hardmax.experiments.tables.figure4 import AGREEMENT
from hardmax.experiments.tables.metrics import BOUND, Metric
from hardmax.experiments.tables.registry import find_experiment

TINY = Gallery(
    name="tiny",
    title="Tiny",
    claim="Small is beautiful.",
    setting="The embedded images.",
    options={
        "model": "mixed",
        "epochs": 1,
        "batch_size": 2250,
        "head_epochs": 0,
        "evaluate_images": 20,
        "augment": "none",
    },
    cells=(
        Cell("clothes", "without labels", "ours", 1e-3, {"labels": 0}),
        Cell("clothes", "with labels", "ours", 1e-3, {"labels": 20}),
    ),
    figure=FigureSpec("categories", {"rows": 3}),
    metrics=(AGREEMENT, BOUND),
    notes=("A note.",),
    quick=Quick({"batch_size": 4500}, "one step", figure_options={"rows": 2}),
)


class Log:
    def __init__(self):
        self.finished, self.messages = [], []

    def callbacks(self):
        return ProgressCallbacks(say=self.messages.append, finished=lambda name, result: self.finished.append(name))


def rows(out):
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The tiny gallery, made in one go."""
    out = tmp_path_factory.mktemp("complete")
    assert reproduce(TINY, out).failed == {}
    return out


def copy(complete, tmp_path):
    """Return a folder with the rows and no runs."""
    for name in ("results.jsonl", "experiment.json"):
        (tmp_path / name).write_text((complete / name).read_text())
    return tmp_path


def test_what_a_row_keeps(complete):
    for row, labels in zip(rows(complete), (0, 20), strict=True):
        assert row["look"] == {"rows": 3}
        figure = ModelFigure.from_dict(row["exhibit"])
        assert figure.heads == list("0123456789")
        assert read_data_uri(figure.image).size == (10 * 29 + 1, 3 * 29 + 1)
        assert 0 <= figure.numbers[0]["agreement"] <= 1
        if not labels:  # a matching is at least as good as chance
            assert figure.numbers[0]["agreement"] >= 0.1


def test_a_page_from_rows_only(complete, tmp_path):
    out, log = copy(complete, tmp_path), Log()
    assert reproduce(TINY, out, callbacks=log.callbacks()).failed == {}
    assert log.finished == []
    assert not list(out.glob("clothes*"))
    for name in ("results.md", "tiny.svg"):
        assert (out / name).read_text() == (complete / name).read_text()
    page = (out / "results.md").read_text()
    (table,) = markdown_tables(page)
    share = rows(complete)[0]["exhibit"]["numbers"][0]["agreement"]
    assert table[2][:2] == ["clothes, without labels", f"{100 * share:.1f}"]
    assert float(table[3][2]) == pytest.approx(rows(complete)[1]["test"][-1]["negative_elbo"], abs=0.01)
    assert "agreement in percent, higher is better; −ELBO in nats, lower is better." in page
    html = Html((out / "results.html").read_text())
    assert html.tags.count("svg") == 1
    assert all(value.startswith(("#tiny", "url(#tiny", "data:image/png")) for value in html.references)


def test_another_figure_is_drawn_again_and_nothing_trained(complete, tmp_path):
    assert reproduce(TINY, tmp_path).failed == {}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/latest")}
    log = Log()
    other = replace(TINY, figure=FigureSpec("categories", {"rows": 1}))
    assert reproduce(other, tmp_path, callbacks=log.callbacks()).failed == {}
    assert len(log.finished) == len(before) == 2
    assert all(path.stat().st_mtime_ns == moment for path, moment in before.items())
    assert [row["look"]["rows"] for row in rows(tmp_path)] == [3, 3, 1, 1]


def test_the_quick_form_draws_less(tmp_path):
    assert reproduce(TINY, tmp_path, quick=True, only=["clothes-with-labels"]).failed == {}
    assert [row["look"] for row in rows(tmp_path)] == [{"rows": 2}]
    assert "quick form" in (tmp_path / "results.md").read_text()
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")


def refuse(config, *, rows):
    """Draw nothing."""
    raise RuntimeError("it is dark")


def test_a_figure_that_fails_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(FIGURES, "dark", refuse)
    dark = replace(TINY, figure=FigureSpec("dark", {"rows": 3}))
    result = reproduce(dark, tmp_path, only=["clothes-with-labels"])
    assert result.failed == {"clothes-with-labels-seed0": "RuntimeError: it is dark"}


LINES = (
    {"of": "smiling", "recognised": 0.875, "pixels": 0.1},
    {"of": "two samples", "recognised": None, "pixels": 0.2},
)
INVENTED = replace(
    TINY,
    cells=TINY.cells[:1],
    metrics=(
        Metric("recognised", "recognised", "percent", higher=True, scale=100, digits=1),
        Metric("pixels", "pixels"),
    ),
)


def panels_of(gallery, numbers, tmp_path):
    image = encode_data_uri(make_grid(torch.rand(8, 3, 6, 6), columns=4))
    row = {"test": [{"negative_elbo": 1.0, "pixels": 9.0}], "command": "hardmax train"}
    return [
        gallery_page.GalleryPanel(run, row, ModelFigure(image, list("abcd"), 2, numbers))
        for run in gallery.plan(tmp_path)
    ]


def test_several_lines_of_numbers(tmp_path):
    """One cell needs no name; a missing number is a dash, and numbers of the training are not shown."""
    _, table = gallery_page.build_gallery_tables(INVENTED, panels_of(INVENTED, LINES, tmp_path))
    assert [[entry.text for entry in line] for line in table.lines] == [
        ["smiling", "87.5", "0.10"],
        ["two samples", "–", "0.20"],
    ]
    both = replace(INVENTED, cells=TINY.cells, seeds=(0, 1))
    _, table = gallery_page.build_gallery_tables(both, panels_of(both, LINES, tmp_path))
    assert len(table.lines) == 8
    assert table.lines[6][0].text == "clothes, with labels, seed 1, smiling"


def test_methods_are_compared_where_each_problem_has_a_table(tmp_path):
    gallery = find_experiment("completion")
    gallery = replace(gallery, cells=gallery.cells[:12], seeds=(0,), metrics=INVENTED.metrics)
    panels = panels_of(gallery, [{"recognised": 0.5}], tmp_path)
    worse = replace(panels[1], figure=replace(panels[1].figure, numbers=[{"recognised": math.nan}]))
    better = replace(panels[2], figure=replace(panels[2].figure, numbers=[{"recognised": 0.75}]))
    _, first, second = gallery_page.build_gallery_tables(gallery, [panels[0], worse, better, *panels[6:]])
    assert (first.caption, second.caption) == ("MNIST, 1 quadrant", "MNIST, 2 quadrants")
    assert [line[0].text for line in first.lines] == ["network", "CVAE", "k = 1"]
    assert [(line[1].text, line[1].best) for line in first.lines] == [
        ("50.0", False),
        ("not finite", False),
        ("75.0", True),
    ]


def test_cells_that_have_not_run_are_labelled(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(gallery_page, "save_figure", lambda figure, files: figures.append(figure))
    gallery_page.draw_gallery(TINY, panels_of(TINY, [{"agreement": 0.5}], tmp_path)[:1], "tiny", {}, quick=False)
    first, second = figures[0].axes
    assert first.get_title(loc="left") == "clothes, without labels: agreement 50.0 percent"
    assert [text.get_text() for text in first.get_xticklabels()] == list("abcd")
    assert len(first.images) == 1
    assert [text.get_text() for text in second.texts] == ["not run"]
    gallery_page.draw_gallery(TINY, [], "tiny", {}, quick=True)
    assert figures[1].get_suptitle() == "Tiny (quick form)"


def test_many_methods_get_a_figure_for_each_problem():
    figures = gallery_page.arrange_panels(find_experiment("completion"))
    assert len(figures) == 8
    assert next(iter(figures)) == "completion-mnist-1-quadrant"
    for lines in figures.values():
        assert [len(line) for line in lines] == [2, 2, 2]
        assert len({cell.problem for line in lines for cell in line}) == 1
        assert [cell.method for line in lines for cell in line][3:] == ["k = 4", "k = 8", "published"]
    assert list(gallery_page.arrange_panels(find_experiment("figure4"))) == ["figure4"]
