"""Images, and pixels as zeros and ones."""

import pytest
import torch

from hardmax.data import Images, binarize

GREY = torch.arange(256, dtype=torch.uint8)


def test_threshold_rounds_at_one_half():
    assert torch.equal(binarize(GREY), (GREY.double() / 255).round().float())
    assert torch.equal(binarize(GREY, "threshold").bool(), GREY > 127)


def test_none_is_the_grey_value():
    values = binarize(GREY.view(16, 16), "none")
    assert values.shape == (16, 16)
    assert values.dtype == torch.float32
    assert torch.equal(values.flatten(), torch.arange(256) / 255)


def test_stochastic_has_the_grey_value_as_its_mean():
    draws = 4000
    values = binarize(GREY.expand(draws, 256), "stochastic", torch.Generator().manual_seed(0))
    assert set(values.unique().tolist()) == {0.0, 1.0}
    assert (values[:, 0] == 0).all()
    assert (values[:, 255] == 1).all()
    p = GREY / 255
    deviation = (values.mean(0) - p)[1:-1] / (p * (1 - p) / draws).sqrt()[1:-1]
    assert deviation.abs().max() < 5
    again = binarize(GREY.expand(draws, 256), "stochastic", torch.Generator().manual_seed(0))
    assert torch.equal(values, again)


def test_images_show_their_sizes_and_not_their_pixels():
    pixels = torch.zeros(1200, 3, 8, 6, dtype=torch.uint8)
    images = Images("mine", "made up", pixels, pixels[:5], pixels[:7])
    assert images.shape == (3, 8, 6)
    assert repr(images) == "Images(mine: 1,200 train, 5 validation, 7 test, 3x8x6)"
    with pytest.raises(AttributeError):
        images.name = "yours"
