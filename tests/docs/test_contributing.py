"""The walks through the code in CONTRIBUTING.md: every file and function that they name exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hardmax"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
WALKS = re.findall(r"^### What happens in `([^`]+)`\n(.*?)(?=^##)", TEXT, flags=re.DOTALL | re.MULTILINE)
# A file below src/hardmax, and the functions, classes or methods of it that are named after it.
NAMED = re.compile(r"`([\w/]+\.py)`((?:,? `(?![\w/]+\.py`)[\w.]+`)*)")


def definitions(path):
    """Return the functions, classes and methods of a file, methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def test_there_are_three():
    assert [command.split()[1] for command, _ in WALKS] == ["train", "reproduce", "segment"]


@pytest.mark.parametrize(("command", "walk"), WALKS, ids=[command for command, _ in WALKS])
def test_every_step_exists_and_there_are_few(command, walk):
    steps = re.findall(r"^\d+\. (.*)$", walk, flags=re.MULTILINE)
    assert 5 <= len(steps) <= 15
    for step in steps:
        named = NAMED.findall(step)
        assert named, step
        for file, names in named:
            assert (SOURCE / file).is_file(), file
            missing = set(re.findall(r"`([\w.]+)`", names)) - definitions(SOURCE / file)
            assert not missing, f"{file} has no {missing}"


def test_paths_of_the_text_exist():
    for path in re.findall(r"`((?:src|tests|docs)/[\w/.-]+)`", TEXT):
        assert (ROOT / path).exists(), path
