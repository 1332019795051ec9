"""Sheets of images with captions."""

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.drawing.images import make_sheet, save_image
from hardmax.errors import ArgumentError, DataError


def find_dark_pixels(image):
    """Return which pixels are nearly black, by row and column."""
    return np.asarray(image.convert("L")) < 100


def test_images_are_in_their_places_and_are_enlarged():
    values = torch.arange(6.0).view(2, 3, 1, 1, 1).expand(2, 3, 1, 16, 16) / 10
    drawn = make_sheet(values, names=["n"], heads=[["a"], ["b"], ["c"]])
    pixels = np.asarray(drawn.convert("L"))
    for row in range(2):
        for column in range(3):
            y, x = drawn.height - 8 - 32 - (1 - row) * 68, drawn.width - 8 - 32 - (2 - column) * 68
            assert pixels[y, x] == pytest.approx(255 * (3 * row + column) / 10, abs=1)
            assert (pixels[y - 31 : y + 31, x - 31 : x + 31] == pixels[y, x]).all()


def test_every_word_is_drawn_and_fits():
    blank = torch.ones(2, 2, 1, 64, 64)
    without = make_sheet(blank, names=[""], heads=[[""], [""]])
    assert not find_dark_pixels(without).any()
    plain = make_sheet(blank, names=["smiling"], heads=[["0"], ["1"]])
    assert plain.width > without.width
    long = make_sheet(
        blank, names=["smiling"], heads=[["0"], ["a very long word above a column"]], rows=["one\ntwo", "three"]
    )
    for image in (plain, long):
        pixels = find_dark_pixels(image)
        # nothing touches an edge, so nothing is cut off
        assert not pixels[[0, -1]].any()
        assert not pixels[:, [0, -1]].any()
        assert pixels.any()
    assert long.width > 2 * plain.width
    assert find_dark_pixels(long)[40:, :60].any()


def test_colour_and_letters_of_other_languages():
    red = torch.tensor([1.0, 0.0, 0.0]).view(1, 1, 3, 1, 1).expand(1, 1, 3, 80, 80)
    drawn = make_sheet(red, names=["lächelnd"], heads=[["1"]])
    assert drawn.getpixel((drawn.width - 20, drawn.height - 20)) == (255, 0, 0)


def test_a_word_for_every_place():
    for names, heads, rows in ([["a"], [["1"]], []], [["a"], [["1"], []], []], [["a"], [["1"], ["2"]], ["only one"]]):
        with pytest.raises(ArgumentError, match="a sheet of 3 rows and 2 columns"):
            make_sheet(torch.rand(3, 2, 1, 8, 8), names=names, heads=heads, rows=rows)


def test_save_replaces_at_once_in_the_format_of_the_name(tmp_path):
    image = Image.new("RGB", (8, 8), "red")
    for name, kind in (("a/b.png", "PNG"), ("c.jpg", "JPEG"), ("d", "PNG")):
        save_image(image, tmp_path / name)
        with Image.open(tmp_path / name) as back:
            assert back.format == kind
    assert not list(tmp_path.rglob("*.tmp"))
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*folder.png: .*; choose another file with --out"):
        save_image(image, tmp_path / "folder.png")
    assert not list(tmp_path.rglob("*.tmp"))
