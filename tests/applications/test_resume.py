"""A resumed run keeps its options: changed ones are refused, and a finished run is left as it is."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import load_run, read_config, read_run, train
from hardmax.cli.main import main
from hardmax.errors import ArgumentError, DataError
from hardmax.training.loop import Observer


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Return the path of a file with random black and white images."""
    path = tmp_path_factory.mktemp("data") / "images.npy"
    np.save(path, (np.random.default_rng(0).integers(0, 2, (120, 4, 4)) * 255).astype(np.uint8))
    return path


@pytest.fixture(scope="module")
def finished_run(images, tmp_path_factory):
    """Return the configuration of a finished run of two epochs."""
    out = tmp_path_factory.mktemp("runs") / "run"
    config = DiscreteConfig(data=str(images), out=str(out), epochs=2, hidden=4, batch_size=20, lr=0.01, categories=4)
    assert train(config)
    return config


@pytest.fixture
def config(finished_run, tmp_path):
    """Return the configuration of a copy of the run."""
    return replace(finished_run, out=str(shutil.copytree(finished_run.out, tmp_path / "run")))


def contents(config):
    """Return the contents of all files of a run, and the times of their last change."""
    folder = Path(config.out)
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize(("option", "old", "new"), [
    ("--lr", "0.01", "0.02"),
    ("--categories", "4", "10"),  # the default is a change, too, if it is typed
    ("--seed", "0", "3"),
    ("--binarize", "threshold", "none"),
    ("--clip", "not set", "2"),
])  # fmt: skip
def test_a_changed_option_is_refused(config, capsys, option, old, new):
    before = contents(config)
    assert main(["train", "--resume", "--out", config.out, "--epochs", "3", option, new]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{option} {new}" in error
    assert old in error
    assert "may change: --epochs, --devices" in error
    assert contents(config) == before


def test_all_changed_options_are_named(config, capsys):
    assert main(["train", "--resume", "--out", config.out, "--lr", "0.5", "--hidden=8", "--two-sided"]) == 2
    error = capsys.readouterr().err
    assert all(text in error for text in ("--lr 0.5", "--hidden 8", "--two-sided yes"))


def test_a_changed_model_is_refused(config, capsys):
    assert main(["train", "--resume", "--out", config.out, "--model", "mixed"]) == 2
    assert "--model mixed" in capsys.readouterr().err


def test_options_that_are_repeated_or_may_change(config, images, monkeypatch):
    monkeypatch.chdir(images.parent)
    same = ["--lr", "0.01", "--categories", "4", "--data", "images.npy", "--batch-size", "20"]
    other = ["--epochs", "3", "--data-dir", str(images.parent), "--checkpoint-every", "3", "--devices", "1"]
    assert main(["train", "--resume", "--out", config.out, *same, *other]) == 0
    resumed = read_config(config.out)[0]
    assert (resumed.epochs, resumed.lr, resumed.checkpoint_every) == (3, 0.01, 3)


def test_from_python_an_option_with_its_default_is_not_a_change(config):
    assert train(DiscreteConfig(out=config.out, resume=True, epochs=3))
    with pytest.raises(ArgumentError, match=r"--hidden 16 \(the run has 4\)"):
        train(DiscreteConfig(out=config.out, resume=True, epochs=4, hidden=16))


@pytest.mark.parametrize("epochs", [[], ["--epochs", "1"], ["--epochs", "2"]])
def test_a_finished_run_is_not_touched(config, capsys, epochs):
    before = contents(config)
    assert main(["train", "--resume", "--out", config.out, *epochs]) == 0
    assert "nothing to do: 2 of 2 epochs are done" in capsys.readouterr().out
    assert contents(config) == before


def test_fewer_epochs_than_are_done_do_not_shorten_a_stopped_run(config, capsys):
    count = 0

    def stop():
        nonlocal count
        count += 1
        return count > 8  # after one and a half epochs

    assert not train(replace(config, resume=True, epochs=6), Observer(should_stop=stop))
    before = contents(config)
    assert main(["train", "--resume", "--out", config.out, "--epochs", "3"]) == 0
    assert "nothing to do: 3 of 6 epochs are done, and 3 are requested" in capsys.readouterr().out
    assert contents(config) == before
    assert json.loads((Path(config.out) / "config.json").read_text())["config"]["epochs"] == 6


def test_a_run_that_ran_out_of_patience_is_finished(config, tmp_path, capsys):
    out = str(tmp_path / "patient")
    # The learning rate is so large that the first epoch stays the best.
    assert train(replace(config, out=out, lr=10.0, lr_schedule="constant", patience=2, epochs=20))
    epochs = (tmp_path / "patient" / "metrics.jsonl").read_text()
    assert len(epochs.splitlines()) < 60
    assert main(["train", "--resume", "--out", out]) == 0
    assert (tmp_path / "patient" / "metrics.jsonl").read_text() == epochs
    assert "no better bound" in capsys.readouterr().out


def test_the_model_of_the_run_need_not_be_named(tmp_path, capsys):
    out = str(tmp_path / "run")
    command = ["train", "--model", "sequence-gan", "--data", "agreement", "--hidden", "4", "--batch-size", "500"]
    assert main([*command, "--epochs", "1", "--evaluate-draws", "100", "--out", out]) == 0
    assert main(["train", "--resume", "--out", out, "--hidden", "8"]) == 2
    assert "--hidden 8 (the run has 4)" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", out, "--evaluate-draws", "100", "--epochs", "2"]) == 0


def test_data_that_have_changed_are_refused(config, images, tmp_path):
    copy = tmp_path / "images.npy"
    shutil.copy(images, copy)
    config = replace(config, data=str(copy), out=str(tmp_path / "other"))
    assert train(config)
    np.save(copy, 255 - np.load(images))
    before = contents(config)
    with pytest.raises(DataError, match=r"data have changed since the run was started: test images, train images, val"):
        train(replace(config, resume=True, epochs=3))
    assert contents(config) == before
    np.save(copy, np.load(images)[::-1])  # the same shape and sum
    with pytest.raises(DataError, match=r"the data have changed since the run was started: .*train images"):
        train(replace(config, resume=True, epochs=3))
    assert contents(config) == before


def test_data_that_have_moved(config, images, tmp_path, capsys, monkeypatch):
    whole = replace(config, out=str(shutil.copytree(config.out, tmp_path / "whole")))
    assert train(replace(whole, resume=True, epochs=3))
    old = tmp_path / "old.npy"
    path = Path(config.out) / "config.json"
    path.write_text(path.read_text().replace(str(images), str(old)))  # the file was elsewhere then
    before = contents(config)
    resume = ["train", "--resume", "--out", config.out, "--epochs", "3"]
    assert main(resume) == 2
    assert "say where they are now with --data" in capsys.readouterr().err
    other = tmp_path / "other.npy"
    np.save(other, np.load(images)[::-1])
    for data in (str(other), "sample"):
        assert main([*resume, "--data", data]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"--data {data} holds other data than the run was started with, those of {old}" in error
    assert contents(config) == before
    monkeypatch.chdir(images.parent)
    assert main([*resume, "--data", "images.npy"]) == 0
    assert read_config(config.out)[0].data == str(images)
    assert main([*resume[:-1], "4"]) == 0  # it is found again
    for name in ("metrics.jsonl", "starts.jsonl"):
        assert (Path(whole.out) / name).exists() == (Path(config.out) / name).exists()
    rows = (Path(config.out) / "metrics.jsonl").read_text().splitlines()
    assert rows[:9] == (Path(whole.out) / "metrics.jsonl").read_text().splitlines()


@pytest.mark.parametrize(("stored", "message"), [
    ({"train": {"shape": [96, 1, 4, 4], "sum": 7}}, "train examples"),
    ({}, "train examples"),
    ({"hashes": []}, "train examples"),
    ({"train": None, "hashes": {}}, "train images"),
])  # fmt: skip
def test_moved_data_of_runs_that_store_less(config, images, tmp_path, stored, message):
    """Earlier versions stored the shape and the sum alone, or nothing."""
    path = Path(config.out) / "config.json"
    facts = json.loads(path.read_text())
    summary = {name: facts["data"].pop(name) for name in ("train", "hashes")}
    copy = str(shutil.copy(images, tmp_path / "copy.npy"))
    path.write_text(json.dumps(facts | {"data": facts["data"] | stored}))
    with pytest.raises(DataError, match=f"{message}.*; say where these are now"):
        train(replace(config, resume=True, epochs=3, data=copy))
    path.write_text(json.dumps(facts | {"data": facts["data"] | {"train": summary["train"]}}))
    assert train(replace(config, resume=True, epochs=3, data=copy))


def test_a_run_that_does_not_store_what_its_data_were(config):
    path = Path(config.out) / "config.json"
    facts = json.loads(path.read_text())
    for name in ("train", "hashes"):
        del facts["data"][name]
    path.write_text(json.dumps(facts))
    assert train(replace(config, resume=True, epochs=3))


def test_other_commands_warn_of_changed_data(config, images, tmp_path, caplog):
    run = load_run(config.out)
    run.load_data()
    assert not caplog.messages
    moved = tmp_path / "moved.npy"
    shutil.copy(images, moved)
    load_run(config.out, data=str(moved)).load_data()
    assert not caplog.messages
    np.save(moved, 255 - np.load(images))
    load_run(config.out, data=str(moved)).load_data()
    read_run(config.out, data=str(moved))
    assert len(caplog.messages) == 2
    assert "other data than the run was trained on: test images, train images" in caplog.messages[0]
