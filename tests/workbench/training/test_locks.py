"""One process at a time trains in a folder; a lock ends with its process."""

import os
import signal
import subprocess
import sys

import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import train
from hardmax.errors import ArgumentError, DataError
from hardmax.training.locks import lock_run, remove_run
from hardmax.training.loop import Observer

HOLD = "import sys, time, pathlib\nfrom hardmax.training.locks import lock_run\n"
HOLD += "with lock_run(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"


@pytest.fixture
def holder(tmp_path):
    """Return another process that holds the lock of the folder `run`."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_the_first_one_named(tmp_path, holder):
    for _ in range(2):  # a refusal leaves the name of the process
        with (
            pytest.raises(ArgumentError, match=rf"process {holder.pid} on .* is training in .*run; wait"),
            lock_run(tmp_path / "run"),
        ):
            pass


def test_a_killed_process_holds_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock_run(tmp_path / "run"):
        pass


def test_training_holds_the_lock_and_releases_it(tmp_path):
    config = DiscreteConfig(out=str(tmp_path / "run"), epochs=1, hidden=4, batch_size=1000, evaluate_images=10)
    refused = []

    def train_again(rows):
        for resume in (False, True):
            with pytest.raises(ArgumentError, match=f"process {os.getpid()} on") as error:
                train(DiscreteConfig(out=config.out, resume=resume, epochs=2))
            refused.append(str(error.value))

    assert train(config, Observer(on_epoch=train_again))
    assert len(refused) == 2
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3
    assert train(DiscreteConfig(out=config.out, resume=True, epochs=2))


def test_a_failed_start_leaves_no_folder(tmp_path):
    with pytest.raises(DataError, match="there is no file or folder"):
        train(DiscreteConfig(data="no/where", out=str(tmp_path / "new" / "run")))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="there is no file or folder"):
        train(DiscreteConfig(data="no/where", out=str(tmp_path / "mine")))
    assert (tmp_path / "mine").is_dir()


def test_a_run_in_training_is_not_removed(tmp_path, holder):
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(ArgumentError, match=f"process {holder.pid}"):
        remove_run(tmp_path / "run")
    assert (tmp_path / "run" / "config.json").exists()


def test_only_runs_are_removed(tmp_path):
    remove_run(tmp_path / "missing")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").touch()
    with pytest.raises(ArgumentError, match=r"holds no run and is not removed; choose another --out"):
        remove_run(tmp_path / "run")
    assert (tmp_path / "run" / "thesis.txt").exists()
    (tmp_path / "run" / "config.json").touch()
    remove_run(tmp_path / "run")
    assert not (tmp_path / "run").exists()
