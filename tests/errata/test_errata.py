"""Every line of the errata page is checked: the printed form is wrong, ours is right, and the numbers agree."""

import importlib
import inspect
from collections import Counter

import pytest
from errata.page import MODULES, read_lines
from errata.verdict import Same, Slip

LINES = read_lines()


def load_checks(section):
    """Return the checks of a section by name."""
    module = importlib.import_module(f"errata.{MODULES[section]}")
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def format_like(value, text):
    """Return a number with as many decimals as the page gives; no negative zero."""
    decimals = len(text.partition(".")[2])
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{MODULES.get(line.section, '?')}-{line.check}")
def test_line(line):
    verdict = load_checks(line.section)[line.check]()
    verdict.check()
    assert isinstance(verdict, Same if line.written is None else Slip)
    assert format_like(verdict.right, line.right) == line.right
    if line.written is not None:
        assert format_like(verdict.written, line.written) == line.written


@pytest.mark.parametrize("section", MODULES)
def test_every_check_has_its_line(section):
    named = Counter(line.check for line in LINES if line.section == section)
    assert named == Counter(list(load_checks(section)))


def test_checks_can_fail():
    for wrong in (Slip(1.0, 1.0, 1.0), Slip(2.0, 3.0, 1.0), Same(2.0, 1.0, 1.0), Same(1.0, 2.0, 1.0)):
        with pytest.raises(AssertionError):
            wrong.check()
    Slip(2.0, 1.0, 1.0).check()
    Same(1.0, 1.0, 1.0).check()


@pytest.mark.parametrize("row", ["| a | b |", "| a | b | unchecked |", "| a | b | `check`: no numbers |"])
def test_a_line_without_a_check_fails(row, monkeypatch, tmp_path):
    page = tmp_path / "errata.md"
    page.write_text(f"## Direct optimization\n\n| as written | right | check |\n|---|---|---|\n{row}\n")
    monkeypatch.setattr("errata.page.PAGE", page)
    with pytest.raises(ValueError, match=r"errata.md, line 5: no check"):
        read_lines()
