"""MNIST and Fashion-MNIST, from files, from a server, and offline."""

import dataclasses
import gzip
import struct

import numpy as np
import pytest
import torch

from hardmax.data import load_images
from hardmax.data.datasets import SETS
from hardmax.data.download import compute_md5
from hardmax.errors import DataError


def idx(values):
    return struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture(scope="module")
def like_mnist():
    """Return files with the names and sizes of MNIST, almost all zeros."""
    files = {}
    for prefix, count in (("train", 60_000), ("t10k", 10_000)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = np.zeros((count, 28, 28), np.uint8)
        images[:, 0, 0] = labels
        files[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(idx(images), 1)
        files[f"{prefix}-labels-idx1-ubyte.gz"] = gzip.compress(idx(labels), 1)
    return files


@pytest.fixture
def offered(server, monkeypatch, like_mnist):
    """Replace the addresses of mnist by the server."""
    files = tuple(server.offer(name, body) for name, body in like_mnist.items())
    monkeypatch.setitem(SETS, "mnist", dataclasses.replace(SETS["mnist"], files=files))
    return server


def test_downloaded_once_into_the_cache(offered, cache):
    images = load_images("mnist")
    assert images.shape == (1, 28, 28)
    assert [len(images.train), len(images.validation), len(images.test)] == [50_000, 10_000, 10_000]
    assert torch.equal(images.train[:, 0, 0, 0].long(), images.labels["train"])
    assert images.labels["validation"][0] == 0
    assert str(cache / "mnist") in images.source
    assert len(offered.log) == 4
    load_images("mnist")
    assert len(offered.log) == 4


def test_only_what_is_missing_is_downloaded(offered, cache, tmp_path, like_mnist):
    (tmp_path / "mnist").mkdir()
    name = "train-images-idx3-ubyte"
    (tmp_path / "mnist" / name).write_bytes(gzip.decompress(like_mnist[f"{name}.gz"]))
    assert len(load_images("mnist", data_dir=tmp_path).train) == 50_000
    assert sorted(path for path, _ in offered.log) == sorted(like_mnist.keys() - {f"{name}.gz"})


def test_files_of_another_set(tmp_path, like_mnist):
    (tmp_path / "mnist").mkdir()
    for name, body in like_mnist.items():
        (tmp_path / "mnist" / name).write_bytes(body)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.zeros(9, np.uint8))))
    with pytest.raises(DataError, match=r"t10k-labels\S* has 9 labels, expected 10,000"):
        load_images("mnist", data_dir=tmp_path)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.zeros((5, 8, 8), np.uint8))))
    with pytest.raises(DataError, match="has 5 images of 8x8, but mnist has 60,000 of 28x28"):
        load_images("mnist", data_dir=tmp_path)
    path.write_bytes(like_mnist[path.name][:1000])
    with pytest.raises(DataError, match=r"cut off: it has .* its header says 47,040,000"):
        load_images("mnist", data_dir=tmp_path)


def test_offline(offered, cache, monkeypatch):
    files = tuple(dataclasses.replace(file, urls=("http://127.0.0.1:9/",)) for file in SETS["mnist"].files)
    monkeypatch.setitem(SETS, "mnist", dataclasses.replace(SETS["mnist"], files=files))
    with pytest.raises(DataError, match=f"put the file into {cache / 'mnist'} yourself"):
        load_images("mnist")
    assert list((cache / "mnist").iterdir()) == []


@pytest.mark.data
@pytest.mark.parametrize(("name", "mean"), [("mnist", 0.1307), ("fashion-mnist", 0.2860)])
def test_published(published, name, mean):
    for file in SETS[name].files:
        assert compute_md5(published / name / file.name) == file.md5
    images = load_images(name, data_dir=published)
    assert images.name == name
    assert [len(images.train), len(images.validation), len(images.test)] == [50_000, 10_000, 10_000]
    assert {part: len(labels) for part, labels in images.labels.items()} == {
        "train": 50_000,
        "validation": 10_000,
        "test": 10_000,
    }
    assert images.shape == (1, 28, 28)
    # The mean of the 60,000 that is commonly used for normalisation.
    assert torch.cat([images.train, images.validation]).double().mean() / 255 == pytest.approx(mean, abs=1e-4)
    assert images.labels["test"].unique().tolist() == list(range(10))
