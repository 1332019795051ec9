"""The cost to reach the level of a reference method: its shares, methods that never reach it, and missing cells."""

from dataclasses import replace

import pytest

from hardmax.experiments.pages.blocks import Paragraph, Table
from hardmax.experiments.pages.level_tables import build_level_tables, count_epochs_to_level
from hardmax.experiments.pages.summary import Summary
from hardmax.experiments.tables.declaration import Cell, Experiment, Quick
from hardmax.experiments.tables.metrics import ACCURACY, BOUND, Mean

TABLE = Experiment(
    name="tiny",
    title="Tiny",
    claim="",
    setting="",
    options={},
    cells=tuple(
        Cell(problem, method, "", 1e-3)
        for problem in ("a", "b", "c")
        for method in ("slow", "reference", "fast", "never")
    ),
    quick=Quick({}, "one epoch"),
    reference="reference",
)


def make_summary(cell: Cell, values: list[float], seconds: float, evaluations: float | None = 1.0) -> Summary:
    elapsed = [seconds * (epoch + 1) for epoch in range(len(values))]
    return Summary(cell, (1, 1), [Mean(value, None) for value in values], elapsed, {}, seconds, "", evaluations)


@pytest.fixture
def summaries() -> dict[str, Summary]:
    cells = {cell.name: cell for cell in TABLE.cells}
    return {
        "a-reference": make_summary(cells["a-reference"], [9, 8, 7, 6], 2.0, 2.0),
        "a-slow": make_summary(cells["a-slow"], [9, 8.5, 8, 6.0], 8.0, 4.0),
        "a-fast": make_summary(cells["a-fast"], [5, 6.5, 5.5, 4], 1.0, 1.0),  # the first time counts
        "a-never": make_summary(cells["a-never"], [9, 9, 9, 6.01], 1.0),
        "b-reference": make_summary(cells["b-reference"], [2, 1], 1.0),
        "b-fast": make_summary(cells["b-fast"], [1, 0], 1.0, None),
        "c-fast": make_summary(cells["c-fast"], [1, 0], 1.0),  # without the reference: no line
    }


def list_lines(experiment: Experiment, summaries: dict[str, Summary]) -> dict[str, list[list[str]]]:
    tables = [block for block in build_level_tables(experiment, summaries) if isinstance(block, Table)]
    return {table.caption: [[entry.text for entry in line] for line in table.lines] for table in tables}


def test_shares_of_the_reference(summaries: dict[str, Summary]) -> None:
    lines = list_lines(TABLE, summaries)
    assert lines["Evaluations"] == [["a", "200", "12", "no"], ["b", "–", "no", "–"]]
    assert lines["Seconds of training"] == [["a", "400", "12", "no"], ["b", "–", "50", "–"]]
    text, *_ = build_level_tables(TABLE, summaries)
    assert isinstance(text, Paragraph)
    assert "last test −ELBO of reference" in text.text


def test_no_table_without_a_reference(summaries: dict[str, Summary]) -> None:
    assert build_level_tables(replace(TABLE, reference=None), summaries) == []
    assert build_level_tables(TABLE, {"c-fast": summaries["c-fast"]}) == []


def test_direction_of_the_metric() -> None:
    summary = make_summary(TABLE.cells[0], [50, 70, 60], 1.0)
    assert count_epochs_to_level(summary, 65, ACCURACY) == 2
    assert count_epochs_to_level(summary, 65, BOUND) == 1
    assert count_epochs_to_level(summary, 75, ACCURACY) is None
