"""The page of formulas: every function and every test that it names exists."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "formulas.md"
NAME = re.compile(r"(?:`(?P<file>[\w/]+\.py)` )?`(?P<name>[\w.]+)`")  # a function, perhaps of a file
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| $")
]


def list_names(cell):
    """Return the file (or None) and the name of every function in a cell."""
    return [(match["file"], match["name"]) for match in NAME.finditer(cell)]


def resolve(file, name):
    """Find a function: `hm.x`, `hardmax.module.x`, `torch.x`, or x as a file of ours defines it."""
    if file is not None:
        body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
        if len(functions) != 1:
            raise LookupError(f"{file} defines no function {name}")
        return functions[0]
    head, *path = name.split(".")
    thing = import_module("hardmax" if head == "hm" else head)
    for part in path:
        # A submodule is an attribute only once something has imported it.
        thing = getattr(thing, part) if hasattr(thing, part) else import_module(f"{thing.__name__}.{part}")
    return thing


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_row(row):
    formula, function, test = row
    assert formula.count("$") >= 2
    functions, tests = list_names(function), list_names(test)
    assert functions
    assert tests
    assert all(file is not None and file.startswith("tests/") for file, _ in tests)
    for file, name in functions + tests:
        resolve(file, name)
    # The test that is named uses the first function.
    name, source = functions[0][1].rpartition(".")[2], (ROOT / tests[0][0]).read_text(encoding="utf-8")
    assert re.search(rf"\b{name}\b", source), f"{tests[0]} never mentions {functions[0]}"


def test_there_are_rows_of_both_documents():
    page = PAGE.read_text(encoding="utf-8")
    assert len(ROWS) == page.count("\n| $") >= 30
    assert page.count("\n## ") == 2


@pytest.mark.parametrize("cell", ["`hm.nothing`", "`hardmax.random.nothing`", "`examples/gumbel_max.py` `nothing`"])
def test_a_name_that_is_not_there(cell):
    ((file, name),) = list_names(cell)
    with pytest.raises((AttributeError, ImportError, LookupError)):
        resolve(file, name)
