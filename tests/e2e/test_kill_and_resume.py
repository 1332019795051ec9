"""A run killed at any moment goes on bit for bit; a full disk leaves the checkpoint before it usable."""

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


def weights(out):
    """All the bytes of the last checkpoint: weights, optimizer, generators."""
    folder = out / (out / "latest").read_text().strip()
    found = {}
    for name in ("model.safetensors", "training.safetensors"):
        with safe_open(folder / name, "pt") as file:
            found |= {f"{name}/{key}": file.get_tensor(key).numpy().tobytes() for key in file.keys()}  # noqa: SIM118
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    begin = time.monotonic()
    subprocess.run(command(out), check=True, capture_output=True, env=ENVIRONMENT)
    return out, time.monotonic() - begin


@pytest.mark.parametrize("moments", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_moments(moments, uninterrupted, tmp_path):
    whole, seconds = uninterrupted
    out, chance, kills = tmp_path / "run-0", random.Random(moments), 0
    while kills < moments:
        resume = ["--resume"] if (out / "config.json").exists() else []
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command(out, *resume), env=ENVIRONMENT, **quiet)
        try:
            process.wait(chance.uniform(0.1, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        assert process.returncode in (0, -signal.SIGKILL)
        if process.returncode == 0:  # it got through between two kills; the rest of them hit another run
            _same(out, whole)
            out = tmp_path / f"run-{kills}"
    subprocess.run(
        command(out, *(["--resume"] if out.exists() else [])), check=True, capture_output=True, env=ENVIRONMENT
    )
    _same(out, whole)


def _same(out, whole):
    assert (out / "metrics.jsonl").read_text() == (whole / "metrics.jsonl").read_text()
    assert weights(out) == weights(whole)


def test_a_full_disk_leaves_the_checkpoint_before(uninterrupted, tmp_path):
    """Files may not grow beyond a megabyte: the weights do not fit, as on a full disk."""
    whole, _ = uninterrupted
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
    assert weights(out) == weights(whole)
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["epoch"] == 4
