"""The command line as a user runs it."""

import os
import subprocess
import sys


def hardmax(*arguments, check=0, environment=None, **options):
    """Run a command in a process of its own; return what it printed on stdout, or on stderr where it should fail.

    Args:
        arguments: of the command.
        check: the code that it should end with.
        environment: variables that are set for it, or, if they are None, taken away.
        options: those of `subprocess.run`.
    """
    told = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(environment or {})}
    told = {name: value for name, value in told.items() if value is not None}
    command = [sys.executable, "-m", "hardmax.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=told, **options)
    assert done.returncode == check, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr if check else done.stdout


def reproduce(*arguments, environment=None, **options):
    """Run `hardmax reproduce` without the data sets of this machine."""
    return hardmax("reproduce", *arguments, environment={"HARDMAX_DATA": None, **(environment or {})}, **options)
