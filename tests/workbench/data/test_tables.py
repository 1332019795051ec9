"""The tables attributes.csv and labels.csv: complete, partial and invalid."""

import codecs
import re

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.data import load_images
from hardmax.errors import DataError

PARTS = ("train", "validation", "test")


@pytest.fixture
def folder(tmp_path):
    """Return a folder with twenty images; the grey value of each is ten times its number."""
    for i in range(20):
        Image.fromarray(np.full((6, 6), 10 * i, np.uint8)).save(tmp_path / f"{i:02}.png")
    return tmp_path


def write(folder, name, *lines):
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def get_known(images, column):
    """Return the known values of a column by the number of the image."""
    values = {}
    for part in PARTS:
        for pixels, value in zip(getattr(images, part), getattr(images, column)[part].tolist(), strict=True):
            values[int(pixels[0, 0, 0]) // 10] = value
    return values


@pytest.mark.parametrize(("no", "yes"), [("0", "1"), ("-1", "1"), ("false", "TRUE"), ("No", "yes"), (" 0", "1 ")])
def test_attributes(folder, no, yes):
    rows = [f"{i:02}.png,{yes if i % 2 else no},{yes if i < 5 else no}" for i in reversed(range(20))]
    images = load_images(write(folder, "attributes.csv", "image, odd ,Small", *rows))
    assert images.attribute_names == ("odd", "Small")
    assert get_known(images, "attributes") == {i: [i % 2, int(i < 5)] for i in range(20)}
    assert images.attributes["train"].dtype == torch.int64
    assert images.labels is None
    assert repr(images).endswith("1x6x6, 2 attributes)")
    assert "attributes.csv has 20 images: odd, Small" in images.source


def test_attributes_of_some_images(folder):
    write(folder, "attributes.csv", "file,odd,small", "./03.png,1,", "", "04.png,,", "00.png,0,1")
    images = load_images(folder)
    assert get_known(images, "attributes") == {i: {3: [1, -1], 0: [0, 1]}.get(i, [-1, -1]) for i in range(20)}
    assert "attributes.csv has 2 images" in images.source


def test_the_split_has_its_share_of_every_combination(tmp_path):
    for i in range(200):
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(tmp_path / f"{i}.png")
    write(tmp_path, "attributes.csv", "image,rare", *(f"{i}.png,{int(i % 10 == 0)}" for i in range(200)))
    for seed in range(5):
        images = load_images(tmp_path, seed=seed)
        assert [int(images.attributes[part].sum()) for part in PARTS] == [16, 2, 2]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["cat", "dog", "", "ant"], [1, 2, -1, 0]),
        (["3", "0", "", "12"], [3, 0, -1, 12]),
        (["-1", "0", "-1", "1"], [-1, 0, -1, 1]),
        (["1", "x", "", "2"], [0, 2, -1, 1]),
    ],
)
def test_labels(folder, labels, expected):
    write(folder, "labels.csv", "image,label", *(f"{i:02}.png,{label}" for i, label in enumerate(labels)))
    images = load_images(folder)
    assert get_known(images, "labels") == {i: expected[i] if i < 4 else -1 for i in range(20)}
    assert images.attributes is None
    assert images.attribute_names == ()
    assert ("3 classes" in images.source) == ("cat" in labels or "x" in labels)


def test_labels_instead_of_the_sub_folders(folder):
    for name in ("a", "b"):
        (folder / name).mkdir()
    for i in range(20):
        (folder / f"{i:02}.png").rename(folder / "ab"[i % 2] / f"{i:02}.png")
    assert get_known(load_images(folder), "labels") == {i: i % 2 for i in range(20)}
    rows = [f"{'ab'[i % 2]}\\{i:02}.png,{i % 5}" for i in range(20)]
    images = load_images(write(folder, "labels.csv", "image,label", *rows))
    assert get_known(images, "labels") == {i: i % 5 for i in range(20)}
    assert "classes: a, b" not in images.source


def test_a_table_with_the_marks_of_an_office_program(folder):
    text = 'image,label\r\n"00.png","a, b"\r\n01.png,c\r\n'
    (folder / "labels.csv").write_bytes(codecs.BOM_UTF8 + text.encode())
    labels = get_known(load_images(folder), "labels")
    assert (labels[0], labels[1]) == (0, 1)


def test_an_image_that_is_left_out_may_be_in_the_table(tmp_path):
    for i in range(39):
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "broken.png").write_bytes(b"junk")
    write(tmp_path, "labels.csv", "image,label", "broken.png,1", "7.png,1")
    images = load_images(tmp_path)
    assert sum(int((images.labels[part] == 1).sum()) for part in PARTS) == 1
    images = load_images(tmp_path, limit=10)
    assert sum(len(images.labels[part]) for part in PARTS) == 10


WRONG = [
    ("attributes.csv", "", "is empty"),
    ("attributes.csv", "\n \n", "is empty"),
    ("attributes.csv", "image,a\n", "names no image: it has only a header"),
    ("attributes.csv", "00.png,1\n01.png,0\n", r"line 1: '00\.png,1', expected a header such as image,NAME,\.\.\."),
    ("attributes.csv", "image;a\n00.png;1\n", "line 1: 'image;a', expected a header .* with commas between"),
    ("attributes.csv", "image\n00.png\n", "line 1: 'image', expected a header"),
    ("attributes.csv", "image,a,\n00.png,1,0\n", "line 1: attribute 2 of 2 has no name"),
    ("attributes.csv", "image,Big_Nose,big nose\n00.png,1,0\n", "'Big_Nose' and 'big nose' have the same name"),
    ("attributes.csv", "image,a,b\n00.png,1,0\n\n01.png,1\n", "line 4: 2 columns, but line 1 names 3"),
    ("attributes.csv", "image,a\n00.png,1\n02.pgn,1\n", r"line 3: there is no image '02\.pgn' .* mean '02\.png'\?"),
    ("attributes.csv", "image,a\n000.png,1\n", r"line 2: there is no image '000\.png' .*did you mean '00\.png'"),
    ("attributes.csv", "image,a\nx/07.png,1\n", r"no image 'x/07\.png' .*did you mean '07\.png'\?"),
    ("attributes.csv", "image,a\nsomewhere else entirely,1\n", r"no image 'somewhere else entirely' in [^;]*$"),
    ("attributes.csv", "image,a\n00.png,1\n01.png,0\n00.png,1\n", r"line 4: '00\.png' is .* second time; line 2 has"),
    ("attributes.csv", "image,a,b\n00.png,1,0\n01.png,1,2\n", "line 3: 'b' is '2', expected 0 or 1"),
    ("attributes.csv", "image,a\n00.png,maybe\n", "line 2: 'a' is 'maybe', expected 0 or 1"),
    ("attributes.csv", "image,a\n00.png,1\n01.png,-1\n02.png,0\n", r"both 0 \(line 4\) and -1 \(line 3\)"),
    ("labels.csv", "", "is empty"),
    ("labels.csv", "image,a,b\n00.png,1,0\n", "line 1: 3 columns, expected 2: image,label"),
    ("labels.csv", "00.png,cat\n", r"line 1: '00\.png,cat', expected a header such as image,label"),
    ("labels.csv", "image,label\n00.png,cat,dog\n", "line 2: 3 columns, but line 1 names 2"),
    ("labels.csv", "image,label\n00.png,cat\n00.png,cat\n", "line 3: .*second time; line 2"),
    ("labels.csv", "image,label\n00.png,-2\n", "line 2: the label is -2, expected a name or a whole number from 0"),
    ("labels.csv", f"image,label\n00.png,1\n01.png,{'x' * 200_000}\n", "line 3: field larger than field limit"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_tables(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(DataError, match=rf"{re.escape(str(folder / name))}.*{message}"):
        load_images(folder)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_not_utf_8(folder, encoding):
    (folder / "labels.csv").write_bytes("image,label\n00.png,cat\n01.png,Kätzchen\n".encode(encoding))
    line = {"latin-1": 3, "utf-16": 1}[encoding]
    with pytest.raises(DataError, match=rf"labels\.csv, line {line}: this is not UTF-8 text; save the file as UTF-8"):
        load_images(folder)


def test_a_table_is_read_before_the_images(folder):
    for path in folder.glob("*.png"):
        path.write_bytes(b"junk")
    with pytest.raises(DataError, match=r"labels\.csv is empty"):
        load_images(write(folder, "labels.csv", ""))


@pytest.mark.parametrize("name", ["attributes.csv", "labels.csv"])
@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8,
        codecs.BOM_UTF8 + b"\n",
        b"image,a\n\x00.png,1\n",
        b"image,a\n00.png," + b"1" * 200_000 + b"\n",
        b"image,a\n" + b"x" * 100_000 + b".png,1\n",
        b"image,a\n00.png,\xff\n",
        "image,a\n00.png,1\n".encode("utf-16"),
        b'image,a\n00.png,"1\n',
        b"image,a\r00.png,x\x85\r",
        b"\x1c",
    ],
    ids=range(10),
)
def test_odd_bytes(folder, name, content):
    (folder / name).write_bytes(content)
    try:
        images = load_images(folder)
    except DataError as error:
        message = str(error)
    else:
        assert images.labels is not None or images.attributes is not None
        return
    assert name in message
    assert "\n" not in message
    assert len(message) < 2000
