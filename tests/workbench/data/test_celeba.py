"""CelebA in its published form, with a dozen synthetic images, with and without the partition."""

import re

import numpy as np
import pytest
from PIL import Image

from hardmax.cli import data
from hardmax.data import load_images
from hardmax.errors import DataError

NAMES = ["5_o_Clock_Shadow", "Male", "Smiling"]
COUNT = 12
PARTS = ("train", "validation", "test")


def bits(i):
    return [i % 2, int(i % 3 == 0), int(i > 6)]


def attribute_lines():
    rows = [f"{i:06}.jpg " + "".join(f"{2 * bit - 1:>3}" for bit in bits(i)) for i in range(1, COUNT + 1)]
    return [str(COUNT), " ".join(NAMES) + " ", *rows]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def make(lists, images, partition=None):
    """Write the lists and images of 178x218; the grey value of image i is 20 i, with a bright rim to cut off."""
    write(lists / "list_attr_celeba.txt", attribute_lines())
    if partition:
        write(partition, [f"{i:06}.jpg {0 if i <= 8 else 1 if i <= 10 else 2}" for i in range(1, COUNT + 1)])
    images.mkdir(parents=True, exist_ok=True)
    for i in range(1, COUNT + 1):
        pixels = np.full((218, 178, 3), 20 * i, np.uint8)
        pixels[:18] = pixels[-18:] = 255
        pixels[..., 2] //= 2  # coloured
        Image.fromarray(pixels).save(images / f"{i:06}.jpg", quality=95)


@pytest.fixture
def celeba(tmp_path):
    folder = tmp_path / "celeba"
    make(folder, folder / "img_align_celeba", folder / "list_eval_partition.txt")
    return folder


def numbers(images, part):
    """Return the numbers of the images of a part, from their grey values."""
    pixels = getattr(images, part)
    assert int((pixels.amax((2, 3)) - pixels.amin((2, 3))).max()) < 12  # the rims are cut off
    return (pixels[:, 0].double().mean((1, 2)) / 20).round().long().tolist()


def test_by_name(celeba, tmp_path):
    images = load_images("celeba", data_dir=tmp_path)
    assert images.name == "celeba"
    assert images.shape == (3, 64, 64)
    assert images.attribute_names == tuple(NAMES)
    assert images.labels is None
    assert numbers(images, "train") == list(range(1, 9))
    assert numbers(images, "validation") == [9, 10]
    assert numbers(images, "test") == [11, 12]
    for part in PARTS:
        assert images.attributes[part].tolist() == [bits(i) for i in numbers(images, part)]
    for words in (f"12 images in {celeba / 'img_align_celeba'}", "64x64 RGB", "parts from list_eval_partition.txt"):
        assert words in images.source


def test_by_path(celeba):
    images = load_images(str(celeba), size=(12, 16))
    assert images.shape == (3, 12, 16)
    assert numbers(images, "test") == [11, 12]


def test_without_the_partition(celeba):
    (celeba / "list_eval_partition.txt").unlink()
    splits = []
    for seed in (0, 0, 1):
        images = load_images(celeba, seed=seed)
        parts = [numbers(images, part) for part in PARTS]
        assert [len(part) for part in parts] == [10, 1, 1]
        assert sorted(i for part in parts for i in part) == list(range(1, 13))
        assert all(images.attributes[part].tolist() == [bits(i) for i in numbers(images, part)] for part in PARTS)
        splits.append(parts)
    assert splits[0] == splits[1] != splits[2]
    assert "no list_eval_partition.txt: parts by the seed" in images.source


@pytest.mark.parametrize("layout", ["flat", "published", "nested"])
def test_other_layouts(tmp_path, layout):
    folder = tmp_path / "celeba"
    if layout == "flat":
        make(folder, folder, folder / "list_eval_partition.txt")
    elif layout == "published":
        make(folder / "Anno", folder / "Img" / "img_align_celeba", folder / "Eval" / "list_eval_partition.txt")
    else:
        inner = folder / "img_align_celeba" / "img_align_celeba"
        make(folder, inner, folder / "list_eval_partition.txt")
    for images in (load_images("celeba", data_dir=tmp_path), load_images(folder)):
        assert numbers(images, "train") == list(range(1, 9))
        assert images.shape == (3, 64, 64)


def test_limit(celeba):
    images = load_images(celeba, limit=6)
    assert [numbers(images, part) for part in PARTS] == [[1, 3, 5, 7], [9], [11]]
    assert "6 of 12, evenly spread" in images.source
    assert len(load_images(celeba, limit=100).train) == 8
    with pytest.raises(DataError, match="limit must be positive, got 0"):
        load_images(celeba, limit=0)
    with pytest.raises(DataError, match="1 images are too few"):
        load_images(celeba, limit=1)


def test_progress(celeba):
    reports = []
    load_images(celeba, progress=lambda *report: reports.append(report))
    assert reports[-1] == (str(celeba / "img_align_celeba"), 12, 12)


def test_images_that_do_not_fit_into_memory(celeba):
    with pytest.raises(DataError, match=r"12 images of 1000000x1000000 need [\d,]+ GB of memory.*limit="):
        load_images(celeba, size=1_000_000)


def changed(number, line):
    lines = attribute_lines()
    return [*lines[: number - 1], *([line] if line is not None else []), *lines[number:]]


LINES = attribute_lines()
WRONG = [
    ([], "is empty"),
    (changed(1, "13"), "line 1 says 13 images, but 12 lines follow"),
    (changed(5, None), "line 1 says 12 images, but 11 lines follow"),
    (["0", LINES[1]], "line 1 says 0 images"),
    (LINES[:1], "line 1: '12', expected the number of images, then"),
    (LINES[1:], "line 1: '5_o_Clock_Shadow Male Smiling ', expected the number of images"),
    (changed(7, "000005.jpg -1 1"), "line 7: 2 values, but line 2 names 3 attributes"),
    (changed(7, "000005.jpg -1 1 1 1"), "line 7: 4 values, but line 2 names 3"),
    (changed(7, ""), "line 7: 0 values"),
    (changed(2, "A B"), "line 3: 3 values, but line 2 names 2 attributes"),
    (changed(2, "A B b"), "line 2: the attributes 'B' and 'b' have the same name"),
    (changed(7, "000005.jpg -1 1 0"), "line 7: a value is '0', expected -1 or 1"),
    (changed(7, "000002.jpg -1 1 1"), r"line 7: 000002\.jpg is here a second time; line 4 has it"),
]


@pytest.mark.parametrize(("lines", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_lists(celeba, lines, message):
    write(celeba / "list_attr_celeba.txt", lines)
    with pytest.raises(DataError, match=rf"list_attr_celeba\.txt.*{message}"):
        load_images(celeba)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("000005.jpg 3", r"line 5: '000005\.jpg 3', expected an image and 0, 1 or 2"),
        ("000005.jpg", r"line 5: '000005\.jpg', expected"),
        ("000055.jpg 1", r"does not have 000005\.jpg, which the list of attributes has"),
    ],
)
def test_wrong_partition(celeba, line, message):
    path = celeba / "list_eval_partition.txt"
    lines = path.read_text().splitlines()
    write(path, [*lines[:4], line, *lines[5:]])
    with pytest.raises(DataError, match=rf"list_eval_partition\.txt.*{message}"):
        load_images(celeba)


def test_images_that_are_missing(celeba):
    (celeba / "img_align_celeba" / "000004.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of the 12 images in .* not in .*, the first is 000004\.jpg; unpack"):
        load_images(celeba)
    (celeba / "img_align_celeba").rename(celeba / "elsewhere")
    (celeba / "img_align_celeba.zip").touch()
    here = re.escape(str(celeba))
    with pytest.raises(
        DataError, match=rf"12 of the 12 images .* not in {here}, .*unpack {here}/img_align_celeba\.zip"
    ):
        load_images(celeba)


def test_the_command_reads_a_part(celeba, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "_CELEBA_LIMIT", 6)
    assert data.check_sets(["celeba", "--data-dir", str(tmp_path)]) == 0
    assert "ok: 4 + 1 + 1 images of 3x64x64, attributes 5_o_Clock_Shadow, Male, Smiling" in capsys.readouterr().out
    assert data.check_sets([str(celeba)]) == 0
    assert "ok: 8 + 2 + 2 images of 3x64x64" in capsys.readouterr().out


def test_images_and_attributes_stay_together_when_one_is_broken(celeba):
    """22 of 23 images can be read, which is sufficient; images after the broken one keep their attributes."""
    extra = range(COUNT + 1, 24)
    lines = attribute_lines()
    rows = [f"{i:06}.jpg -1 -1 -1" for i in extra]
    write(celeba / "list_attr_celeba.txt", ["23", lines[1], *rows, *lines[2:]])
    (celeba / "list_eval_partition.txt").unlink()
    for i in extra:
        Image.new("RGB", (178, 218)).save(celeba / "img_align_celeba" / f"{i:06}.jpg")
    (celeba / "img_align_celeba" / "000013.jpg").write_bytes(b"junk")
    images = load_images(celeba)
    for part in PARTS:
        assert images.attributes[part].tolist() == [bits(i) if i else [0, 0, 0] for i in numbers(images, part)]
    assert "1 could not be read and were left out: 000013.jpg" in images.source


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbf", "\u2003\n\u2003".encode(), b"9" * 5000 + b"\nMale\n000001.jpg 1", b"1\n\n000001.jpg", b"0\nMale"],
    ids=["mark", "spaces", "digits", "no names", "none"],
)
def test_odd_lists(celeba, content):
    (celeba / "list_attr_celeba.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"list_attr_celeba\.txt") as caught:
        load_images(celeba)
    assert "\n" not in str(caught.value)
