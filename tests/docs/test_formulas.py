"""The page of formulas: every function that it names is there, and every test."""

import ast
import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "formulas.md"
CODE = re.compile(r"`([^`]+)`")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| $")
]


def resolve(name):
    """Find a function: `hm.x`, `hardmax.module.x`, `torch.x`, or `examples/file.py::x`."""
    if "::" in name:
        return defined(name)
    head, *path = name.split(".")
    module = import_module("hardmax" if head == "hm" else head)
    while path and not hasattr(module, path[0]):
        module = import_module(f"{module.__name__}.{path.pop(0)}")
    return attrgetter(".".join(path))(module) if path else module


def defined(name):
    """Find a function of a file: `folder/file.py::function`."""
    file, function = name.split("::")
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == function]
    if len(found) != 1:
        raise LookupError(f"{file} defines no function {function}")
    return found[0]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_row(row):
    formula, function, test = row
    assert formula.count("$") >= 2
    for name in CODE.findall(function):
        resolve(name)
    names = CODE.findall(test)
    assert names
    assert all(name.startswith("tests/") for name in names)
    for name in names:
        defined(name)
    # The first function is used where it is said to be checked.
    first, *_ = CODE.findall(function)
    source = (ROOT / names[0].split("::")[0]).read_text(encoding="utf-8")
    assert re.split(r"[.:]", first)[-1] in source, f"{names[0]} never mentions {first}"


def test_there_are_rows_of_both_documents():
    page = PAGE.read_text(encoding="utf-8")
    assert len(ROWS) == page.count("\n| $") >= 30
    assert page.count("\n## ") == 2


@pytest.mark.parametrize("name", ["hm.nothing", "hardmax.random.nothing", "examples/gumbel_max.py::nothing"])
def test_a_name_that_is_not_there(name):
    with pytest.raises((AttributeError, ImportError, LookupError)):
        resolve(name)
