"""A photo of any size and mode, converted to the input of a model."""

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
    """Return a function that writes an image of one colour with a white stripe at its left, and returns its path."""

    def write(size, mode, name="photo.png", colour=(200, 100, 0)):
        pixels = np.full((size[1], size[0], 3), colour, np.uint8)
        pixels[:, : size[0] // 4] = 255
        Image.fromarray(pixels).convert(mode).save(tmp_path / name)
        return tmp_path / name

    return write


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_fits_every_model(photo, mode, channels):
    fitted = read_photo(photo((20, 20), mode, "photo.tif"), (channels, 8, 8), GREY)
    assert fitted.prepared.x.shape == (1, channels, 8, 8)
    assert 0 <= fitted.prepared.x.min() <= fitted.prepared.x.max() <= 1
    assert f"20x20 {mode}" in fitted.description
    assert "resized to 8x8" in fitted.description


def test_colour_becomes_grey_by_its_brightness(photo):
    fitted = read_photo(photo((16, 16), "RGB"), (1, 16, 16), GREY)
    assert fitted.description == "16x16 RGB, made grey"
    assert fitted.prepared.x[0, 0, 0, 8].item() == pytest.approx((0.299 * 200 + 0.587 * 100) / 255, abs=0.01)


def test_grey_becomes_three_equal_channels(photo):
    fitted = read_photo(photo((16, 16), "L"), (3, 16, 16), GREY)
    assert fitted.description == "16x16 L, grey as RGB"
    assert (fitted.prepared.x[0, 0] == fitted.prepared.x[0, 2]).all()


def test_a_wide_photo_is_cut_around_its_centre(photo):
    fitted = read_photo(photo((64, 16), "RGB"), (3, 16, 16), GREY)
    assert fitted.description == "64x16 RGB, cut around its centre, resized to 16x16"
    # the stripe at the left edge is gone
    torch.testing.assert_close(fitted.prepared.x[0, :, 8, 0], torch.tensor([200.0, 100.0, 0.0]) / 255)


def test_pixels_are_those_that_the_run_was_trained_with(photo):
    path = photo((8, 8), "L", colour=(100, 100, 100))
    rounded = read_photo(path, (1, 8, 8), MixedConfig())
    assert rounded.prepared.x.unique().tolist() == [0, 1]
    assert rounded.prepared.encoder_input is rounded.prepared.x
    assert rounded.description.endswith("pixels rounded to zeros and ones")
    both = read_photo(path, (1, 8, 8), MixedConfig(encoder_input="grey"))
    assert both.prepared.x[0, 0, 0, 7] == 0
    assert both.prepared.encoder_input[0, 0, 0, 7].item() == pytest.approx(100 / 255, abs=1e-6)
    drawn = MixedConfig(binarize="stochastic")
    assert (read_photo(path, (1, 8, 8), drawn).prepared.x == read_photo(path, (1, 8, 8), drawn).prepared.x).all()


def test_a_file_that_is_not_an_image(tmp_path):
    (tmp_path / "text.png").write_text("no image")
    for name in ("text.png", "nothing.png", "."):
        with pytest.raises(DataError, match="cannot be read as an image"):
            read_photo(tmp_path / name, (1, 8, 8), GREY)
