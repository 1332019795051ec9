"""Omniglot: converted from the publisher's zip files as the file at hand was."""

import dataclasses
import io
import itertools
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.data import load
from hardmax.data.arrays import read_npz
from hardmax.data.datasets import SETS
from hardmax.data.omniglot import shrink
from hardmax.errors import DataError

RNG = np.random.default_rng(0)


def drawing(ink):
    """A drawing as it is published: one bit, black ink on white. ink: `[105, 105]`, bool."""
    return Image.fromarray(~ink)


def archive(kind, alphabets, size=105):
    """A zip file in the publisher's layout: two characters per alphabet, by three drawers."""
    stream, number = io.BytesIO(), 0
    with zipfile.ZipFile(stream, "w") as out:
        out.writestr(f"{kind}/", b"")
        for alphabet, character in itertools.product(alphabets, (2, 1)):
            number += 1
            for drawer in (1, 2, 3):
                png = io.BytesIO()
                drawing(RNG.random((size, size)) < 0.1).save(png, "PNG")
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
    images = load("omniglot")
    assert images.shape == (1, 28, 28)
    assert [len(images.train), len(images.validation), len(images.test)] == [54, 6, 12]
    assert images.labels["test"].tolist() == [20] * 3 + [21] * 3 + [22] * 3 + [23] * 3
    assert sorted(path.name for path in (cache / "omniglot").iterdir()) == [*sorted(zips), "omniglot_28x28_u8.npz"]
    arrays = read_npz(cache / "omniglot" / "omniglot_28x28_u8.npz")
    assert arrays["character_names"][[0, 1, -1]].tolist() == ["B0/character01", "B0/character02", "A1/character02"]
    assert arrays["drawer"][:4].tolist() == [1, 2, 3, 1]
    assert np.bincount(arrays["split"]).tolist() == [60, 12]
    # The file that was made is enough.
    for name in zips:
        (cache / "omniglot" / name).unlink()
    assert torch.equal(load("omniglot").train, images.train)
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
        load("omniglot", data_dir=tmp_path)
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
        load("omniglot", data_dir=tmp_path)


def test_shrink():
    assert shrink(drawing(np.zeros((105, 105), bool))).max() == 0
    assert shrink(drawing(np.ones((105, 105), bool))).min() == 255
    ink = RNG.random((105, 105)) < 0.3
    assert shrink(drawing(ink)).mean() == pytest.approx(255 * ink.mean(), rel=0.03)


@pytest.mark.data
def test_published(published):
    images = load("omniglot", data_dir=published)
    assert images.shape == (1, 28, 28)
    assert [len(images.train), len(images.validation), len(images.test)] == [17_352, 1_928, 13_180]
    labels = images.labels
    assert torch.cat([labels["train"], labels["validation"]]).unique().tolist() == list(range(964))
    assert labels["test"].unique().tolist() == list(range(964, 1623))
    assert int(labels["validation"].sum()) == 911_179


@pytest.mark.data
def test_our_conversion_gives_the_pictures_at_hand(published):
    """For each picture there is a one-bit drawing that we convert into exactly this picture.

    The box filter maps disjoint blocks of 3 or 4 pixels a side to one pixel each. For every block, a drawing that gives
    the grey value is looked up; had the picture been made by another filter, on another grid or with another
    rounding, some grey value would have none.
    """
    # One line of ink shows which pixel its block becomes; lines and columns are treated alike.
    lines = [np.outer(line, np.ones(105, bool)) for line in np.eye(105, dtype=bool)]
    block = np.array([int(shrink(drawing(ink)).argmax()) // 28 for ink in lines])
    assert block.tolist() == [int(shrink(drawing(ink.T)).argmax()) for ink in lines]
    in_block = np.arange(105) - np.searchsorted(block, block)
    lookup = [[{} for _ in range(28)] for _ in range(28)]
    for counts in itertools.product(range(5), repeat=4):  # pixels of ink in each row of a block
        ink = in_block[None, :] < np.array(counts)[in_block][:, None]
        for y, line in enumerate(shrink(drawing(ink))):
            for x, value in enumerate(line):
                lookup[y][x].setdefault(int(value), counts)
    pictures = read_npz(published / "omniglot" / "omniglot_28x28_u8.npz")["images"]
    for picture in pictures[:: len(pictures) // 100]:
        counts = np.array([[lookup[y][x][int(picture[y, x])] for x in range(28)] for y in range(28)])
        ink = in_block[None, :] < counts[block[:, None], block[None, :], in_block[:, None]]
        assert np.array_equal(shrink(drawing(ink)), picture)
