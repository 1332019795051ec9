"""A photo of any size and mode as a model sees it."""

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.applications.mixed_vae.commands import read_photo
from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.errors import DataError

GREY = MixedConfig(binarize="none")


@pytest.fixture
def photo(tmp_path):
    """Return a function that writes a picture of one colour with a white stripe at its left, and returns its path."""

    def one(size, mode, name="photo.png", colour=(200, 100, 0)):
        pixels = np.full((size[1], size[0], 3), colour, np.uint8)
        pixels[:, : size[0] // 4] = 255
        Image.fromarray(pixels).convert(mode).save(tmp_path / name)
        return tmp_path / name

    return one


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_fits_every_model(photo, mode, channels):
    found = read_photo(photo((20, 20), mode, "photo.tif"), (channels, 8, 8), GREY)
    assert found.seen.x.shape == (1, channels, 8, 8)
    assert 0 <= found.seen.x.min() <= found.seen.x.max() <= 1
    assert f"20x20 {mode}" in found.done
    assert "resized to 8x8" in found.done


def test_colour_becomes_grey_by_its_brightness(photo):
    found = read_photo(photo((16, 16), "RGB"), (1, 16, 16), GREY)
    assert found.done == "16x16 RGB, made grey"
    assert found.seen.x[0, 0, 0, 8].item() == pytest.approx((0.299 * 200 + 0.587 * 100) / 255, abs=0.01)


def test_grey_becomes_three_equal_channels(photo):
    found = read_photo(photo((16, 16), "L"), (3, 16, 16), GREY)
    assert found.done == "16x16 L, grey as RGB"
    assert (found.seen.x[0, 0] == found.seen.x[0, 2]).all()


def test_a_wide_photo_is_cut_around_its_centre(photo):
    found = read_photo(photo((64, 16), "RGB"), (3, 16, 16), GREY)
    assert found.done == "64x16 RGB, cut around its centre, resized to 16x16"
    # the stripe at the left edge is gone
    torch.testing.assert_close(found.seen.x[0, :, 8, 0], torch.tensor([200.0, 100.0, 0.0]) / 255)


def test_pixels_are_those_that_the_run_was_trained_with(photo):
    path = photo((8, 8), "L", colour=(100, 100, 100))
    rounded = read_photo(path, (1, 8, 8), MixedConfig())
    assert rounded.seen.x.unique().tolist() == [0, 1]
    assert rounded.seen.shown is rounded.seen.x
    assert rounded.done.endswith("pixels rounded to zeros and ones")
    both = read_photo(path, (1, 8, 8), MixedConfig(encoder_input="grey"))
    assert both.seen.x[0, 0, 0, 7] == 0
    assert both.seen.shown[0, 0, 0, 7].item() == pytest.approx(100 / 255, abs=1e-6)
    drawn = MixedConfig(binarize="stochastic")
    assert (read_photo(path, (1, 8, 8), drawn).seen.x == read_photo(path, (1, 8, 8), drawn).seen.x).all()


def test_no_picture(tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    for name in ("text.png", "nothing.png", "."):
        with pytest.raises(DataError, match="cannot be read as a picture"):
            read_photo(tmp_path / name, (1, 8, 8), GREY)
