"""What is in the folder says the same in every format, however few of the runs are there."""

from dataclasses import replace

import pytest
from experiments.parsed_pages import Html, markdown_tables

from hardmax.experiments.pages.render import render
from hardmax.experiments.rows import identify_run
from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Panel, Quick

PROBLEMS = ("letters, k = 2", "digits, k = 2")
TINY = Experiment(
    name="tiny",
    title="Tiny: 100% & more",
    claim="Small is *beautiful*.",
    setting="Made up, `a_b`.",
    options={"epochs": 3},
    cells=tuple(
        Cell(problem, method, method, 1e-3, {"categories": i + 2})
        for problem in PROBLEMS
        for i, method in enumerate("ab")
    ),
    quick=Quick({}, "no smaller"),
    seeds=(0, 1),
    notes=("A note.",),
)
SPLIT = (
    CurvesFigure((tuple(Panel("epoch", problem) for problem in PROBLEMS),)),
    CurvesFigure((tuple(Panel("seconds", problem) for problem in PROBLEMS),), name="-seconds", title=", by time"),
)


def made_up(planned, i):
    """Return a row of a run."""
    test = [
        {"epoch": e + 1, "negative_elbo": 100.0 + i - e, "nll": 99.0 + i - e, "kl": 1.0, "active": 2} for e in range(3)
    ]
    return {
        "cell": planned.cell.name, "seed": planned.seed, "config": identify_run(planned.config), "seconds": [1.0] * 3,
        "seconds_per_epoch": 1.0, "test": test, "command": f"hardmax train --out {planned.name}",
    }  # fmt: skip


def render_pages(experiment, out, count):
    """Render the first runs; return the three pages."""
    runs = experiment.plan(out)
    render(experiment, runs, [made_up(planned, i) for i, planned in enumerate(runs[:count])], out, quick=False)
    assert not list(out.glob("*.tmp"))
    return [(out / f"results.{kind}").read_text() for kind in ("md", "tex", "html")]


def strip_marks(place):
    """Return an entry of a table without its marks."""
    return place.replace("**", "").replace("*", "").replace("~", "").replace("<br>", "").replace("`", "")


@pytest.mark.parametrize("view", ["epochs", "grid"])
@pytest.mark.parametrize("count", [0, 1, 3, 8])  # of four cells and two seeds
def test_all_formats_say_the_same(view, count, tmp_path):
    markdown, latex, html = render_pages(replace(TINY, view=view), tmp_path, count)
    read = Html(html)
    tables = [[line for i, line in enumerate(table) if i != 1] for table in markdown_tables(markdown)]
    assert [[list(map(strip_marks, line)) for line in table] for table in tables] == [
        [list(map(strip_marks, line)) for line in table] for table in read.tables
    ]
    assert latex.count(r"\toprule") == len(tables) == (1 if view == "epochs" else 3)
    best = [r"**100.00 ± 2.00**" in markdown, r"\textbf{100.00 $\pm$ 2.00}" in latex]
    best.append(any("*100.00 ± 2.00*" in line for table in read.tables for line in table))
    assert best == [count == 8] * 3  # 98 and 102 with the two seeds
    for page in (markdown, latex, read.text):
        assert "A note." in page
        assert page.count("hardmax train") == min(count, 4)
        assert ("±" in page or r"$\pm$" in page) == (count == 8)
    assert r"Tiny: 100\% \& more" in latex
    assert "Small is beautiful." in read.text


def test_images_by_name(tmp_path):
    markdown, latex, html = render_pages(replace(TINY, figures=SPLIT), tmp_path, 3)
    for name in ("tiny", "tiny-seconds"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"]({name}.svg)" in markdown
        assert f"{{{name}}}" in latex
    read = Html(html)
    assert read.tags.count("svg") == 2
    assert len(read.ids) == len(set(read.ids)) > 10
    assert all(value.startswith(("#tiny", "url(#tiny")) for value in read.references)
    assert "http" not in html.replace("http-equiv", "")


def test_a_table_may_have_no_image(tmp_path):
    markdown, latex, html = render_pages(replace(TINY, figures=()), tmp_path, 8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.html", "results.md", "results.tex"]
    assert "![" not in markdown
    assert "includegraphics" not in latex
    assert "<svg" not in html
