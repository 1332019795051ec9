"""The public surface: every name is there, documented with an example, and loaded only when used."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import hardmax as hm
import hardmax.testing

NAMES = [name for name in hm.__all__ if name != "__version__"]
API = Path(__file__).parents[2] / "docs" / "api"


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves_to_its_home(name):
    home = importlib.import_module(f"hardmax.{hm._HOMES[name]}")
    assert getattr(hm, name) is getattr(home, name)
    assert getattr(hm, name).__doc__


@pytest.mark.parametrize("name", [*NAMES, *hardmax.testing.__all__])
def test_every_name_is_documented(name):
    thing = getattr(hm, name, None) or getattr(hardmax.testing, name)
    pages = "\n".join(page.read_text() for page in API.glob("*.md"))
    assert f".{name}\n" in pages + "\n", f"{name} has no entry in docs/api"
    abstract_or_error = name.startswith("Abstract") or name.endswith("Error")
    if callable(thing) and not abstract_or_error and name not in ("Bounds", "Elbo", "Evaluator", "Ladder"):
        assert ">>> " in inspect.getdoc(thing), f"{name} has no example"


def test_type_checkers_see_the_same_names():
    source = Path(hm.__file__).read_text()
    for name in NAMES:
        assert f"import {name} as {name}\n" in source


@pytest.mark.parametrize("name", hm._MOVED)
def test_names_that_have_moved_warn_with_the_new_place(name):
    place, _, new = hm._PLACES[name].partition(":")
    with pytest.warns(DeprecationWarning, match=f"use {place}.{new}"):
        moved = getattr(hm, name)
    assert moved is getattr(importlib.import_module(place), new)
    assert name not in hm.__all__


def test_unknown_names():
    with pytest.raises(AttributeError, match="Gumble"):
        hm.Gumble  # noqa: B018
    assert set(NAMES) < set(dir(hm))


def test_import_loads_no_torch():
    code = "import sys, hardmax; assert 'torch' not in sys.modules; hardmax.Binary; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
