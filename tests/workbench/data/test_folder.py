"""Folders with images of all modes, sizes and formats."""

import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.data import load_images
from hardmax.data.folder import find_images
from hardmax.data.image_reading import read_image
from hardmax.errors import DataError

RNG = np.random.default_rng(0)


def noise(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path, mode="RGB", size=(16, 12), **options):
    """Write an image of noise; size is width and height, as in Pillow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    if mode == "I;16":
        image = Image.fromarray(RNG.integers(0, 65536, (height, width), dtype=np.uint16))
    elif mode == "F":
        image = Image.fromarray(RNG.random((height, width), dtype=np.float32))
    elif mode in ("1", "P", "LA", "CMYK", "RGBA", "L", "RGB"):
        image = Image.fromarray(noise(height, width, 4), "RGBA").convert(mode)
    image.save(path, **options)
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
    """Return a folder with 500 images of all modes and formats, most of 16x12; three of the files are broken."""
    folder = tmp_path_factory.mktemp("mixed")
    for i in range(500):
        name, mode = KINDS[i % len(KINDS)]
        size = [(16, 12), (16, 12), (16, 12), (30, 40), (9, 7), (100, 10)][i % 6]
        save(folder / f"{'abc'[i % 3]}" / f"{i:03}{name[1:]}", mode, size)
    (folder / "a" / "600.png").write_bytes(b"not an image")
    (folder / "b" / "601.jpg").write_bytes((folder / "b" / "001.jpg").read_bytes()[:200])
    (folder / "c" / "602.png").write_bytes(b"")
    (folder / "c" / "notes.txt").write_text("not an image, and not called one")
    (folder / "c" / "._hidden.png").write_bytes(b"junk of another system")
    return folder


def test_mixed(mixed):
    images = load_images(str(mixed))
    assert images.shape == (3, 12, 16)
    assert [len(images.train), len(images.validation), len(images.test)] == [400, 50, 50]
    assert images.train.dtype == torch.uint8
    for words in (
        f"500 images in {mixed}, as 12x16 RGB",
        "RGBA 72",
        "249 of other sizes were cropped and resized",
        "3 could not be read and were left out: a/600.png, b/601.jpg, c/602.png",
        "3 classes: a, b, c",
    ):
        assert words in images.source
    counts = torch.cat(list(images.labels.values())).bincount()
    assert counts.tolist() == [167, 167, 166]
    again = load_images(str(mixed))
    assert torch.equal(images.test, again.test)
    assert not torch.equal(images.test, load_images(str(mixed), seed=1).test)


def test_size(mixed):
    assert load_images(str(mixed), size=8).shape == (3, 8, 8)
    images = load_images(str(mixed), size=(20, 24))
    assert images.shape == (3, 20, 24)
    assert "500 of other sizes" in images.source
    with pytest.raises(DataError, match="size must be positive, got 0"):
        load_images(str(mixed), size=0)
    with pytest.raises(DataError, match=r"need [\d,]+ GB of memory.*size=64.*limit="):
        load_images(str(mixed), size=10_000_000)


def test_limit(mixed):
    reports = []
    images = load_images(mixed, limit=90, progress=lambda *report: reports.append(report))
    assert torch.cat(list(images.labels.values())).bincount().min() >= 28
    assert "90 of 503, evenly spread" in images.source
    assert reports[-1] == (str(mixed), 90, 90)
    assert len(load_images(mixed, limit=1000).train) == 400


@pytest.mark.parametrize("modes", [["L"], ["1", "L", "LA", "I;16"], ["RGB", "P"]], ids=str)
def test_grey_if_all_are_grey_whatever_their_mode(tmp_path, modes):
    for i in range(20):
        path = tmp_path / f"{i}.png"
        save(path, mode := modes[i % len(modes)])
        if mode in ("RGB", "P"):
            Image.fromarray(noise(12, 16)).convert(mode).save(path)
    images = load_images(str(tmp_path))
    assert images.shape == (1, 12, 16)
    assert images.labels is None
    save(tmp_path / "colour.png", "RGB")
    assert load_images(str(tmp_path)).shape == (3, 12, 16)


def test_values(tmp_path):
    def read(image, name="a.png", **options):
        image.save(tmp_path / name, **options)
        return read_image(tmp_path / name, (image.height, image.width)).pixels

    grey = noise(5, 4)
    assert np.array_equal(read(Image.fromarray(grey)), grey)
    colour = noise(5, 4, 3)
    assert np.array_equal(read(Image.fromarray(colour)), colour)
    assert np.array_equal(read(Image.fromarray(colour), "a.bmp"), colour)
    wide = np.array([[0, 257, 514, 32896, 65535]], dtype=np.uint16)
    assert read(Image.fromarray(wide)).tolist() == [[0, 1, 2, 128, 255]]
    assert read(Image.fromarray(np.array([[0, 0.5, 1]], np.float32)), "a.tif").tolist() == [[0, 128, 255]]
    assert read(Image.fromarray(grey > 127)).tolist() == np.where(grey > 127, 255, 0).tolist()
    # Transparent pixels are blended with black.
    alpha = np.dstack([colour, np.full((5, 4), 255, np.uint8)])
    alpha[0, :, 3], alpha[1, :, 3] = 0, 128
    blended = read(Image.fromarray(alpha))
    assert (blended[0] == 0).all()
    assert np.abs(blended[1].astype(int) - colour[1] * (128 / 255)).max() <= 1
    assert np.array_equal(blended[2:], colour[2:])
    palette = Image.new("P", (2, 1))
    palette.putpalette([200, 10, 10, 10, 200, 10])
    palette.putpixel((1, 0), 1)
    assert read(palette).tolist() == [[[200, 10, 10], [10, 200, 10]]]
    assert read(palette, transparency=0).tolist() == [[[0, 0, 0], [10, 200, 10]]]
    white = Image.new("CMYK", (4, 4), (0, 0, 0, 0))
    assert (read(white, "a.jpg") >= 254).all()


def test_rotated_photos(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for i in range(3):
        save(tmp_path / f"{i}.jpg", size=(16, 12), exif=exif)
    assert load_images(str(tmp_path)).shape == (3, 16, 12)


def test_large_photos_are_decoded_small(tmp_path):
    y, x = np.mgrid[:1200, :1600]
    colours = np.dstack([x / 1600, y / 1200, 0 * x]) * 255
    Image.fromarray(colours.astype(np.uint8)).save(tmp_path / "a.jpg")
    image = read_image(tmp_path / "a.jpg", (12, 16))
    assert image.resized
    assert np.abs(image.pixels - colours[50::100, 50::100]).max() < 4


def test_crop_is_central(tmp_path):
    stripes = np.zeros((4, 12, 3), np.uint8)
    stripes[:, 4:8] = (200, 100, 50)
    Image.fromarray(stripes).save(tmp_path / "a.png")
    for size in (4, 2, 8):
        image = read_image(tmp_path / "a.png", (size, size))
        assert image.resized
        inner = (
            image.pixels[:, 2:-2] if size == 8 else image.pixels
        )  # the Lanczos filter mixes in pixels beyond the edges
        assert np.abs(inner.astype(int) - (200, 100, 50)).max() <= 12


def test_parts_from_folders(tmp_path):
    for part, count in (("train", 20), ("val", 5), ("test", 7)):
        for i in range(count):
            save(tmp_path / part / f"class{i % 2}" / f"{i}.png")
    images = load_images(str(tmp_path))
    assert [len(images.train), len(images.validation), len(images.test)] == [20, 5, 7]
    assert "2 classes: class0, class1" in images.source
    assert images.labels["test"].bincount().tolist() == [4, 3]
    shutil.rmtree(tmp_path / "val")
    images = load_images(str(tmp_path))
    assert [len(images.train), len(images.validation), len(images.test)] == [18, 2, 7]
    shutil.rmtree(tmp_path / "train")  # without "train", "test" is a class like any other
    assert "1 classes: test" in load_images(str(tmp_path)).source


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ([(16, 16), (8, 8), (12, 12)], (12, 12)),
        ([(9, 9), (9, 9), (40, 30), (50, 60), (60, 45), (70, 80), (80, 90)], (45, 50)),  # not the most common one
        ([(16, 12), (12, 16)], (12, 12)),
        ([(16, 12), (16, 12), (16, 12), (99, 98), (3, 2)], (12, 16)),
    ],
)
def test_mixed_sizes_become_the_median(tmp_path, sizes, shape):
    for i, size in enumerate([*sizes, *sizes]):
        save(tmp_path / f"{i}.png", size=size)
    images = load_images(str(tmp_path))
    assert images.shape == (3, *shape)
    heights, widths = [height for _, height in sizes], [width for width, _ in sizes]
    assert f"the median of sizes from {min(heights)}x{min(widths)} to {max(heights)}x{max(widths)}" in images.source
    assert "the median" not in load_images(str(tmp_path), size=8).source


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "I;16", "1"])
def test_strips_of_large_images_give_the_same_pixels(tmp_path, monkeypatch, mode):
    path = save(tmp_path / "a.png", mode, (64, 48))
    sizes = ((48, 64), (8, 8), (13, 29), (31, 11), (1, 1))
    wholes = [read_image(path, size).pixels for size in sizes]
    monkeypatch.setattr("hardmax.data.image_reading._STRIP", 300)
    strips = [read_image(path, size).pixels for size in sizes]
    assert np.array_equal(wholes[0], strips[0])
    for whole, strip in zip(wholes, strips, strict=True):  # Pillow rounds after the rows, or after the columns
        assert np.abs(whole.astype(int) - strip).max() <= 1


def test_flat_images_are_reported(tmp_path):
    for i in range(4):
        Image.new("RGBA", (8, 8), (0, 0, 0, 60 * i)).save(tmp_path / f"{i}.png")
    assert "4 are of one flat colour" in load_images(str(tmp_path)).source


def test_empty_folder(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(
        DataError, match=re.escape(str(tmp_path)) + r" holds no images \(1 other files\): expected .png"
    ):
        load_images(str(tmp_path))


def test_one_broken_image_among_few_is_an_error(tmp_path):
    for i in range(19):
        save(tmp_path / f"{i}.png")
    (tmp_path / "x.png").write_bytes(b"junk")
    with pytest.raises(
        DataError, match=r"1 of 20 images cannot be read; the first: .*x\.png.*not in an image's format"
    ):
        load_images(str(tmp_path))
    save(tmp_path / "20.png")
    assert "1 could not be read and were left out: x.png" in load_images(str(tmp_path)).source


def test_images_that_are_broken_after_the_header(tmp_path):
    for i in range(3):
        path = save(tmp_path / f"{i}.png", size=(64, 64))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"1 of 3 images.*2\.png"):
        load_images(str(tmp_path))


def test_links_are_followed_once(tmp_path):
    save(tmp_path / "real" / "a.png")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(tmp_path / ".hidden" / "b.png")
    assert [path.name for path in find_images(tmp_path)] == ["a.png"]
