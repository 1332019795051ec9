"""The command line as a user runs it."""

import os
import subprocess
import sys


def hardmax(*arguments, **options):
    """Run a command in a process of its own and return what it printed; options are those of subprocess."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "hardmax.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True, **options).stdout
