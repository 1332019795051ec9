"""Functions that run the command line in a subprocess, as a user does."""

import os
import subprocess
import sys


def hardmax(*arguments, check=0, environment=None, **options):
    """Run a command in a subprocess; return its stdout, or its stderr if it should fail.

    Args:
        arguments: arguments of the command.
        check: the expected exit code.
        environment: variables to set, or to remove if they are None.
        options: options of `subprocess.run`.
    """
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(environment or {})}
    variables = {name: value for name, value in variables.items() if value is not None}
    command = [sys.executable, "-m", "hardmax.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, **options)
    assert done.returncode == check, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr if check else done.stdout


def reproduce(*arguments, environment=None, **options):
    """Run `hardmax reproduce` without the data sets of this machine."""
    return hardmax("reproduce", *arguments, environment={"HARDMAX_DATA": None, **(environment or {})}, **options)
