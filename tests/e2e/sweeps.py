"""A small table of four runs, made through the command line with all its options: `python sweeps.py OUT [OPTIONS]`.

Functions to control such a program from outside: start it, read its progress, find and kill its processes.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hardmax.experiments.tables.declaration import Cell, Experiment, Quick

EPOCHS = 30
TINY = Experiment(
    name="tiny",
    title="Tiny",
    claim="Small is beautiful.",
    setting="The embedded images.",
    # A second or two for each run, so that a test can kill it in the middle.
    options={"data": "sample", "epochs": EPOCHS, "batch_size": 500, "hidden": 16, "evaluate_images": 50},
    cells=(
        Cell("categories", "direct", "the paper's", 1e-3, {"categories": 3, "estimator": "direct"}),
        Cell("categories", "exact", "ours", 3e-3, {"categories": 4, "estimator": "exact"}),
    ),
    quick=Quick({"epochs": 2}, "two epochs"),
    seeds=(0, 1),
)
RUNS = [f"{cell.name}-seed{seed}" for seed in TINY.seeds for cell in TINY.cells]
_WAIT = 120.0  # maximum seconds to wait for an event, on a busy machine
_started = []


def start(out, *options, **environment):
    """Start the program in a session of its own; it uses as many threads as it likes."""
    command = [sys.executable, __file__, str(out), *map(str, options)]
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = subprocess.Popen(command, text=True, env={**free, **environment}, start_new_session=True, **pipes)
    _started.append(program)
    return program


def clean_up():
    """Kill the programs that a failed test has left."""
    while _started:
        program = _started.pop()
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.communicate()


def finish(process, code=0):
    """Wait for its end; return what it printed on stdout, or on stderr where it should fail."""
    output, errors = process.communicate(timeout=2 * _WAIT)
    assert process.returncode == code, f"{process.returncode}: {errors}{output}"
    assert "Traceback" not in errors, errors
    return errors if code else output


def results(out):
    """Return the rows by run, without fields that depend on the time; each run has one row."""
    lines = (Path(out) / "results.jsonl").read_text().splitlines()
    rows = {f"{row['cell']}-seed{row['seed']}": row for row in map(json.loads, lines)}
    assert len(rows) == len(lines), "a run has two rows"
    kept = ("config", "test", "validation", "hash", "evaluations")
    return {name: {key: row[key] for key in kept} for name, row in rows.items()}


def list_finished(output):
    """Return the runs that were reported as finished, in that order."""
    return [line.split()[0] for line in output.splitlines() if " -ELBO " in line]


def epochs_done(out, run):
    """Return the number of epochs that a run has finished."""
    try:
        return sum('"train"' in line for line in (Path(out) / run / "metrics.jsonl").read_text().splitlines())
    except FileNotFoundError:
        return 0


def find_holder(out, run):
    """Return the process that holds the lock of a run, or None."""
    with contextlib.suppress(FileNotFoundError):
        number = str((Path(out) / "locks" / f"{run}.lock").stat().st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            kind, _, _, process, place = line.split()[1:6]
            if kind == "FLOCK" and place.split(":")[-1] == number and int(process) > 0:
                return int(process)
    return None


def wait_until(condition, *, program=None):
    """Wait until a function returns a true value, and return it."""
    end = time.monotonic() + _WAIT
    while not (value := condition()):
        assert time.monotonic() < end, "the condition was never true"
        assert program is None or program.poll() is None, "".join(program.communicate())
        time.sleep(0.02)
    return value


def wait_for_run(out, program, *, but=()):
    """Wait until a process is in the middle of a run; return the run and the process."""

    def find_run():
        for run in RUNS:
            if run not in but and 2 <= epochs_done(out, run) < EPOCHS - 10 and (process := find_holder(out, run)):
                return run, process
        return None

    return wait_until(find_run, program=program)


def kill(process):
    """Kill a process, if it exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    from hardmax.cli import reproduce
    from hardmax.experiments.runner import executors

    reproduce.find_experiment = lambda name: TINY
    executors.TIMEOUT = float(os.environ.get("SECONDS", "30"))
    from hardmax.cli.main import main

    sys.exit(main(["reproduce", "tiny", "--out", *sys.argv[1:]]))
