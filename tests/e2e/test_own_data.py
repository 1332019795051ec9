"""Commands on data of one's own: relative paths, data that have moved, and few images."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import read_config, train
from hardmax.applications.sequences.config import SequenceGANConfig
from hardmax.applications.tokens.config import TokenPriorConfig
from hardmax.training.loop import Observer

OPTIONS = ["--hidden", 4, "--batch-size", 40, "--epochs", 1]


@pytest.fixture(autouse=True)
def images(tmp_path, monkeypatch):
    """Write images to a folder that becomes the current one, and return their path."""
    folder = tmp_path / "project" / "data"
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", (np.random.default_rng(0).integers(0, 2, (300, 4, 4)) * 255).astype(np.uint8))
    np.save(folder / "larger.npy", np.zeros((300, 5, 5), np.uint8))
    monkeypatch.chdir(tmp_path / "project")
    return folder / "images.npy"


def test_a_relative_path_is_found_from_another_folder(run_here, tmp_path, monkeypatch):
    run_here("train", "--data", "data/images.npy", "--out", "runs/first", *OPTIONS)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "project" / "runs" / "first"
    expected = json.loads(run_here("evaluate", run, "--json"))
    run_here("diagnose", run, "--draws", 4, "--images", 2)
    run_here("report", run)
    run_here("train", "--resume", "--out", run, "--epochs", 2)
    monkeypatch.chdir(tmp_path / "project")
    os.rename("data", "moved")
    assert json.loads(run_here("evaluate", run, "--json", "--data", "moved/images.npy"))["images"] == expected["images"]


def test_data_that_have_moved(run_here, failing, tmp_path):
    run_here("train", "--data", "data/images.npy", "--out", "run", *OPTIONS)
    shutil.move("data", "moved")
    for command in ("evaluate", "diagnose", "report"):
        message = failing(command, "run")
        assert "data/images.npy" in message
        assert "--data" in message
        assert "are [1, 5, 5]" in failing(command, "run", "--data", "moved/larger.npy")
    run_here("evaluate", "run", "--data", "moved/images.npy")
    run_here("diagnose", "run", "--data", "moved/images.npy", "--draws", 4, "--images", 2)
    run_here("sample", "run", "--data", "moved/images.npy")


def test_samples_of_a_completion_model_need_its_data(run_here, failing):
    options = ["--components", 2, "--latent", 2, "--hidden", 4, "--epochs", 1]
    run_here("train", "--model", "completion", "--data", "data/images.npy", "--mask", "half", "--out", "run", *options)
    shutil.move("data", "moved")
    assert "--data" in failing("sample", "run")
    run_here("sample", "run", "--count", 2, "--data", "moved/images.npy")


def test_paths_and_names(images, tmp_path):
    for name in ("mnist", "agreement", "half", "runs"):
        (tmp_path / "project" / name).mkdir()
    (tmp_path / "project" / "mask.png").touch()
    assert DiscreteConfig(data="mnist").make_paths_absolute().data == "mnist"
    assert DiscreteConfig(data="./mnist").make_paths_absolute().data == str(tmp_path / "project" / "mnist")
    assert DiscreteConfig(data="no/where").make_paths_absolute().data == "no/where"
    config = DiscreteConfig(data="data/images.npy", data_dir="data").make_paths_absolute()
    assert (config.data, config.data_dir) == (str(images), str(images.parent))
    assert SequenceGANConfig(data="agreement").make_paths_absolute().data == "agreement"
    prior = TokenPriorConfig(tokenizer="runs").make_paths_absolute()
    assert (prior.tokenizer, prior.data) == (str(tmp_path / "project" / "runs"), "")
    assert CompletionConfig(mask="half").make_paths_absolute().mask == "half"
    assert CompletionConfig(mask="mask.png").make_paths_absolute().mask == str(tmp_path / "project" / "mask.png")


def test_few_images_get_a_smaller_batch_unless_it_is_given(run_here):
    output = run_here("train", "--data", "data/images.npy", "--out", "small", "--hidden", 4, "--epochs", 2)
    assert "batch size 12 instead of 100, for 240 images" in output
    assert read_config("small")[0].batch_size == 12
    assert "few steps: 40 in all, with --epochs 2 and batches of 12 of 240 images" in " ".join(output.split())
    run_here("train", "--resume", "--out", "small", "--epochs", 3)
    assert read_config("small")[0].batch_size == 12
    output = run_here("train", "--data", "data/images.npy", "--out", "given", *OPTIONS, "--batch-size", 100)
    assert "instead of" not in output
    assert read_config("given")[0].batch_size == 100


def test_many_images_get_the_default_batch(run_here):
    output = run_here("train", "--out", "run", "--hidden", 4, "--epochs", 1, "--evaluate-images", 10)
    assert "instead of" not in output
    assert read_config("run")[0].batch_size == 100


def test_from_python_the_batch_size_is_used_as_it_is():
    messages = []
    train(DiscreteConfig(data="data/images.npy", out="run", hidden=4, epochs=1), Observer(on_message=messages.append))
    assert read_config("run")[0].batch_size == 100
    assert any(line.startswith("few steps: 3 in all") for line in messages)


def test_times_are_printed(run_here):
    output = " ".join(run_here("train", "--data", "data/images.npy", "--out", "run", *OPTIONS, "--epochs", 3).split())
    assert re.search(r"[0-9.]+ s per epoch, about 0:00:0[0-9] left for 2 epochs", output)
    assert re.search(r"3 epochs in 0:00:0[0-9]", output)
    assert "left for 1 epoch" not in output  # the line is repeated once a minute
