"""Fixtures that run commands within the process of the tests, which is faster."""

import pytest

from hardmax.cli.main import main


@pytest.fixture
def run_here(capsys):
    """Return a function that runs a command, checks that it succeeds, and returns its output."""

    def run_command(*arguments):
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run_command


@pytest.fixture
def failing(capsys):
    """Return a function that runs a command, checks that it fails, and returns its one line of error."""

    def run_command(*arguments):
        capsys.readouterr()  # discards the output of earlier commands
        assert main([*map(str, arguments)]) == 2
        output = capsys.readouterr().err.strip()  # an interrupted progress bar leaves an empty line
        assert output.startswith("hardmax: error: ")
        assert output.count("\n") == 0
        return output

    return run_command
