"""The gallery of hashing: nearest images of test images, by bits, by floats and by pixels."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.hashing.task import encode_bits
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.runs import load_run, train
from hardmax.drawing.images import read_data_uri
from hardmax.errors import ArgumentError
from hardmax.experiments.runner.model_figures import draw_neighbours
from hardmax.experiments.tables.hashing import HASHING
from hardmax.training.task import prepare_split

SMALL = {"epochs": 1, "batch_size": 500, "evaluate_images": 50}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A hash encoder and a Gaussian VAE."""
    folder = tmp_path_factory.mktemp("runs")
    codes = HashingConfig(bits=16, hidden=50, out=str(folder / "codes"), **SMALL)
    floats = {"labels": 0, "categories": 1, "continuous": 8, "binarize": "none"}
    means = MixedConfig(out=str(folder / "means"), **floats, **SMALL)
    assert train(codes)
    assert train(means)
    return codes, means


def test_codes(runs):
    figure = draw_neighbours(runs[0], rows=3, found=4, queries=60)
    assert figure.heads == ["query", "1", "2", "3", "4"]
    assert figure.rows == 3
    (numbers,) = figure.numbers
    assert set(numbers) == {"precision_1", "precision_10", "precision_100"}
    assert 0.2 < numbers["precision_100"] <= 1
    # The first image next to a query has the nearest code.
    restored = load_run(runs[0].out, "latest")
    images = restored.load_data()
    test, base = prepare_split(runs[0], images, "test")[:60], prepare_split(runs[0], images, "train")
    distances = (encode_bits(restored.model, test[:1]) != encode_bits(restored.model, base)).sum(1)
    drawn = np.asarray(read_data_uri(figure.image))
    query, first = (torch.from_numpy(drawn[1:29, 1 + 29 * i : 29 + 29 * i].copy()) for i in (0, 1))
    assert torch.equal(query, images.test[0, 0])
    place = (images.train[:, 0] == first).flatten(1).all(1).nonzero()[0]
    assert distances[place] == distances.min()


def test_floats_and_pixels(runs):
    figure = draw_neighbours(runs[1], rows=2, found=3, queries=60)
    assert [line["of"] for line in figure.numbers] == ["means", "raw pixels"]
    assert figure.numbers[1]["precision_100"] == pytest.approx(0.61, abs=0.1)  # on the complete test set 0.6099


def test_without_classes(runs, tmp_path):
    path = tmp_path / "plain.npz"
    np.savez(path, images=np.random.default_rng(0).integers(0, 256, (80, 6, 6)).astype(np.uint8))
    config = replace(runs[0], data=str(path), out=str(tmp_path / "run"))
    train(config)
    with pytest.raises(ArgumentError, match="needs classes"):
        draw_neighbours(config, rows=1, found=1, queries=5)


def test_all_cells_are_searched_among_the_same_images():
    configs = [HASHING.make_config(cell, seed=0) for cell in HASHING.cells]
    assert {(config.data, config.binarize) for config in configs} == {("fashion-mnist", "none")}
    assert [config.bits for config in configs if config.model == "hashing"] == [16] * 5 + [32] * 5 + [64] * 5
    assert [config.model for config in configs].count("mixed") == 1
