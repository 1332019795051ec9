"""Masks: what is hidden where, that some of each picture is hidden and some is not, and the user's own."""

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.applications.completion.config import DRAWN, MASKS
from hardmax.applications.completion.masks import draw_masks, read_mask
from hardmax.errors import DataError
from hardmax.random import stream


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("size", [(28, 28), (50, 64), (4, 4)])
def test_some_is_hidden_and_some_is_not(name, size):
    masks = draw_masks(name, 200, size, stream(0, name))
    assert masks.shape == (200, 1, *size)
    shares = masks.float().mean((1, 2, 3))
    assert (shares > 0).all()
    assert (shares < 1).all()
    assert (len(masks.unique(dim=0)) > 1) == (name in DRAWN)


def test_where_the_fixed_ones_are():
    shown = {n: ~draw_masks(f"quadrants-{n}", 1, (4, 4))[0, 0] for n in (1, 2, 3)}
    assert [int(mask.sum()) for mask in shown.values()] == [4, 8, 12]
    assert shown[1][2:, :2].all()  # those of the tutorial: lower left, left half, all but lower right
    assert shown[2][:, :2].all()
    assert not shown[3][2:, 2:].any()
    assert draw_masks("centre", 1, (8, 8))[0, 0, 2:6, 2:6].all()
    assert int(draw_masks("centre", 1, (8, 8)).sum()) == 16


def test_the_generator_decides():
    first, same, other = (draw_masks("any", 50, (28, 28), stream(seed, "mask")) for seed in (0, 0, 1))
    assert (first == same).all()
    assert (first != other).any()


def test_strokes_are_thin_and_rectangles_are_not():
    strokes, rectangles = (draw_masks(name, 300, (64, 64), stream(0)).float().mean() for name in DRAWN[1::-1])
    assert 0.05 < strokes < 0.5
    assert 0.1 < rectangles < 0.5


@pytest.mark.parametrize("kind", ["L", "RGB", "RGBA", "16 bits", "1"])
def test_a_picture(kind, tmp_path):
    pixels = np.zeros((20, 30), np.uint8)
    pixels[5:10, 5:25] = 255
    path = tmp_path / "mask.png"
    if kind == "16 bits":
        Image.fromarray(pixels.astype(np.uint16) * 257).save(path)
    else:
        Image.fromarray(pixels).convert(kind).save(path)
    hidden = read_mask(path, (20, 30))
    assert (hidden[0] == torch.from_numpy(pixels > 0)).all()
    assert read_mask(path, (40, 60)).sum() == 4 * hidden.sum()  # the same proportions
    assert draw_masks(str(path), 3, (20, 30)).shape == (3, 1, 20, 30)


def test_pictures_that_cannot_be_used(tmp_path):
    path = tmp_path / "mask.png"
    for value, message in ((0, "hides no pixel"), (255, "hides every pixel")):
        Image.fromarray(np.full((8, 8), value, np.uint8)).save(path)
        with pytest.raises(DataError, match=message):
            read_mask(path, (8, 8))
    with pytest.raises(DataError, match=r"is 8x8 \(width x height\), but the picture it is for is 12x8"):
        read_mask(path, (8, 12))
    with pytest.raises(DataError, match="cannot be read as a picture"):
        read_mask(tmp_path / "none.png", (8, 8))
