"""Training in two processes, from the command line: the same numbers as in one process, stops, kills, errors."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

# 201 images are shared unequally, and 4,500 leave a last batch of 78. With a constant learning rate a run can grow.
OPTIONS = ["--batch-size", "201", "--hidden", "50", "--binarize", "stochastic", "--lr-schedule", "constant"]
OPTIONS += ["--estimator", "direct"]
HARDMAX = [sys.executable, "-m", "hardmax.cli.main"]
TORCHRUN = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "-m",
    "hardmax.cli.main",
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
# In nats; values are about 300. Rounding makes a difference of 2e-5 in twenty such epochs, different noise 3 in five.
CLOSE = 2e-3


def run(command, *words, code=0):
    """Run a command; return its stdout, or its stderr if it should fail."""
    done = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr if code else done.stdout


def begin(out, *words):
    """Start a run in two processes, and return it when it has written a checkpoint of its own."""
    before = latest(out)
    command = [*HARDMAX, "train", "--out", str(out), "--devices", "2", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    deadline = time.monotonic() + 100
    while latest(out) == before:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def latest(out):
    return (out / "latest").read_text() if (out / "latest").exists() else None


def rows(out, name="metrics.jsonl"):
    return [json.loads(line) for line in (out / name).read_text().splitlines()]


def difference(rows, other_rows):
    """Return the largest difference of two runs in nats; all other fields of their rows must be equal."""
    metrics = ("elbo", "nll", "kl", "reconstruction")
    largest = 0.0
    for a, b in zip(rows, other_rows, strict=True):
        assert all(a[key] == b[key] for key in a if key not in (*metrics, "seconds", "processor"))
        largest = max([largest, *(abs(a[key] - b[key]) for key in metrics if a.get(key) is not None)])
    return largest


def epochs(out):
    """Return the number of finished epochs of the latest checkpoint."""
    return json.loads((out / latest(out).strip() / "training.json").read_text())["epoch"]


@pytest.mark.slow
def test_stopped_in_two_processes_then_one_then_two_by_torchrun(tmp_path):
    out, complete = tmp_path / "run", tmp_path / "complete"
    process = begin(out, "--epochs", "500", "--checkpoint-every", "5", *OPTIONS)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors == ""
    assert "2 processes share every batch of 201 images" in output
    assert output.count("epoch   1 ") <= 1  # only one of them prints
    assert f"hardmax train --resume --out {out}" in output
    done = epochs(out)
    assert done < 20
    run(HARDMAX, "train", "--epochs", done + 1, "--out", out, "--resume")
    run(TORCHRUN, "train", "--epochs", done + 2, "--out", out, "--resume")
    run(HARDMAX, "train", "--epochs", done + 2, "--out", complete, *OPTIONS)
    assert difference(rows(out), rows(complete)) < CLOSE
    assert {path.name for path in out.iterdir()} == {path.name for path in complete.iterdir()}
    assert all(row["processor"] > 0 for row in rows(out, "timing.jsonl"))


def test_a_killed_process_ends_the_others(tmp_path):
    out = tmp_path / "run"
    process = begin(out, "--epochs", "500", *OPTIONS)
    os.kill(max(children(process.pid)), signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    assert "process 2 of 2 was ended by SIGKILL" in errors
    assert "Traceback" not in errors
    done = epochs(out)
    run(HARDMAX, "train", "--out", out, "--resume", "--epochs", done + 1)
    assert [row["epoch"] for row in rows(out)[::3]] == list(range(1, done + 2))


def children(pid):
    """Return the ids of the processes that train."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in pids if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
def test_several_starts_and_patience(tmp_path):
    options = ["--starts", 2, "--start-epochs", 1, "--epochs", 30, "--patience", 1, "--lr", 0.05, *OPTIONS]
    for name, words in (("one", []), ("two", ["--devices", 2])):
        run(HARDMAX, "train", "--out", tmp_path / name, *options, *words)
    one, two = ([rows(tmp_path / name, file) for file in ("starts.jsonl", "metrics.jsonl")] for name in ("one", "two"))
    assert difference(one[0], two[0]) < CLOSE
    assert difference(one[1][:6], two[1][:6]) < CLOSE
    assert len(two[1]) < 90  # rows: all processes stop when the bound no longer improves


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [[*HARDMAX, "train", "--devices", "2"], [*TORCHRUN, "train"]], ids=["own", "torchrun"]
)
def test_an_error_of_all_is_printed_once(command, tmp_path):
    (tmp_path / "config.json").touch()
    errors = run(command, "--out", tmp_path, code=1 if "torch.distributed.run" in command else 2)
    assert errors.count(f"hardmax: error: {tmp_path} holds a run already") == 1


def pair(code, out, *words):
    """Start two processes of a program, as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for rank in range(2):
        group = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**ENVIRONMENT, **{key: str(value) for key, value in group.items()}}
        command = [sys.executable, "-c", code, "train", "--out", str(out), *words, *OPTIONS]
        yield subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_a_process_that_does_not_answer(tmp_path):
    """One process is stopped, not ended; the other one waits for the timeout, run_here five seconds."""
    code = (
        "import sys, datetime\nfrom hardmax.training import processes\nfrom hardmax.cli.main import main\n"
        "processes.TIMEOUT = datetime.timedelta(seconds=5)\nsys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "run"
    first, second = pair(code, out, "--epochs", "500")
    try:
        while latest(out) is None:
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        second.send_signal(signal.SIGSTOP)
        _, errors = first.communicate(timeout=60)
        assert first.returncode == 2
        assert "process 1 of 2 lost another one, which has failed, was killed or does not answer" in errors
    finally:
        second.kill()
        second.communicate()


@pytest.mark.slow
def test_no_thread_of_the_group_is_left(tmp_path):
    """A remaining thread may abort Python at its end: about one run in fifty did."""
    code = (
        "import sys, pathlib\nfrom hardmax.cli.main import main\nassert main(sys.argv[1:]) == 0\n"
        "print('threads:', [file.read_text() for file in pathlib.Path('/proc/self/task').glob('*/comm')])"
    )
    for process in list(pair(code, tmp_path / "run", "--epochs", "1")):
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "threads:" in output
        assert "gloo" not in output
