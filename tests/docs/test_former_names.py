"""Former names of public things: each warns with the new name, and is in a table of the changelog."""

import contextlib
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import hardmax
from hardmax._deprecation import RenamedMember, rename_arguments

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
ROWS = [set(re.findall(r"\w+", row)) for row in re.findall(r"^  \| .*`.*\|$", CHANGELOG, flags=re.MULTILINE)]


@pytest.fixture(scope="module")
def modules():
    """All modules of hardmax whose packages are installed."""
    modules = [hardmax]
    for info in pkgutil.walk_packages(hardmax.__path__, "hardmax."):
        with contextlib.suppress(ImportError):
            modules.append(importlib.import_module(info.name))
    return modules


def assert_in_changelog(old, *new):
    assert any({old, *new} <= row for row in ROWS), f"no row of the changelog has {old} and {' '.join(new)}"


def test_members_of_classes(modules):
    members = [
        (owner, old, member.new)
        for module in modules
        for owner in vars(module).values()
        if inspect.isclass(owner) and owner.__module__ == module.__name__
        for old, member in vars(owner).items()
        if isinstance(member, RenamedMember)
    ]
    assert len(members) > 35
    for owner, old, new in members:
        assert hasattr(owner, new) or new in owner.__annotations__
        # a field without a default is an attribute of instances only
        with (
            pytest.warns(DeprecationWarning, match=f"{owner.__name__}.{old} is .* use {owner.__name__}.{new}$"),
            contextlib.suppress(AttributeError),
        ):
            getattr(owner, old)
        assert_in_changelog(old, new)


def test_names_of_modules(modules):
    functions = [
        (module, inspect.unwrap(vars(module)["__getattr__"])) for module in modules if "__getattr__" in vars(module)
    ]
    names = [
        (module, old, new)
        for module, function in functions
        if "names" in (nonlocals := inspect.getclosurevars(function).nonlocals) and "otherwise" in nonlocals
        for old, new in nonlocals["names"].items()
    ]
    assert len(names) > 50
    for module, old, new in names:
        place, _, name = new.rpartition(":")
        place = place or module.__name__
        with pytest.warns(DeprecationWarning, match=f"{old} is deprecated .* use {re.escape(f'{place}.{name}')}$"):
            assert getattr(module, old) is getattr(importlib.import_module(place), name)
        assert_in_changelog(old, *(place.split(".") if old == name else [name]))  # moved, or renamed


def test_arguments():
    @rename_arguments(judge="discriminator")
    def evaluate(discriminator, sign=1):
        return sign * discriminator

    with pytest.warns(DeprecationWarning, match=r"evaluate\(judge=\) is deprecated .* use evaluate\(discriminator=\)"):
        assert evaluate(judge=3, sign=-1) == -3
    assert evaluate(3) == evaluate(discriminator=3) == 3
    assert_in_changelog("judge", "discriminator")
    assert_in_changelog("writer", "generator")


@pytest.mark.parametrize(("old", "new"), [("gumbel", "squared_norm"), ("stream", "to_text"), ("look", "restore")])
def test_a_missing_row_is_noticed(old, new):
    with pytest.raises(AssertionError, match="no row"):
        assert_in_changelog(old, new)
