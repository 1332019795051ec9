"""Commands that are run within the process of the tests, which is quicker."""

import pytest

from hardmax.cli.main import main


@pytest.fixture
def here(capsys):
    """Return a function that runs a command, sees that it succeeds, and returns what it printed."""

    def one(*arguments):
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    return one


@pytest.fixture
def failing(capsys):
    """Return a function that runs a command, sees that it fails, and returns the one line that says why."""

    def one(*arguments):
        capsys.readouterr()  # what was said before is another command's
        assert main([*map(str, arguments)]) == 2
        said = capsys.readouterr().err.strip()  # a bar that is cut short leaves an empty line
        assert said.startswith("hardmax: error: ")
        assert said.count("\n") == 0
        return said

    return one
