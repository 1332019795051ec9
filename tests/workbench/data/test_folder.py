"""A folder of pictures of all kinds."""

import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.data import load
from hardmax.data.folder import find_pictures
from hardmax.data.image_reading import read_image
from hardmax.errors import DataError

RNG = np.random.default_rng(0)


def noise(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path, mode="RGB", size=(16, 12), **options):
    """Write a picture of noise; size is width and height, as Pillow has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    if mode == "I;16":
        picture = Image.fromarray(RNG.integers(0, 65536, (height, width), dtype=np.uint16))
    elif mode == "F":
        picture = Image.fromarray(RNG.random((height, width), dtype=np.float32))
    elif mode in ("1", "P", "LA", "CMYK", "RGBA", "L", "RGB"):
        picture = Image.fromarray(noise(height, width, 4), "RGBA").convert(mode)
    picture.save(path, **options)
    return path


KINDS = [
    ("a.png", "RGB"),
    ("a.jpg", "RGB"),
    ("a.JPEG", "CMYK"),
    ("a.png", "RGBA"),
    ("a.png", "P"),
    ("a.gif", "P"),
    ("a.bmp", "RGB"),
    ("a.webp", "RGBA"),
    ("a.png", "LA"),
    ("a.png", "L"),
    ("a.png", "1"),
    ("a.png", "I;16"),
    ("a.tif", "I;16"),
    ("a.tiff", "F"),
]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """500 pictures, most of 16x12; modes and formats in turn; among them three files that are broken."""
    folder = tmp_path_factory.mktemp("mixed")
    for i in range(500):
        name, mode = KINDS[i % len(KINDS)]
        size = [(16, 12), (16, 12), (16, 12), (30, 40), (9, 7), (100, 10)][i % 6]
        save(folder / f"{'abc'[i % 3]}" / f"{i:03}{name[1:]}", mode, size)
    (folder / "a" / "600.png").write_bytes(b"not a picture")
    (folder / "b" / "601.jpg").write_bytes((folder / "b" / "001.jpg").read_bytes()[:200])
    (folder / "c" / "602.png").write_bytes(b"")
    (folder / "c" / "notes.txt").write_text("not a picture, and not called one")
    (folder / "c" / "._hidden.png").write_bytes(b"junk of another system")
    return folder


def test_mixed(mixed):
    images = load(str(mixed))
    assert images.shape == (3, 12, 16)
    assert [len(images.train), len(images.validation), len(images.test)] == [400, 50, 50]
    assert images.train.dtype == torch.uint8
    for words in (
        f"500 pictures in {mixed}, as 12x16 RGB",
        "RGBA 72",
        "249 of other sizes were cropped and resized",
        "3 could not be read and were left out: a/600.png, b/601.jpg, c/602.png",
        "3 classes: a, b, c",
    ):
        assert words in images.source
    counts = torch.cat(list(images.labels.values())).bincount()
    assert counts.tolist() == [167, 167, 166]
    again = load(str(mixed))
    assert torch.equal(images.test, again.test)
    assert not torch.equal(images.test, load(str(mixed), seed=1).test)


def test_size(mixed):
    assert load(str(mixed), size=8).shape == (3, 8, 8)
    images = load(str(mixed), size=(20, 24))
    assert images.shape == (3, 20, 24)
    assert "500 of other sizes" in images.source
    with pytest.raises(DataError, match="size must be positive, got 0"):
        load(str(mixed), size=0)
    with pytest.raises(DataError, match=r"need [\d,]+ GB of memory.*size=64.*limit="):
        load(str(mixed), size=10_000_000)


def test_limit(mixed):
    told = []
    images = load(mixed, limit=90, progress=lambda *said: told.append(said))
    assert torch.cat(list(images.labels.values())).bincount().min() >= 28
    assert "90 of 503, evenly spread" in images.source
    assert told[-1] == (str(mixed), 90, 90)
    assert len(load(mixed, limit=1000).train) == 400


@pytest.mark.parametrize("modes", [["L"], ["1", "L", "LA", "I;16"], ["RGB", "P"]], ids=str)
def test_grey_if_all_are_grey_whatever_their_mode(tmp_path, modes):
    for i in range(20):
        path = tmp_path / f"{i}.png"
        save(path, mode := modes[i % len(modes)])
        if mode in ("RGB", "P"):
            Image.fromarray(noise(12, 16)).convert(mode).save(path)
    images = load(str(tmp_path))
    assert images.shape == (1, 12, 16)
    assert images.labels is None
    save(tmp_path / "colour.png", "RGB")
    assert load(str(tmp_path)).shape == (3, 12, 16)


def test_values(tmp_path):
    def read(picture, name="a.png", **options):
        picture.save(tmp_path / name, **options)
        return read_image(tmp_path / name, (picture.height, picture.width)).pixels

    grey = noise(5, 4)
    assert np.array_equal(read(Image.fromarray(grey)), grey)
    colour = noise(5, 4, 3)
    assert np.array_equal(read(Image.fromarray(colour)), colour)
    assert np.array_equal(read(Image.fromarray(colour), "a.bmp"), colour)
    wide = np.array([[0, 257, 514, 32896, 65535]], dtype=np.uint16)
    assert read(Image.fromarray(wide)).tolist() == [[0, 1, 2, 128, 255]]
    assert read(Image.fromarray(np.array([[0, 0.5, 1]], np.float32)), "a.tif").tolist() == [[0, 128, 255]]
    assert read(Image.fromarray(grey > 127)).tolist() == np.where(grey > 127, 255, 0).tolist()
    # Transparent: over black.
    alpha = np.dstack([colour, np.full((5, 4), 255, np.uint8)])
    alpha[0, :, 3], alpha[1, :, 3] = 0, 128
    seen = read(Image.fromarray(alpha))
    assert (seen[0] == 0).all()
    assert np.abs(seen[1].astype(int) - colour[1] * (128 / 255)).max() <= 1
    assert np.array_equal(seen[2:], colour[2:])
    palette = Image.new("P", (2, 1))
    palette.putpalette([200, 10, 10, 10, 200, 10])
    palette.putpixel((1, 0), 1)
    assert read(palette).tolist() == [[[200, 10, 10], [10, 200, 10]]]
    assert read(palette, transparency=0).tolist() == [[[0, 0, 0], [10, 200, 10]]]
    white = Image.new("CMYK", (4, 4), (0, 0, 0, 0))
    assert (read(white, "a.jpg") >= 254).all()


def test_turned_photographs(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for i in range(3):
        save(tmp_path / f"{i}.jpg", size=(16, 12), exif=exif)
    assert load(str(tmp_path)).shape == (3, 16, 12)


def test_large_photographs_are_decoded_small(tmp_path):
    y, x = np.mgrid[:1200, :1600]
    colours = np.dstack([x / 1600, y / 1200, 0 * x]) * 255
    Image.fromarray(colours.astype(np.uint8)).save(tmp_path / "a.jpg")
    picture = read_image(tmp_path / "a.jpg", (12, 16))
    assert picture.resized
    assert np.abs(picture.pixels - colours[50::100, 50::100]).max() < 4


def test_crop_is_central(tmp_path):
    stripes = np.zeros((4, 12, 3), np.uint8)
    stripes[:, 4:8] = (200, 100, 50)
    Image.fromarray(stripes).save(tmp_path / "a.png")
    for size in (4, 2, 8):
        picture = read_image(tmp_path / "a.png", (size, size))
        assert picture.resized
        inner = picture.pixels[:, 2:-2] if size == 8 else picture.pixels  # Lanczos sees over the edges
        assert np.abs(inner.astype(int) - (200, 100, 50)).max() <= 12


def test_parts_from_folders(tmp_path):
    for part, count in (("train", 20), ("val", 5), ("test", 7)):
        for i in range(count):
            save(tmp_path / part / f"class{i % 2}" / f"{i}.png")
    images = load(str(tmp_path))
    assert [len(images.train), len(images.validation), len(images.test)] == [20, 5, 7]
    assert "2 classes: class0, class1" in images.source
    assert images.labels["test"].bincount().tolist() == [4, 3]
    shutil.rmtree(tmp_path / "val")
    images = load(str(tmp_path))
    assert [len(images.train), len(images.validation), len(images.test)] == [18, 2, 7]
    shutil.rmtree(tmp_path / "train")  # then "test" is a folder as any other
    assert "1 classes: test" in load(str(tmp_path)).source


def test_a_tie_of_sizes_goes_to_the_smaller(tmp_path):
    for i, size in enumerate([(16, 16), (8, 8), (12, 12)]):
        save(tmp_path / f"{i}.png", size=size)
    assert load(str(tmp_path)).shape == (3, 8, 8)


def test_flat_pictures_are_reported(tmp_path):
    for i in range(4):
        Image.new("RGBA", (8, 8), (0, 0, 0, 60 * i)).save(tmp_path / f"{i}.png")
    assert "4 are of one flat colour" in load(str(tmp_path)).source


def test_empty_folder(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(
        DataError, match=re.escape(str(tmp_path)) + r" holds no pictures \(1 other files\): expected .png"
    ):
        load(str(tmp_path))


def test_one_broken_picture_among_few_is_an_error(tmp_path):
    for i in range(19):
        save(tmp_path / f"{i}.png")
    (tmp_path / "x.png").write_bytes(b"junk")
    with pytest.raises(
        DataError, match=r"1 of 20 pictures cannot be read; the first: .*x\.png.*not in a picture's format"
    ):
        load(str(tmp_path))
    save(tmp_path / "20.png")
    assert "1 could not be read and were left out: x.png" in load(str(tmp_path)).source


def test_pictures_whose_header_is_whole_but_not_the_rest(tmp_path):
    for i in range(3):
        path = save(tmp_path / f"{i}.png", size=(64, 64))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"1 of 3 pictures.*2\.png"):
        load(str(tmp_path))


def test_links_are_followed_once(tmp_path):
    save(tmp_path / "real" / "a.png")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(tmp_path / ".hidden" / "b.png")
    assert [path.name for path in find_pictures(tmp_path)] == ["a.png"]
