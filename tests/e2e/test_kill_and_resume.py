"""A run killed at any moment resumes bit for bit; after a full disk, the previous checkpoint is usable."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from safetensors import safe_open

# A constant learning rate, so that a run of one epoch can grow into one of four.
OPTIONS = ["--checkpoint-every", "20", "--binarize", "stochastic", "--batch-size", "50", "--lr-schedule", "constant"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def command(out, *more, epochs=4):
    options = ["--out", str(out), "--epochs", str(epochs), *OPTIONS, *more]
    return [sys.executable, "-m", "hardmax.cli.main", "train", *options]


def weights(out, pointer="latest"):
    """Return the bytes of the last or best checkpoint: weights, optimizer, generators."""
    folder = out / (out / pointer).read_text().strip()
    tensors = {}
    for name in ("model.safetensors", "training.safetensors"):
        with safe_open(folder / name, "pt") as file:
            tensors |= {f"{name}/{key}": file.get_tensor(key).numpy().tobytes() for key in file.keys()}  # noqa: SIM118
    return tensors


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("complete") / "run"
    begin = time.monotonic()
    subprocess.run(command(out), check=True, capture_output=True, env=ENVIRONMENT)
    return out, time.monotonic() - begin


@pytest.mark.parametrize("moments", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_moments(moments, uninterrupted, tmp_path):
    complete, seconds = uninterrupted
    out, chance, kills = tmp_path / "run-0", random.Random(moments), 0
    while kills < moments:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command(out, *_resume_if_begun(out)), env=ENVIRONMENT, **quiet)
        try:
            process.wait(chance.uniform(0.1, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        assert process.returncode in (0, -signal.SIGKILL)
        if process.returncode == 0:  # it finished between two kills; the next kills are for another run
            _assert_same(out, complete)
            out = tmp_path / f"run-{kills}"
    subprocess.run(command(out, *_resume_if_begun(out)), check=True, capture_output=True, env=ENVIRONMENT)
    _assert_same(out, complete)


def _resume_if_begun(out):
    """Return `--resume` if there is a run; a process killed early leaves at most an empty folder with a lock."""
    return ["--resume"] if (out / "config.json").exists() else []


def _assert_same(out, complete):
    assert (out / "metrics.jsonl").read_text() == (complete / "metrics.jsonl").read_text()
    for pointer in ("latest", "best"):
        assert weights(out, pointer) == weights(complete, pointer)
    left = {path.name for path in out.iterdir()} - {path.name for path in complete.iterdir()}
    assert left == set()  # no temporary file of a killed process


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before(uninterrupted, tmp_path):
    """Files may not grow beyond a megabyte: the weights do not fit, as on a full disk."""
    complete, _ = uninterrupted
    out = tmp_path / "run"
    first = command(out, epochs=1)
    subprocess.run(first, check=True, capture_output=True, env=ENVIRONMENT)
    before = weights(out)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    full = subprocess.run(
        [*command(out, "--resume")], capture_output=True, text=True, env=ENVIRONMENT, preexec_fn=limit
    )
    assert full.returncode == 2
    assert "cannot write" in full.stderr
    assert "untouched" in full.stderr
    assert full.stderr.count("\n") == 1
    assert weights(out) == before
    assert not list(out.glob("*.tmp"))
    subprocess.run(command(out, "--resume"), check=True, capture_output=True, env=ENVIRONMENT)
    assert weights(out) == weights(complete)
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["epoch"] == 4
