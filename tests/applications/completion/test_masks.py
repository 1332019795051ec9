"""Masks: their places, that some pixels of each image are hidden and some visible, and masks from image files."""

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.applications.completion.config import MASKS, RANDOM_MASKS, CompletionConfig
from hardmax.applications.completion.masks import draw_masks, read_mask
from hardmax.applications.completion.photo import read_masked_photo
from hardmax.errors import DataError
from hardmax.random import make_generator


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("size", [(28, 28), (50, 64), (4, 4)])
def test_some_is_hidden_and_some_is_not(name, size):
    masks = draw_masks(name, 200, size, make_generator(0, name))
    assert masks.shape == (200, 1, *size)
    shares = masks.float().mean((1, 2, 3))
    assert (shares > 0).all()
    assert (shares < 1).all()
    assert (len(masks.unique(dim=0)) > 1) == (name in RANDOM_MASKS)


def test_places_of_fixed_masks():
    visible = {n: ~draw_masks(f"quadrants-{n}", 1, (4, 4))[0, 0] for n in (1, 2, 3)}
    assert [int(mask.sum()) for mask in visible.values()] == [4, 8, 12]
    assert visible[1][2:, :2].all()  # as in the tutorial: lower left, left half, all but lower right
    assert visible[2][:, :2].all()
    assert not visible[3][2:, 2:].any()
    assert draw_masks("centre", 1, (8, 8))[0, 0, 2:6, 2:6].all()
    assert int(draw_masks("centre", 1, (8, 8)).sum()) == 16


def test_random_masks_depend_on_the_generator():
    first, same, other = (draw_masks("any", 50, (28, 28), make_generator(seed, "mask")) for seed in (0, 0, 1))
    assert (first == same).all()
    assert (first != other).any()


def test_strokes_are_thin_and_rectangles_are_not():
    strokes, rectangles = (
        draw_masks(name, 300, (64, 64), make_generator(0)).float().mean() for name in RANDOM_MASKS[1::-1]
    )
    assert 0.05 < strokes < 0.5
    assert 0.1 < rectangles < 0.5


@pytest.mark.parametrize("kind", ["L", "RGB", "RGBA", "16 bits", "1"])
def test_an_image_file(kind, tmp_path):
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


def test_invalid_image_files(tmp_path):
    path = tmp_path / "mask.png"
    for value, message in ((0, "hides no pixel"), (255, "hides every pixel")):
        Image.fromarray(np.full((8, 8), value, np.uint8)).save(path)
        with pytest.raises(DataError, match=message):
            read_mask(path, (8, 8))
    with pytest.raises(DataError, match=r"is 8x8 \(width x height\), but the image it is for is 12x8"):
        read_mask(path, (8, 12))
    with pytest.raises(DataError, match="cannot be read as an image"):
        read_mask(tmp_path / "none.png", (8, 8))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("size", [(28, 60), (61, 28), (30, 30)])
def test_a_named_mask_hides_a_part_that_the_model_uses(tmp_path, name, size):
    """The model uses the largest square around the centre of a photo, and a named mask belongs to that."""
    pixels = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    photo = read_masked_photo(tmp_path / "photo.png", name, (1, 28, 28), CompletionConfig())
    left, top, right, bottom = photo.box
    assert (bottom - top, right - left) == (min(size), min(size))
    assert photo.hidden.shape == size
    expected = draw_masks(name, 1, (min(size), min(size)), make_generator(0, "mask"))[0, 0].numpy()
    assert (photo.hidden[top:bottom, left:right] == expected).all()
    assert photo.hidden.sum() == expected.sum()


def test_a_mask_of_zeros_and_ones(tmp_path):
    bits = np.zeros((8, 8), np.uint8)
    bits[2:4] = 1
    Image.fromarray(bits).save(tmp_path / "mask.png")
    assert (read_mask(tmp_path / "mask.png", (8, 8))[0].numpy() == (bits == 1)).all()
