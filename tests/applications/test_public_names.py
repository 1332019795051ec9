"""The public names of the applications: each one exists, is documented with an example, and is loaded on first use."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from hardmax.applications.registry import APPLICATIONS

API = Path(__file__).parents[2] / "docs" / "api"
PACKAGES = sorted({application.package for application in APPLICATIONS if application.model})
NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(package).__all__]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_name_of_an_application_resolves_to_its_home(package, name):
    module = importlib.import_module(package)
    home = importlib.import_module(f"{package}.{module._HOMES[name]}")
    assert getattr(module, name) is getattr(home, name)
    assert getattr(module, name).__doc__
    assert f"import {name} as {name}\n" in Path(module.__file__).read_text()  # what type checkers see
    assert name in dir(module)


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_name_of_an_application_is_documented(package, name):
    thing = getattr(importlib.import_module(package), name)
    pages = "\n".join(page.read_text() for page in API.glob("*.md"))
    assert f".{name}\n" in pages + "\n", f"{name} has no entry in docs/api"
    if not name.startswith("Abstract") and name not in ("Completions", "MixtureKl", "Quantized"):
        assert ">>> " in inspect.getdoc(thing), f"{name} has no example"


@pytest.mark.parametrize("package", PACKAGES)
def test_former_names_warn_with_the_new_one(package):
    module = importlib.import_module(package)
    for name, new in getattr(module, "_RENAMED", {}).items():
        with pytest.warns(DeprecationWarning, match=f"use {package}.{new}"):
            assert getattr(module, name) is getattr(module, new)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_an_application_loads_no_torch(package):
    code = f"import sys, {package}.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
