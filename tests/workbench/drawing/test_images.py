"""Images from tensors."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.drawing.images import colour_difference, encode_data_uri, make_grid, shrink_image
from hardmax.errors import ArgumentError, DtypeError, ShapeError


def test_grid_puts_images_row_by_row():
    images = torch.arange(5).view(5, 1, 1, 1).expand(5, 1, 2, 3) / 4
    pixels = np.asarray(make_grid(images, columns=3, padding=1))
    assert pixels.shape == (7, 13)
    assert pixels[1, 1::4].tolist() == [0, 64, 128]
    assert pixels[4, 1::4].tolist() == [191, 255, 128]  # the last place is empty: grey
    assert (pixels[0] == 128).all()
    assert (pixels[:, 4] == 128).all()


@pytest.mark.parametrize(("count", "columns", "size"), [(1, None, (6, 6)), (10, None, (18, 14)), (3, 8, (14, 6))])
def test_size_of_a_grid(count, columns, size):
    assert make_grid(torch.rand(count, 1, 2, 2), columns).size == size


def test_colours_and_values_out_of_range():
    images = torch.tensor([2.0, -1.0, float("nan")]).view(1, 3, 1, 1)
    image = make_grid(images, padding=0)
    assert image.mode == "RGB"
    assert image.getpixel((0, 0)) == (255, 0, 0)
    assert make_grid(torch.rand(1, 1, 2, 2, dtype=torch.float64)).mode == "L"


@pytest.mark.parametrize("shape", [(28, 28), (1, 28, 28), (4, 2, 8, 8), (0, 1, 8, 8)])
def test_no_images(shape):
    with pytest.raises(ShapeError, match=r"expected images \[N, channels, H, W\]"):
        make_grid(torch.zeros(shape))


def test_other_mistakes():
    with pytest.raises(DtypeError, match="divide bytes by 255"):
        make_grid(torch.zeros(1, 1, 2, 2, dtype=torch.uint8))
    with pytest.raises(ArgumentError, match="columns"):
        make_grid(torch.zeros(1, 1, 2, 2), columns=0)
    with pytest.raises(ArgumentError, match="padding"):
        make_grid(torch.zeros(1, 1, 2, 2), padding=-1)


def test_data_uri_keeps_every_pixel():
    image = make_grid(torch.rand(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)))
    uri = encode_data_uri(image)
    assert uri == encode_data_uri(image)
    back = Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
    assert np.array_equal(np.asarray(back), np.asarray(image))


def test_shrink():
    assert shrink_image(torch.rand(2, 1, 28, 28)).shape == (2, 1, 28, 28)
    assert shrink_image(torch.rand(2, 3, 512, 200)).shape == (2, 3, 128, 50)
    assert shrink_image(torch.full((1, 1, 300, 2), 0.25)).unique().tolist() == [0.25]


def test_difference_is_black_where_nothing_changes():
    before = torch.zeros(1, 1, 1, 3)
    after = torch.tensor([0.0, 0.5, -0.5]).view(1, 1, 1, 3)
    black, up, down = colour_difference(before, after)[0, :, 0].T
    assert black.tolist() == [0, 0, 0]
    assert up[0] > up[2]  # orange
    assert down[2] > down[0]  # blue
    assert colour_difference(before, before).abs().max() == 0
