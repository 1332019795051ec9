"""Every Python block of the README and of the docs runs, and every example of a docstring."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest
from run_markdown import find_blocks, run_blocks

import hardmax

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(hardmax.__path__, "hardmax."))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if list(find_blocks(page))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_page(page):
    run_blocks(page)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    failures, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failures == 0
