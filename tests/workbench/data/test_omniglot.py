"""Omniglot: the conversion from the publisher's zip files."""

import dataclasses
import io
import itertools
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.data import load_images
from hardmax.data.datasets import SETS
from hardmax.data.npz import read_npz
from hardmax.data.omniglot import shrink_drawing
from hardmax.errors import DataError

RNG = np.random.default_rng(0)


def make_drawing(ink):
    """Return a drawing as it is published: one bit, black ink on white. ink: `[105, 105]`, bool."""
    return Image.fromarray(~ink)


def archive(kind, alphabets, size=105):
    """Return a zip file in the publisher's layout: two characters per alphabet, by three drawers."""
    stream, number = io.BytesIO(), 0
    with zipfile.ZipFile(stream, "w") as out:
        out.writestr(f"{kind}/", b"")
        for alphabet, character in itertools.product(alphabets, (2, 1)):
            number += 1
            for drawer in (1, 2, 3):
                png = io.BytesIO()
                make_drawing(RNG.random((size, size)) < 0.1).save(png, "PNG")
                out.writestr(f"{kind}/{alphabet}/character{character:02}/{number:04}_{drawer:02}.png", png.getvalue())
    return stream.getvalue()


@pytest.fixture
def zips():
    return {
        "images_background.zip": archive("images_background", [f"B{i}" for i in range(10)]),
        "images_evaluation.zip": archive("images_evaluation", ["A0", "A1"]),
    }


def test_made_from_the_zip_files(server, cache, monkeypatch, zips):
    files = tuple(server.offer(name, body) for name, body in zips.items())
    monkeypatch.setitem(SETS, "omniglot", dataclasses.replace(SETS["omniglot"], files=files))
    images = load_images("omniglot")
    assert images.shape == (1, 28, 28)
    assert [len(images.train), len(images.validation), len(images.test)] == [54, 6, 12]
    assert images.labels["test"].tolist() == [20] * 3 + [21] * 3 + [22] * 3 + [23] * 3
    assert sorted(path.name for path in (cache / "omniglot").iterdir()) == [*sorted(zips), "omniglot_28x28_u8.npz"]
    arrays = read_npz(cache / "omniglot" / "omniglot_28x28_u8.npz")
    assert arrays["character_names"][[0, 1, -1]].tolist() == ["B0/character01", "B0/character02", "A1/character02"]
    assert arrays["drawer"][:4].tolist() == [1, 2, 3, 1]
    assert np.bincount(arrays["split"]).tolist() == [60, 12]
    # The converted file is sufficient.
    for name in zips:
        (cache / "omniglot" / name).unlink()
    assert torch.equal(load_images("omniglot").train, images.train)
    assert len(server.log) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zip", "images_evaluation.zip is broken: File is not a zip file"),
        (archive("images_evaluation", []), "has no drawings: expected members such as images_evaluation/Greek"),
        (archive("images_evaluation", ["A"], size=28), r"is \(28, 28\), expected 105x105"),
        (archive("images_evaluation", ["A"])[:-200], "is broken"),
    ],
    ids=["no zip", "no drawings", "other sizes", "cut off"],
)
def test_zip_files_that_are_broken(tmp_path, cache, zips, content, message):
    (tmp_path / "omniglot").mkdir()
    for name, body in (zips | {"images_evaluation.zip": content}).items():
        (tmp_path / "omniglot" / name).write_bytes(body)
    with pytest.raises(DataError, match=message):
        load_images("omniglot", data_dir=tmp_path)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": np.zeros((4, 28, 28), np.uint8)}, "has no array character nor split"),
        (
            {"images": np.zeros((4, 8, 8), np.uint8), "character": np.zeros(4), "split": np.zeros(4)},
            r"uint8 \[4, 8, 8\]",
        ),
    ],
)
def test_another_npz(tmp_path, arrays, message):
    (tmp_path / "omniglot").mkdir()
    np.savez(tmp_path / "omniglot" / "omniglot_28x28_u8.npz", **arrays)
    with pytest.raises(DataError, match=message + ".*made again"):
        load_images("omniglot", data_dir=tmp_path)


def test_shrink():
    assert shrink_drawing(make_drawing(np.zeros((105, 105), bool))).max() == 0
    assert shrink_drawing(make_drawing(np.ones((105, 105), bool))).min() == 255
    ink = RNG.random((105, 105)) < 0.3
    assert shrink_drawing(make_drawing(ink)).mean() == pytest.approx(255 * ink.mean(), rel=0.03)


@pytest.mark.data
def test_published(published):
    images = load_images("omniglot", data_dir=published)
    assert images.shape == (1, 28, 28)
    assert [len(images.train), len(images.validation), len(images.test)] == [17_352, 1_928, 13_180]
    labels = images.labels
    assert torch.cat([labels["train"], labels["validation"]]).unique().tolist() == list(range(964))
    assert labels["test"].unique().tolist() == list(range(964, 1623))
    assert int(labels["validation"].sum()) == 911_179


@pytest.mark.data
def test_our_conversion_gives_the_images_at_hand(published):
    """For each image there is a one-bit drawing that we convert into exactly this image.

    The box filter maps disjoint blocks of 3 or 4 pixels a side to one pixel each. For every block, a drawing that gives
    the grey value is looked up; had the image been made by another filter, on another grid or with another
    rounding, some grey value would have none.
    """
    # One line of ink shows which pixel its block becomes; lines and columns are treated the same way.
    lines = [np.outer(line, np.ones(105, bool)) for line in np.eye(105, dtype=bool)]
    block = np.array([int(shrink_drawing(make_drawing(ink)).argmax()) // 28 for ink in lines])
    assert block.tolist() == [int(shrink_drawing(make_drawing(ink.T)).argmax()) for ink in lines]
    in_block = np.arange(105) - np.searchsorted(block, block)
    lookup = [[{} for _ in range(28)] for _ in range(28)]
    for counts in itertools.product(range(5), repeat=4):  # pixels of ink in each row of a block
        ink = in_block[None, :] < np.array(counts)[in_block][:, None]
        for y, line in enumerate(shrink_drawing(make_drawing(ink))):
            for x, value in enumerate(line):
                lookup[y][x].setdefault(int(value), counts)
    images = read_npz(published / "omniglot" / "omniglot_28x28_u8.npz")["images"]
    for image in images[:: len(images) // 100]:
        counts = np.array([[lookup[y][x][int(image[y, x])] for x in range(28)] for y in range(28)])
        ink = in_block[None, :] < counts[block[:, None], block[None, :], in_block[:, None]]
        assert np.array_equal(shrink_drawing(make_drawing(ink)), image)


def test_members_that_are_far_too_large(tmp_path, cache, zips):
    """A drawing is a PNG of some hundred bytes; a member of 100 MB of zeros is not even read."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("images_evaluation/A/character01/0001_01.png", bytes(100_000_000))
    (tmp_path / "omniglot").mkdir()
    for name, body in {**zips, "images_evaluation.zip": stream.getvalue()}.items():
        (tmp_path / "omniglot" / name).write_bytes(body)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"0001_01\.png has 100,000,000 bytes, expected a drawing"):
        load_images("omniglot", data_dir=tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_encrypted_members(tmp_path, cache, zips):
    data = bytearray(zips["images_evaluation.zip"])
    place = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)  # the first member is a folder
    data[place + 8] |= 1
    data[6 + data.index(b"PK\x03\x04", 1)] |= 1
    (tmp_path / "omniglot").mkdir()
    for name, body in {**zips, "images_evaluation.zip": bytes(data)}.items():
        (tmp_path / "omniglot" / name).write_bytes(body)
    with pytest.raises(DataError, match=r"images_evaluation\.zip is broken"):
        load_images("omniglot", data_dir=tmp_path)


def test_numbers_that_do_not_fit(tmp_path, cache, zips):
    (tmp_path / "omniglot").mkdir()
    for name, body in zips.items():
        (tmp_path / "omniglot" / name).write_bytes(body)
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(zips["images_evaluation.zip"])) as old, zipfile.ZipFile(stream, "w") as new:
        name = next(name for name in old.namelist() if name.endswith("_01.png"))
        new.writestr(name.replace("_01.png", f"_{'9' * 5000}.png"), old.read(name))
    (tmp_path / "omniglot" / "images_evaluation.zip").write_bytes(stream.getvalue())
    with pytest.raises(DataError, match=r"images_evaluation\.zip"):
        load_images("omniglot", data_dir=tmp_path)
