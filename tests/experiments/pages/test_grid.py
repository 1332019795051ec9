"""Our numbers next to the paper's: every mark and difference is right, and a wrong number would be noticed."""

import math
from dataclasses import replace

import pytest

from hardmax.experiments.pages import training_tables
from hardmax.experiments.pages.blocks import Paragraph, Table
from hardmax.experiments.pages.summary import Summary
from hardmax.experiments.pages.training_tables import build_epoch_tables, build_grid_tables, mark_best
from hardmax.experiments.tables.declaration import Cell, Experiment, Quick
from hardmax.experiments.tables.metrics import ACCURACY, BOUND, Mean
from hardmax.experiments.tables.published import Floor, Published

TINY = Experiment(
    name="tiny",
    title="Tiny",
    claim="small is beautiful",
    setting="",
    options={},
    cells=tuple(
        Cell(problem, method, "ours" if method == "new" else "the paper's", 1e-3, {"data": problem[0]})
        for problem in ("a, k = 1", "b, k = 1")
        for method in ("exact", "direct", "new")
    ),
    quick=Quick({}, "one epoch"),
    view="grid",
    published="tiny.json",
)
PUBLISHED = Published(
    source="Somebody, 2019, table 1",
    what="test loss",
    values={"a-k-1-exact": 10.0, "a-k-1-direct": 12.0, "b-k-1-exact": 20.0, "b-k-1-direct": 22.0},
    other_data={"b, k = 1": "Other images."},
    floor=Floor("floor", "the least", {"a, k = 1": 9.0}),
)

ACCURACIES = replace(PUBLISHED, what="accuracy", floor=None, other_data={})


def summary(cell, value, error=None):
    curve = [Mean(value + 5, error), Mean(value, error)]
    last = {"negative_elbo": Mean(value, error), "nll": Mean(value - 0.25, error), "accuracy": Mean(value, error)}
    return Summary(cell, (1, 1), curve, [1.0, 2.0], last, 1.0, "hardmax train")


def make_summaries(**values):
    """Return summaries by the cells' names."""
    cells = {cell.name: cell for cell in TINY.cells}
    return {name.replace("_", "-"): summary(cells[name.replace("_", "-")], value) for name, value in values.items()}


@pytest.fixture(autouse=True)
def paper(monkeypatch):
    """Somebody's numbers in the place of a file."""
    monkeypatch.setattr(
        training_tables, "read_published", lambda file: {"negative_elbo": PUBLISHED, "accuracy": ACCURACIES}
    )


def format_tables(own, experiment=TINY, *, quick=False):
    """Return the tables as texts; the best between stars, notes after a slash."""
    tables = [block for block in build_grid_tables(experiment, own, quick=quick) if isinstance(block, Table)]

    def text(entry):
        return (f"*{entry.text}*" if entry.best else entry.text) + (f" / {entry.note}" if entry.note else "")

    return [[[text(entry) for entry in line] for line in table.lines] for table in tables], tables


ALL = {
    "a_k_1_exact": 10.5, "a_k_1_direct": 11.0, "a_k_1_new": 9.5,
    "b_k_1_exact": 19.0, "b_k_1_direct": 25.0, "b_k_1_new": 18.0,
}  # fmt: skip


def test_ours_the_papers_and_the_difference():
    (metric, nll, seconds), (first, *_) = format_tables(make_summaries(**ALL))
    assert metric == [
        ["a, k = 1", "10.50 / paper 10.00 (+0.50)", "11.00 / paper 12.00 (−1.00)", "*9.50 †*", "10.00 / −0.50",
         "9.00 / +0.50"],
        # Other data: no number there is marked as better than the published ones.
        ["b, k = 1", "19.00 / paper 20.00 (−1.00)", "25.00 / paper 22.00 (+3.00)", "*18.00*", "20.00 / −2.00", "–"],
    ]  # fmt: skip
    assert nll[0] == ["a, k = 1", "10.25", "10.75", "*9.25*"]
    assert seconds[1] == ["b, k = 1", "1.0", "1.0", "1.0"]
    assert [column.head for column in first.columns] == ["", "exact", "direct", "new", "best published", "floor"]
    assert [column.note for column in first.columns[1:4]] == ["the paper's", "the paper's", "ours"]


def test_what_prints_the_same_beats_nothing():
    (metric, *_), _ = format_tables(make_summaries(a_k_1_exact=9.996, a_k_1_new=9.994))
    assert metric[0][1] == "10.00 / paper 10.00 (+0.00)"
    assert metric[0][3] == "*9.99 †*"


def test_the_text_explains_the_numbers():
    text = " ".join(block.text for block in build_grid_tables(TINY, {}, quick=False) if isinstance(block, Paragraph))
    for words in ("Somebody, 2019, table 1: test loss.", "floor: the least.", "Other images.", "†", "a dash"):
        assert words in text


@pytest.mark.parametrize(("cell", "value", "line"), [
    ("a_k_1_exact", 9.25, ["*9.25 †* / paper 10.00 (−0.75)", "11.00 / paper 12.00 (−1.00)", "9.50 †"]),
    # Equal is not better.
    ("a_k_1_direct", 10.0, ["10.50 / paper 10.00 (+0.50)", "10.00 / paper 12.00 (−2.00)", "*9.50 †*"]),
    ("a_k_1_new", 10.01, ["10.50 / paper 10.00 (+0.50)", "11.00 / paper 12.00 (−1.00)", "*10.01*"]),
    ("a_k_1_exact", math.nan, ["not finite / paper 10.00", "11.00 / paper 12.00 (−1.00)", "*9.50 †*"]),
    ("a_k_1_new", math.nan, ["*10.50* / paper 10.00 (+0.50)", "11.00 / paper 12.00 (−1.00)", "not finite"]),
])  # fmt: skip
def test_another_number_moves_the_marks(cell, value, line):
    assert format_tables(make_summaries(**{**ALL, cell: value}))[0][0][0][1:4] == line


def test_a_table_fills():
    assert format_tables({})[0][0] == [
        ["a, k = 1", "– / paper 10.00", "– / paper 12.00", "–", "10.00", "9.00"],
        ["b, k = 1", "– / paper 20.00", "– / paper 22.00", "–", "20.00", "–"],
    ]
    own = make_summaries(a_k_1_exact=10.5)
    assert format_tables(own)[0][0][0] == [
        "a, k = 1",
        "10.50 / paper 10.00 (+0.50)",
        "– / paper 12.00",
        "–",
        "10.00 / +0.50",
        "9.00 / +1.50",
    ]
    own = make_summaries(a_k_1_exact=10.5, a_k_1_new=9.5)
    assert format_tables(own)[0][0][0][1:4] == ["10.50 / paper 10.00 (+0.50)", "– / paper 12.00", "*9.50 †*"]


def test_the_quick_form_is_compared_with_nothing():
    (metric, _, _), (first, *_) = format_tables(make_summaries(**ALL), quick=True)
    assert metric[0] == ["a, k = 1", "10.50", "11.00", "*9.50*"]
    assert len(first.columns) == 4


def test_a_cell_may_be_missing():
    own = make_summaries(**ALL)
    del own["b-k-1-direct"]
    without = replace(TINY, cells=tuple(cell for cell in TINY.cells if cell.name != "b-k-1-direct"))
    (metric, *_) = [block for block in build_grid_tables(without, own, quick=False) if isinstance(block, Table)]
    assert [entry.text for entry in metric.lines[1]] == ["b, k = 1", "19.00", "–", "18.00", "20.00", "–"]


def test_standard_errors_and_ties():
    assert [entry.text for entry in mark_best([Mean.from_values([1.0, 3.0]), None], BOUND)] == ["2.00 ± 1.00", "–"]
    close = [Mean(2.001, None), Mean(2.004, None), Mean(2.01, None)]
    assert [entry.best for entry in mark_best(close, BOUND)] == [True, True, False]
    assert [entry.best for entry in mark_best([Mean(2.0, None), None], BOUND)] == [False, False]  # of one, none is best


BOTH = replace(TINY, metrics=(ACCURACY, BOUND))


def test_two_metrics_each_with_its_own_best():
    """More is better in the first grid, less in the second; each has its own published numbers."""
    (accuracy, bound, _), (first, *_) = format_tables(make_summaries(**ALL), BOTH)
    assert accuracy[0] == ["a, k = 1", "10.5 / paper 10.0 (+0.5)", "*11.0* / paper 12.0 (−1.0)", "9.5", "12.0 / −1.0"]
    assert accuracy[1] == [
        "b, k = 1",
        "19.0 / paper 20.0 (−1.0)",
        "*25.0 †* / paper 22.0 (+3.0)",
        "18.0",
        "22.0 / +3.0",
    ]
    assert bound == format_tables(make_summaries(**ALL))[0][0]
    assert first.caption == "Test accuracy"
    paragraphs = [block.text for block in build_grid_tables(BOTH, {}, quick=False) if isinstance(block, Paragraph)]
    assert paragraphs[0].startswith(
        "After the last epoch: accuracy in percent, higher is better; −ELBO in nats, lower is better; the best of"
    )
    assert ["above the best" in text for text in paragraphs] == [False, True, False]
    assert ["below the best" in text for text in paragraphs] == [False, False, True]


def test_a_sign_turned_round_would_show():
    wrong = replace(TINY, metrics=(replace(ACCURACY, higher=False), BOUND))
    right, turned = format_tables(make_summaries(**ALL), BOTH)[0][0], format_tables(make_summaries(**ALL), wrong)[0][0]
    assert [right[0][2][0], turned[0][2][0]] == ["*", "1"]  # what is bold
    assert ["†" in line[2] for line in right] == [False, True]
    assert ["†" in line[3] for line in turned] == [True, True]
    assert [right[1][4], turned[1][4]] == ["22.0 / +3.0", "20.0 / −2.0"]  # what it is compared with


def test_the_best_published_may_be_of_a_cell_that_is_not_ours():
    without = replace(TINY, cells=tuple(cell for cell in TINY.cells if cell.method != "exact"))
    (metric, *_), _ = format_tables(make_summaries(a_k_1_direct=11.0, a_k_1_new=10.5), without)
    assert metric[0] == ["a, k = 1", "11.00 / paper 12.00 (−1.00)", "*10.50*", "10.00 / +0.50", "9.00 / +1.50"]


def test_a_metric_that_rows_do_not_tell_leaves_dashes():
    old = {name: replace(own, last={"nll": own.last["nll"]}) for name, own in make_summaries(**ALL).items()}
    (accuracy, bound, _), _ = format_tables(old, BOTH)
    assert accuracy[0] == ["a, k = 1", "– / paper 10.0", "– / paper 12.0", "–", "12.0"]
    assert bound[0][1] == "– / paper 10.00"


def test_data_sets_are_not_compared_by_epochs():
    own = make_summaries(**ALL)
    (text, epoch_table) = build_epoch_tables(TINY, own, quick=False)
    assert "the best of a column and data set is bold" in text.text
    assert [line[4].text for line in epoch_table.lines if line[4].best] == ["9.50", "18.00"]
    one_set = replace(TINY, cells=tuple(replace(cell, options={}) for cell in TINY.cells))
    (text, epoch_table) = build_epoch_tables(one_set, own, quick=False)
    assert "the best of a column is bold" in text.text
    assert [line[4].text for line in epoch_table.lines if line[4].best] == ["9.50"]
