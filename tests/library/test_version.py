"""The hash of the package's files, which changes with every change of the code."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hardmax as hm
from hardmax import version


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Replace the package by a small copy, and hash it again at every call."""
    source = tmp_path / "hardmax"
    shutil.copytree(Path(hm.__file__).parent / "testing", source / "testing", ignore=shutil.ignore_patterns("__pyc*"))
    monkeypatch.setattr(version, "_SOURCE", source)
    monkeypatch.setattr(version, "hash_source", version.hash_source.__wrapped__)
    return source


def test_the_hash_is_the_same_in_every_process():
    code = "from hardmax.version import hash_source; print(hash_source())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert printed == version.hash_source()


def test_every_change_of_code_changes_the_hash(copied):
    first = version.hash_source()
    assert version.hash_source() == first
    (copied / "testing" / "notes.txt").write_text("no code")
    assert version.hash_source() == first
    file = copied / "testing" / "spaces.py"
    text = file.read_text()
    file.write_text(text + "\n")
    changed = version.hash_source()
    file.write_text(text)
    file.rename(file.with_name("other.py"))
    assert len({first, changed, version.hash_source()}) == 3


def test_the_version_is_that_of_the_installed_package():
    assert hm.__version__ == version.__version__ == importlib.metadata.version("hardmax")
