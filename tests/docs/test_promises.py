"""Every promise of docs/explanation/promises.md names tests, and these exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
# The table of the campaign has more columns.
ROWS = [line for line in PAGE.splitlines() if line.count("|") == 3 and not line.startswith(("| promise", "|---"))]


def list_tests(row):
    """Return the file and the name of each test that a row names; `::name` belongs to the file before it."""
    file, tests = "", []
    for word in re.findall(r"`((?:tests/[\w/]+\.py)?(?:::\w+)?)`", row.split("|")[2]):
        path, _, name = word.partition("::")
        file = path or file
        tests.append((file, name))
    return tests


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:50])
def test_every_promise_names_tests_that_exist(row):
    tests = list_tests(row)
    assert tests
    for file, name in tests:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {name}(" in text if name else "def test_" in text, f"{file} has no test {name}"


def test_there_are_promises():
    assert len(ROWS) > 15
    assert list_tests("| x | `tests/docs/test_promises.py::test_there_are_promises`, `::other` |") == [
        ("tests/docs/test_promises.py", "test_there_are_promises"),
        ("tests/docs/test_promises.py", "other"),
    ]
