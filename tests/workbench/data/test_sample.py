"""The embedded sample: small, balanced, licensed, and reproducible from the published set."""

import gzip
from importlib import resources
from pathlib import Path

import make_sample
import pytest
import torch

from hardmax.data import load_images
from hardmax.data.images import PARTS

FOLDER = Path(str(resources.files("hardmax.data") / "sample"))


def test_balanced():
    images = load_images("sample")
    assert images.shape == (1, 28, 28)
    for part, count in (("train", 4500), ("validation", 500), ("test", 1000)):
        assert len(getattr(images, part)) == count
        assert images.labels[part].bincount().tolist() == [count // 10] * 10
        assert torch.equal(images.labels[part], torch.arange(count) % 10)


def test_no_image_occurs_twice():
    images = load_images("sample")
    assert len(torch.cat([images.train, images.validation, images.test]).flatten(1).unique(dim=0)) == 6000


def test_small_and_licensed():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 3_000_000
    assert "Zalando SE" in (FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert all(path.suffix == ".gz" for path in FOLDER.iterdir() if path.name != "LICENSE")


@pytest.mark.data
def test_reproducible(published, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDMAX_DATA", str(published))
    make_sample.write_sample(tmp_path / "again")
    files = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert files == sorted(path.name for path in FOLDER.iterdir() if path.name != "LICENSE")
    for name in files:
        again, shipped = (tmp_path / "again" / name).read_bytes(), (FOLDER / name).read_bytes()
        # The same bytes; another zlib may compress differently, and then the contents must be the same.
        assert again[:10] == shipped[:10]
        assert again == shipped or gzip.decompress(again) == gzip.decompress(shipped)


def test_attributes():
    """Every combination occurs in every part, and the bits agree with their definitions."""
    images = load_images("sample")
    assert images.attribute_names == ("shoe", "bright")
    for part in PARTS:
        bits, labels = images.attributes[part], images.labels[part]
        assert len({tuple(row) for row in bits.tolist()}) == 4
        assert set(labels[bits[:, 0] == 1].tolist()) == {5, 7, 9}
        means = getattr(images, part).double().mean((1, 2, 3))
        assert torch.equal(bits[:, 1] == 1, means > 72)
