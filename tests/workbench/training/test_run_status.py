"""The state of a run, read without a change of its folder."""

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hardmax.training.locks import is_held, lock_run
from hardmax.training.run_status import read_status

HOLD = "import sys, time, pathlib\nfrom hardmax.training.locks import lock_run\n"
HOLD += "with lock_run(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"


@pytest.fixture
def run(config):
    return Path(config.out)


def snapshot(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_finished_or_stopped(config, run):
    before = snapshot(run)
    assert read_status(run, replace(config, epochs=2)).state == "finished"
    status = read_status(run, config)
    assert (status.state, status.epoch, status.epochs) == ("stopped", 2, 3)
    assert "hardmax train --resume" in status.reason
    assert snapshot(run) == before


def test_a_run_that_ended_without_improvement_is_finished(config, run):
    status = read_status(run, replace(config, epochs=9, patience=1))
    assert status.state == "stopped"  # the second epoch was the best one
    text = (run / "latest").read_text().strip()
    progress = run / text / "training.json"
    progress.write_text(progress.read_text().replace('"best_epoch": 2', '"best_epoch": 1'))
    assert read_status(run, replace(config, epochs=9, patience=1)).state == "finished"


def test_a_run_is_in_training_until_its_process_is_killed(config, run):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    before = snapshot(run)
    assert read_status(run, config).state == "training"
    assert snapshot(run) == before
    assert b"process" in before[run / ".lock"][1]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert read_status(run, config).state == "stopped"


def test_observing_a_lock_does_not_take_it(tmp_path):
    path = tmp_path / "run" / ".lock"
    assert not is_held(path)
    assert not path.parent.exists()
    with lock_run(path.parent):
        assert is_held(path)
        assert is_held(path)
    assert not is_held(path)


def test_broken_runs_have_a_reason(config, run):
    latest = run / (run / "latest").read_text().strip()
    broken = {
        "latest": lambda: (run / "latest").write_text("../../etc"),
        "training.json": lambda: (latest / "training.json").write_text('{"epoch": "x"}'),
        "missing": lambda: shutil.rmtree(latest),
    }
    for change in broken.values():
        copy = run.with_name("copy")
        shutil.copytree(run, copy)
        change()
        status = read_status(run, config)
        assert status.state == "broken"
        assert str(run) in status.reason
        shutil.rmtree(run)
        copy.rename(run)


def test_a_copy_without_training_state_is_read_from_its_rows(config, run):
    for path in run.glob("checkpoint-*/training.json"):
        path.unlink()
    assert read_status(run, replace(config, epochs=2)).state == "finished"
    for path in (run / "latest", run / "metrics.jsonl"):
        path.unlink()
    assert read_status(run, config).epoch == 0
