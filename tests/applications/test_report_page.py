"""The page of a report: complete, self-contained, the same every time, with the numbers of the run."""

import base64
import html
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from hardmax.applications.runs import read_run, render_report
from hardmax.errors import ArgumentError, DataError
from hardmax.report.page import write_page
from hardmax.training.run_folder import read_rows

SECTIONS = ["numbers", "curves", "codes", "reconstructions", "samples", "usage", "configuration"]
STRUCTURED = ["pairwise", "supermodular", "many", "subset", "chain", "permutation", "tree"]
KINDS = ["categorical", "direct", "variables", "bits", "gaussian", "rgb", "rgb-categorical", *STRUCTURED]
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Parses a page: checks that all tags are closed in order, and keeps tags, text and the start of each section."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.at = [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "section":
            self.at[attributes["id"]] = len(self.text)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data.split()

    def values(self, name):
        return [attributes[name] for _, attributes in self.tags if name in attributes]

    def section(self, name):
        """Return the words of a section, with single spaces."""
        ends = sorted([*self.at.values(), len(self.text)])
        begin = self.at[name]
        return " ".join(self.text[begin : next(end for end in ends if end > begin)])


@pytest.mark.parametrize(
    "kinds", [[kind] for kind in KINDS] + [["categorical", "bits"], ["rgb", "rgb-categorical"], STRUCTURED]
)
def test_page_is_complete_and_self_contained(page, kinds):
    text = page(*kinds)
    parsed = Page(text)
    assert [attributes["id"] for tag, attributes in parsed.tags if tag == "section"] == SECTIONS
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert "url(" not in text.replace("url(#", "")
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    for reference in parsed.values("href") + parsed.values("xlink:href"):
        assert reference.startswith("#")
        assert reference[1:] in ids
    for reference in re.findall(r"url\(#([^)]*)\)", text):
        assert reference in ids
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    assert all(image["alt"] for image in images)
    assert all(attributes["aria-label"] for tag, attributes in parsed.tags if tag == "svg" and "role" in attributes)
    for image in images:
        head, code = image["src"].split(",")
        assert head == "data:image/png;base64"
        size = Image.open(io.BytesIO(base64.b64decode(code))).size
        assert size == (int(image["width"]), int(image["height"]))


def test_page_is_the_same_every_time(trained):
    runs = [trained("categorical"), trained("bits")]
    assert render_report([read_run(run) for run in runs]) == render_report([read_run(run) for run in runs])


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_the_run(trained, page, kind):
    rows = read_rows(trained(kind) / "metrics.jsonl")
    best = max((row for row in rows if row["split"] == "validation"), key=lambda row: row["elbo"])["epoch"]
    test = {row["epoch"]: row for row in rows if row["split"] == "test"}
    numbers = Page(page(kind)).section("numbers")
    for epoch in (best, max(test)):
        row = test[epoch]
        values = (-row["elbo"], row["nll"], -row["elbo"] - row["nll"], -row["reconstruction"], row["kl"])
        for value in values:
            assert f"{value + 0.0:,.2f}".replace("-", "−") in numbers
        assert f"{row['active']} of" in numbers
    assert f"best epoch, {best}" in numbers
    assert "Seconds per epoch" in numbers


def test_what_was_trained_on_what(page):
    words = " ".join(Page(page("categorical")).text)
    assert "one categorical variable of 10 values, trained on sample (4,500 images of 28 × 28)" in words
    assert "Estimator exact (as asked)" in words
    assert "6 bits" in page("bits")
    assert "4 categorical variables of 3 values" in page("variables")
    assert "RGB" in page("rgb")


def test_every_category_has_an_image(page):
    alts = [alt for alt in Page(page("categorical")).values("alt") if alt.startswith("category")]
    assert [alt.removesuffix(", unused") for alt in alts] == [f"category {i}" for i in range(10)]
    text = page("gaussian")
    assert len([alt for alt in Page(text).values("alt") if alt.startswith("category")]) == 100
    assert "Only the 100 most used of 120 are shown." in text


def test_unused_categories_are_marked(trained, page):
    active = [row for row in read_rows(trained("gaussian") / "metrics.jsonl") if row["split"] == "test"][-1]["active"]
    text = page("gaussian")
    assert active < 100
    assert f"in a thousand: {120 - active}." in text
    assert text.count('class="unused"') == 100 - active
    assert text.count("<br>unused") == 100 - active


def test_every_variable_has_images(page):
    alts = Page(page("bits")).values("alt")
    for bit in range(6):
        assert any(alt.startswith(f"bit {bit}: ") for alt in alts)
        assert f"the same with bit {bit} flipped" in alts
    parsed = Page(page("variables"))
    for variable in range(4):
        assert f"Variable {variable}: perplexity" in parsed.section("codes")
        for value in range(3):
            alt = f"the mean image with variable {variable} at value {value}"
            assert [a.removesuffix(", unused") for a in parsed.values("alt")].count(alt) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_reconstructions_and_samples(trained, page, kind):
    alts = Page(page(kind)).values("alt")
    count = min(12, len(read_run(trained(kind)).test_examples))
    assert sum("above its reconstruction" in alt for alt in alts) == count
    assert "64 images drawn from the model" in alts


def test_several_runs(trained, page):
    text = page("categorical", "direct", "bits")
    parsed = Page(text)
    names = [
        "categorical, variables 1, prior uniform, exact, seed 0",
        "categorical, variables 1, prior learned, direct, epsilon 0.5, seed 1",
        "binary, variables 6, prior uniform, exact, seed 0",
    ]
    for name in names:
        assert all(name in parsed.section(section) for section in SECTIONS)
    assert "Options that differ" in parsed.section("numbers")
    assert "The best of a column is bold" in parsed.section("numbers")
    best = min(-read_run(trained(kind)).best.elbo for kind in ("categorical", "direct", "bits"))
    assert f"<strong>{best:.2f}</strong>" in text
    curves = parsed.section("curves")
    assert "Test −ELBO by epoch" in curves
    assert "Test −ELBO by time" in curves
    assert text.count("hardmax train ") == 3
    assert text.count("Above, a test image") == 1


def test_runs_that_do_not_compare_have_no_best(page):
    text = page("categorical", "gaussian")
    assert "since these differ: binarize, likelihood." in Page(text).section("numbers")
    assert "<strong>" not in text
    assert "differ: data" in page("categorical", "rgb")


def test_names_are_escaped(trained, tmp_path):
    folder = tmp_path / "a<b>&"
    folder.mkdir()
    for part in trained("categorical").iterdir():
        (folder / part.name).symlink_to(part)
    text = render_report([read_run(folder)])
    assert html.escape("a<b>&") in text
    assert "a<b>&" not in text


def test_no_runs():
    with pytest.raises(ArgumentError, match="at least one run"):
        render_report([])


def test_write_replaces_at_once(tmp_path):
    path = tmp_path / "new" / "report.html"
    write_page("one −", path)
    write_page("two −", path)
    assert path.read_text(encoding="utf-8") == "two −"
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_write_where_it_cannot(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*report.html: Is a directory; choose another file with --out"):
        write_page("page", tmp_path / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write"):
        write_page("page", tmp_path / "file" / "report.html")
