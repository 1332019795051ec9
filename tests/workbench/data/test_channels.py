"""Conversion between grey and RGB, the same as in Pillow."""

import numpy as np
import torch
from PIL import Image

from hardmax.data.image_files import to_channels


def test_grey_is_pillows():
    pixels = np.random.default_rng(0).integers(0, 256, (1100, 5, 4, 3)).astype(np.uint8)
    grey = to_channels(torch.from_numpy(pixels).permute(0, 3, 1, 2), 1)
    assert grey.shape == (1100, 1, 5, 4)
    for i in (0, 1099):
        assert (grey[i, 0].numpy() == np.array(Image.fromarray(pixels[i]).convert("L"))).all()


def test_grey_as_rgb_and_what_needs_nothing():
    grey = torch.arange(8, dtype=torch.uint8).view(2, 1, 2, 2)
    assert (to_channels(grey, 3) == grey).all()
    assert to_channels(grey, 3).shape == (2, 3, 2, 2)
    assert to_channels(grey, 1) is grey
