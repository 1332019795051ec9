"""Ours beside the paper's: every mark and difference is right, and a wrong number would show."""

import json
import math
from dataclasses import replace
from importlib import resources

import pytest

from hardmax.experiments import grid, table
from hardmax.experiments.catalogue import NAMES, find_experiment
from hardmax.experiments.declaration import Cell, Experiment, Quick
from hardmax.experiments.entries import marked
from hardmax.experiments.page import Paragraph, Table
from hardmax.experiments.published import Floor, Published, read_published
from hardmax.experiments.summary import Mean, Summary
from hardmax.experiments.table1 import EXPERIMENT as TABLE1

TINY = Experiment(
    name="tiny",
    title="Tiny",
    claim="small is beautiful",
    setting="",
    options={},
    cells=tuple(
        Cell(column, row, "ours" if row == "new" else "the paper's", 1e-3, {"data": column[0]})
        for column in ("a, k = 1", "b, k = 1")
        for row in ("exact", "direct", "new")
    ),
    quick=Quick({}, "one epoch"),
    view="grid",
    published="tiny.json",
)
PUBLISHED = Published(
    source="Somebody, 2019, table 1",
    what="test loss",
    values={"a-k-1-exact": 10.0, "a-k-1-direct": 12.0, "b-k-1-exact": 20.0, "b-k-1-direct": 22.0},
    other_data={"b, k = 1": "Other pictures."},
    floor=Floor("floor", "the least", {"a, k = 1": 9.0}),
)


def summary(cell, value, error=None):
    metric = [Mean(value + 5, error), Mean(value, error)]
    return Summary(cell, (1, 1), metric, [1.0, 2.0], Mean(value - 0.25, error), 1.0, "hardmax train")


def found(**values):
    """Return summaries by the cells' names."""
    cells = {cell.name: cell for cell in TINY.cells}
    return {name.replace("_", "-"): summary(cells[name.replace("_", "-")], value) for name, value in values.items()}


@pytest.fixture(autouse=True)
def paper(monkeypatch):
    """Somebody's numbers in the place of a file."""
    monkeypatch.setattr(grid, "read_published", lambda file: PUBLISHED)


def shown(own, *, quick=False):
    """Return the tables as texts; the best between stars, notes after a slash."""
    tables = [block for block in grid.tables(TINY, own, quick=quick) if isinstance(block, Table)]

    def text(entry):
        return (f"*{entry.text}*" if entry.best else entry.text) + (f" / {entry.note}" if entry.note else "")

    return [[[text(entry) for entry in line] for line in one.lines] for one in tables], tables


ALL = {
    "a_k_1_exact": 10.5, "a_k_1_direct": 11.0, "a_k_1_new": 9.5,
    "b_k_1_exact": 19.0, "b_k_1_direct": 25.0, "b_k_1_new": 18.0,
}  # fmt: skip


def test_ours_the_papers_and_the_difference():
    (metric, nll, seconds), (first, *_) = shown(found(**ALL))
    assert metric == [
        ["a, k = 1", "10.50 / paper 10.00 (+0.50)", "11.00 / paper 12.00 (−1.00)", "*9.50 †*", "10.00 / −0.50",
         "9.00 / +0.50"],
        # Other pictures: nothing there beats what was published.
        ["b, k = 1", "19.00 / paper 20.00 (−1.00)", "25.00 / paper 22.00 (+3.00)", "*18.00*", "20.00 / −2.00", "–"],
    ]  # fmt: skip
    assert nll[0] == ["a, k = 1", "10.25", "10.75", "*9.25*"]
    assert seconds[1] == ["b, k = 1", "1.0", "1.0", "1.0"]
    assert [column.head for column in first.columns] == ["", "exact", "direct", "new", "best published", "floor"]
    assert [column.note for column in first.columns[1:4]] == ["the paper's", "the paper's", "ours"]


def test_what_prints_the_same_beats_nothing():
    (metric, *_), _ = shown(found(a_k_1_exact=9.996, a_k_1_new=9.994))
    assert metric[0][1] == "10.00 / paper 10.00 (+0.00)"
    assert metric[0][3] == "*9.99 †*"


def test_what_is_said():
    text = " ".join(block.text for block in grid.tables(TINY, {}, quick=False) if isinstance(block, Paragraph))
    for words in ("Somebody, 2019, table 1: test loss.", "floor: the least.", "Other pictures.", "†", "a dash"):
        assert words in text


@pytest.mark.parametrize(("cell", "value", "line"), [
    ("a_k_1_exact", 9.25, ["*9.25 †* / paper 10.00 (−0.75)", "11.00 / paper 12.00 (−1.00)", "9.50 †"]),
    # As good is no better.
    ("a_k_1_direct", 10.0, ["10.50 / paper 10.00 (+0.50)", "10.00 / paper 12.00 (−2.00)", "*9.50 †*"]),
    ("a_k_1_new", 10.01, ["10.50 / paper 10.00 (+0.50)", "11.00 / paper 12.00 (−1.00)", "*10.01*"]),
    ("a_k_1_exact", math.nan, ["not finite / paper 10.00", "11.00 / paper 12.00 (−1.00)", "*9.50 †*"]),
    ("a_k_1_new", math.nan, ["*10.50* / paper 10.00 (+0.50)", "11.00 / paper 12.00 (−1.00)", "not finite"]),
])  # fmt: skip
def test_another_number_moves_the_marks(cell, value, line):
    assert shown(found(**{**ALL, cell: value}))[0][0][0][1:4] == line


def test_a_table_fills():
    assert shown({})[0][0] == [
        ["a, k = 1", "– / paper 10.00", "– / paper 12.00", "–", "10.00", "9.00"],
        ["b, k = 1", "– / paper 20.00", "– / paper 22.00", "–", "20.00", "–"],
    ]
    own = found(a_k_1_exact=10.5)
    assert shown(own)[0][0][0] == [
        "a, k = 1",
        "10.50 / paper 10.00 (+0.50)",
        "– / paper 12.00",
        "–",
        "10.00 / +0.50",
        "9.00 / +1.50",
    ]
    own = found(a_k_1_exact=10.5, a_k_1_new=9.5)
    assert shown(own)[0][0][0][1:4] == ["10.50 / paper 10.00 (+0.50)", "– / paper 12.00", "*9.50 †*"]


def test_the_quick_form_is_compared_with_nothing():
    (metric, _, _), (first, *_) = shown(found(**ALL), quick=True)
    assert metric[0] == ["a, k = 1", "10.50", "11.00", "*9.50*"]
    assert len(first.columns) == 4


def test_a_cell_may_be_missing():
    own = found(**ALL)
    del own["b-k-1-direct"]
    without = replace(TINY, cells=tuple(cell for cell in TINY.cells if cell.name != "b-k-1-direct"))
    (metric, *_) = [block for block in grid.tables(without, own, quick=False) if isinstance(block, Table)]
    assert [entry.text for entry in metric.lines[1]] == ["b, k = 1", "19.00", "–", "18.00", "20.00", "–"]


def test_standard_errors_and_ties():
    assert [entry.text for entry in marked([Mean.of([1.0, 3.0]), None])] == ["2.00 ± 1.00", "–"]
    assert [entry.best for entry in marked([Mean(2.001, None), Mean(2.004, None), Mean(2.01, None)])] == [
        True,
        True,
        False,
    ]
    assert [entry.best for entry in marked([Mean(2.0, None), None])] == [False, False]  # of one, none is the best


def test_data_sets_are_not_compared_by_epochs():
    own = found(**ALL)
    (text, shown_by_epoch) = table.tables(TINY, own, quick=False)
    assert "the best of a column and data set is bold" in text.text
    assert [line[4].text for line in shown_by_epoch.lines if line[4].best] == ["9.50", "18.00"]
    alone = replace(TINY, cells=tuple(replace(cell, options={}) for cell in TINY.cells))
    (text, shown_by_epoch) = table.tables(alone, own, quick=False)
    assert "the best of a column is bold" in text.text
    assert [line[4].text for line in shown_by_epoch.lines if line[4].best] == ["9.50"]


# The real numbers.


def test_every_published_number_has_a_cell():
    for file in resources.files("hardmax.experiments").joinpath("paper").iterdir():
        users = [each for each in map(find_experiment, NAMES) if getattr(each, "published", None) == file.name]
        assert users
        published = read_published(file.name)
        for experiment in users[:1]:
            assert set(published.values) <= {cell.name for cell in experiment.cells}
            columns = {cell.column for cell in experiment.cells}
            assert set(published.other_data) <= columns
            assert published.floor is None or set(published.floor.values) <= columns
        for name, number in json.loads(file.read_text(encoding="utf-8"))["values"].items():
            assert set(number) == {"row", "column", "value"}, name


# As the paper prints it: k, then unbiased, direct and GSM of MNIST, Fashion MNIST and Omniglot.
PRINTED = """
10 164.53 165.26 167.88 228.46 222.86 238.37 155.44 155.94 160.13
20 152.31 153.08 156.41 206.40 198.39 211.87 152.05 152.13 166.76
30 149.17 147.38 152.15 205.60 189.44 197.01 152.10 150.14 157.33
40 142.86 143.95 147.56 205.68 184.21 195.22 151.38 150.33 156.09
50 155.37 140.38 146.12 200.88 180.31 191.00 156.84 149.12 164.01
"""


def test_table1_is_the_papers():
    ways = {"unbiased": "exact", "direct": "direct", "GSM": "gumbel-softmax"}
    printed = {}
    for line in PRINTED.split("\n")[1:-1]:
        k, *numbers = line.split()
        heads = [(data, way) for data in ("MNIST", "Fashion MNIST", "Omniglot") for way in ways]
        for (data, way), number in zip(heads, numbers, strict=True):
            name = f"{data.replace(' ', '-').lower()}-k-{k}-{ways[way]}"
            printed[name] = {"row": f"k = {k}", "column": f"{data}, {way}", "value": float(number)}
    file = resources.files("hardmax.experiments").joinpath("paper", "table1.json")
    said = json.loads(file.read_text(encoding="utf-8"))
    assert said["values"] == printed
    assert set(printed) == {cell.name for cell in TABLE1.cells if cell.group == "the paper's"}
    assert said["floor"]["values"]["MNIST, k = 50"] == pytest.approx(139.65, abs=0.5)
