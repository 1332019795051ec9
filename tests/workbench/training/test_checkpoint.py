"""Checkpoints: the latest and the best one agree after a kill at any moment."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hardmax.applications.runs import load_run, train
from hardmax.errors import DataError
from hardmax.training import checkpoint
from hardmax.training.run_folder import find_checkpoint


class Kill(BaseException):
    """Ends the training as a kill does: no handler for errors runs."""


def kill_before(monkeypatch, name):
    """Kill the training just before a file of this name is written."""
    original = checkpoint.write_text

    def write(path, text):
        if path.name == name:
            raise Kill
        original(path, text)

    monkeypatch.setattr(checkpoint, "write_text", write)


@pytest.mark.parametrize("name", ["latest", "best"])
def test_a_kill_between_the_pointers(config, tmp_path, monkeypatch, name):
    whole = replace(config, out=str(shutil.copytree(config.out, tmp_path / "whole")))
    assert train(whole)
    best = load_run(whole.out, "best")
    assert best.checkpoint == load_run(whole.out, "latest").checkpoint  # the third epoch is the best so far
    kill_before(monkeypatch, name)
    with pytest.raises(Kill):
        train(config)
    monkeypatch.undo()
    done = 3 if name == "best" else 2
    assert find_checkpoint(Path(config.out), "latest") == f"checkpoint-{4 * done}"
    assert find_checkpoint(Path(config.out), "best") == f"checkpoint-{4 * done}"
    assert train(config)
    again = load_run(config.out, "best")
    assert again.checkpoint == best.checkpoint
    for expected, weight in zip(best.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(expected, weight)
    for pointer in ("latest", "best"):
        assert (Path(config.out) / pointer).read_text() == (Path(whole.out) / pointer).read_text()
    assert sorted(path.name for path in Path(config.out).glob("checkpoint-*")) == [best.checkpoint]


def test_the_best_checkpoint_survives_a_kill_and_another_schedule(config, monkeypatch):
    """The epoch is trained again with another schedule, and is no longer the best."""
    kill_before(monkeypatch, "latest")
    with pytest.raises(Kill):
        train(config)
    monkeypatch.undo()
    folder = Path(config.out)
    path = folder / "checkpoint-8" / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"best": 0.0}))
    assert train(config)
    assert find_checkpoint(folder, "best") == "checkpoint-8"
    assert find_checkpoint(folder, "latest") == "checkpoint-12"
    assert (folder / "best").read_text() == "checkpoint-8\n"


def test_folders_of_earlier_versions_are_read(config):
    """Their checkpoints do not store which one is the best: the file `best` does."""
    folder = Path(config.out)
    shutil.copytree(folder / "checkpoint-8", folder / "checkpoint-4")
    (folder / "best").write_text("checkpoint-4\n")
    for name in ("checkpoint-4", "checkpoint-8"):
        path = folder / name / "training.json"
        progress = json.loads(path.read_text())
        progress.pop("best_checkpoint", None)
        path.write_text(json.dumps(progress | {"step": int(name[11:]), "best": 0.0}))  # no later epoch is better
    assert find_checkpoint(folder, "best") == "checkpoint-4"
    assert train(config)
    assert find_checkpoint(folder, "best") == "checkpoint-4"
    assert find_checkpoint(folder, "latest") == "checkpoint-12"


def test_an_incomplete_copy_is_refused(config):
    """Neither is another checkpoint loaded instead, nor is the run trained again from its beginning."""
    folder = Path(config.out)
    shutil.copytree(folder / "checkpoint-8", folder / "checkpoint-4")
    path = folder / "checkpoint-8" / "training.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"best_checkpoint": "checkpoint-4"}))
    shutil.rmtree(folder / "checkpoint-4")
    with pytest.raises(DataError, match="its best checkpoint, checkpoint-4, is missing"):
        load_run(folder, "best")
    assert load_run(folder, "latest").checkpoint == "checkpoint-8"
    shutil.rmtree(folder / "checkpoint-8")
    rows = (folder / "metrics.jsonl").read_text()
    with pytest.raises(DataError, match="its latest checkpoint, checkpoint-8, is missing"):
        train(config)
    assert (folder / "metrics.jsonl").read_text() == rows


def test_a_run_that_lost_its_rows_is_not_resumed(config):
    """It would report the remaining epochs as the whole run."""
    path = Path(config.out) / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line)["epoch"] != 1))
    before = (Path(config.out) / "config.json").read_bytes()
    with pytest.raises(DataError, match=r"metrics\.jsonl has no rows of epoch 1"):
        train(config)
    assert (Path(config.out) / "config.json").read_bytes() == before
