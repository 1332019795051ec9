"""Arrays of one's own: layouts, dtypes, names, and files that are not what they seem."""

import gzip
import struct
import zipfile

import numpy as np
import pytest
import torch

from hardmax.data import load
from hardmax.errors import DataError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (40, 6, 6), dtype=np.uint8)
RGB = RNG.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)


def everything(images):
    """All images of the three parts, in any order that does not depend on the split."""
    pixels = torch.cat([images.train, images.validation, images.test]).flatten(1)
    return sorted(map(tuple, pixels.tolist()))


def expected(array):
    return sorted(map(tuple, array.reshape(len(array), -1).tolist()))


@pytest.mark.parametrize(
    ("array", "pixels", "shape"),
    [
        (GREY, GREY, (1, 6, 6)),
        (GREY[:, None], GREY, (1, 6, 6)),
        (GREY[..., None], GREY, (1, 6, 6)),
        (GREY.reshape(40, 36), GREY, (1, 6, 6)),
        (GREY[:, :, :5], GREY[:, :, :5], (1, 6, 5)),
        (RGB, RGB.transpose(0, 3, 1, 2), (3, 6, 5)),
        (RGB.transpose(0, 3, 1, 2), RGB.transpose(0, 3, 1, 2), (3, 6, 5)),
        (GREY > 127, np.where(GREY > 127, 255, 0), (1, 6, 6)),
        (GREY / 255, GREY, (1, 6, 6)),
        ((GREY / 255).astype(np.float32), GREY, (1, 6, 6)),
        (np.asfortranarray(GREY), GREY, (1, 6, 6)),
    ],
)
def test_layouts(tmp_path, array, pixels, shape):
    np.save(tmp_path / "mine.npy", array)
    images = load(str(tmp_path / "mine.npy"))
    assert images.name == "mine"
    assert str(array.dtype) in images.source
    assert images.shape == shape
    assert everything(images) == expected(pixels)
    assert [len(images.train), len(images.validation), len(images.test)] == [32, 4, 4]


def test_floats_are_reported(tmp_path):
    np.save(tmp_path / "mine.npy", GREY / 255)
    assert "0..1 rounded to 256 grey values" in load(str(tmp_path / "mine.npy")).source


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (GREY.astype(np.int64), "dtype int64, expected uint8.*astype"),
        (GREY.astype(np.float32), "float32 values from 0 to 255, expected 0 to 1"),
        (np.full((4, 3, 3), np.nan), "values from nan to nan"),
        (GREY / 255 - 0.5, "values from -0.5 to 0.5"),
        (GREY[0, 0], r"shape \[6\], expected \[N, H, W\]"),
        (GREY.reshape(40, 36)[:, :35], r"shape \[40, 35\].*a square"),
        (RNG.integers(0, 256, (9, 6, 6, 4), dtype=np.uint8), r"shape \[9, 6, 6, 4\].*C of 1 or 3"),
        (GREY[:0], r"empty: its shape is \[0, 6, 6\]"),
        (np.array(["a", "b"]), r"shape \[2\]"),
        (GREY[:2], "2 images are too few"),
    ],
)
def test_arrays_that_are_no_images(tmp_path, array, message):
    np.save(tmp_path / "mine.npy", array)
    with pytest.raises(DataError, match=message):
        load(str(tmp_path / "mine.npy"))


LABELS = np.arange(40) % 3
NAMES = ["odd", "third"]
BITS = np.stack([np.arange(40) % 2, np.arange(40) % 3 == 0], 1).astype(np.int8)


@pytest.mark.parametrize(
    ("arrays", "sizes", "labelled"),
    [
        ({"images": GREY}, (32, 4, 4), False),
        ({"images": GREY, "labels": LABELS}, (32, 4, 4), True),
        ({"images": GREY, "labels": LABELS.astype(np.uint8)[:, None]}, (32, 4, 4), True),
        ({"images": GREY, "labels": LABELS / 2}, (32, 4, 4), False),
        ({"images": GREY, "labels": np.zeros((40, 2), int)}, (32, 4, 4), False),
        ({"images": GREY, "labels": np.where(LABELS, LABELS, -1)}, (32, 4, 4), True),
        ({"images": GREY, "attributes": np.zeros((40, 2))}, (32, 4, 4), False),
        ({"train": GREY, "test": GREY[:9]}, (36, 4, 9), False),
        ({"train": GREY, "validation": GREY[:5], "test": GREY[:9]}, (40, 5, 9), False),
        ({"x_train": GREY, "y_train": LABELS, "x_test": GREY[:9], "y_test": LABELS[:9]}, (36, 4, 9), True),
        ({"x_train": GREY, "y_train": LABELS, "x_test": GREY[:9]}, (36, 4, 9), False),
    ],
)
def test_names_in_an_npz(tmp_path, arrays, sizes, labelled):
    np.savez(tmp_path / "mine.npz", **arrays)
    images = load(str(tmp_path / "mine.npz"))
    assert (len(images.train), len(images.validation), len(images.test)) == sizes
    assert (images.labels is not None) == labelled
    if not labelled and {"labels", "y_train"} & arrays.keys():
        assert "left out" in images.source
    if labelled:
        labels = arrays.get("labels", LABELS).reshape(-1)
        rows = {tuple(image.reshape(-1).tolist()): label for image, label in zip(GREY, labels, strict=True)}
        for part in ("train", "validation", "test"):
            found = [rows[tuple(row)] for row in getattr(images, part).flatten(1).tolist()]
            assert images.labels[part].tolist() == found


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"faces": GREY}, "has arrays faces; expected 'images'"),
        ({"test": GREY}, "has arrays test; expected 'images', or 'train'"),
        ({}, r"has arrays \(none\)"),
        ({"train": GREY, "test": RGB}, "different sizes.*train 1x6x6, test 3x6x5"),
        ({"images": GREY, "labels": LABELS[:7]}, "labels has 7 labels for 40 images"),
        ({"images": GREY, "labels": LABELS - 2}, "labels has a label -2, expected 0, 1, ..., or -1 for not known"),
        (
            {"images": GREY, "attribute_names": NAMES},
            "has attribute_names, but no attributes for train",
        ),
        (
            {"train": GREY, "test": GREY[:9], "train_attributes": BITS, "attribute_names": NAMES},
            "no attributes for test: expected an array 'test_attributes'",
        ),
        (
            {"images": GREY, "attributes": BITS[:7], "attribute_names": NAMES},
            r"attributes is \[7, 2\], expected \[40, 2\]: a row for each image, a column for each of odd, third",
        ),
        ({"images": GREY, "attributes": BITS, "attribute_names": ["a"]}, r"is \[40, 2\], expected \[40, 1\]"),
        ({"images": GREY, "attributes": 2 * BITS, "attribute_names": NAMES}, "other values than 0 and 1"),
        ({"images": GREY, "attributes": BITS / 3, "attribute_names": NAMES}, "other values than 0 and 1"),
        ({"images": GREY, "attributes": BITS, "attribute_names": ["Odd", "odd"]}, "'Odd' and 'odd' have the same name"),
        ({"images": GREY, "attributes": BITS, "attribute_names": [1, 2]}, r"is int64 \[2\], expected texts \[A\]"),
        ({"images": GREY, "attributes": BITS, "attribute_names": "odd"}, r"is <U3 \[\], expected texts"),
        ({"images": np.array([GREY, "x"], dtype=object)}, "'images'.*pickled Python objects, which are never loaded"),
    ],
)
def test_npz_that_cannot_be_used(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load(str(tmp_path / "mine.npz"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (BITS, BITS),
        (BITS.astype(bool), BITS),
        (BITS.astype(np.float32), BITS),
        (2 * BITS - 1, BITS),
        (np.where(np.arange(40)[:, None] < 9, -1, BITS), np.where(np.arange(40)[:, None] < 9, -1, BITS)),
    ],
    ids=["uint8", "bool", "float", "CelebA's", "partly known"],
)
@pytest.mark.parametrize("names", [NAMES, [name.encode() for name in NAMES]], ids=["str", "bytes"])
def test_attributes_in_an_npz(tmp_path, values, expected, names):
    np.savez(tmp_path / "mine.npz", images=GREY, attributes=values, attribute_names=names)
    images = load(tmp_path / "mine.npz")
    assert images.attribute_names == ("odd", "third")
    rows = {tuple(image.reshape(-1).tolist()): row for image, row in zip(GREY, expected.tolist(), strict=True)}
    for part in ("train", "validation", "test"):
        assert images.attributes[part].dtype == torch.int64
        found = [rows[tuple(row)] for row in getattr(images, part).flatten(1).tolist()]
        assert images.attributes[part].tolist() == found


def test_attributes_for_each_part(tmp_path):
    arrays = {"train": GREY, "test": GREY[:9], "train_attributes": BITS, "test_attributes": 1 - BITS[:9]}
    np.savez(tmp_path / "mine.npz", **arrays, attribute_names=NAMES)
    images = load(tmp_path / "mine.npz")
    assert images.attributes["test"].tolist() == (1 - BITS[:9]).tolist()
    assert [len(images.attributes[part]) for part in ("train", "validation", "test")] == [36, 4, 9]


def test_attributes_without_names_are_left_out(tmp_path):
    np.savez(tmp_path / "mine.npz", images=GREY, attributes=BITS)
    images = load(tmp_path / "mine.npz")
    assert images.attributes is None
    assert "attributes left out: there is no array 'attribute_names'" in images.source


def test_a_pickle_is_not_run(tmp_path):
    trace = tmp_path / "was-here"

    class Evil:
        def __reduce__(self):
            return (trace.touch, ())

    np.save(tmp_path / "evil.npy", np.array([Evil()]), allow_pickle=True)
    np.savez(tmp_path / "evil.npz", images=np.array([Evil()]))
    (tmp_path / "raw.npz").write_bytes(np.array([Evil()]).dumps())
    for name in ("evil.npy", "evil.npz", "raw.npz"):
        with pytest.raises(DataError):
            load(str(tmp_path / name))
    assert not trace.exists()


def test_broken_npz(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, images=GREY)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for content in (whole[: len(whole) // 2], bytes(flipped), b"PK\x03\x04 nothing", b"", b"<html>"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine\.npz.*(is broken|cannot be read)") as caught:
            load(str(path))
        assert "\n" not in str(caught.value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"not an array")
    with pytest.raises(DataError, match="broken"):
        load(str(path))


def test_truncated_npy(tmp_path):
    np.save(tmp_path / "mine.npy", GREY)
    (tmp_path / "mine.npy").write_bytes((tmp_path / "mine.npy").read_bytes()[:300])
    with pytest.raises(DataError, match=r"mine\.npy is broken"):
        load(str(tmp_path / "mine.npy"))


def test_idx_file(tmp_path):
    path = tmp_path / "digits.gz"
    path.write_bytes(gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, *GREY.shape) + GREY.tobytes()))
    assert everything(load(str(path))) == expected(GREY)


def test_files_that_are_no_arrays(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes.txt is no .npz, .npy or IDX file: it starts with b'hello'"):
        load(str(tmp_path / "notes.txt"))
    (tmp_path / "cat.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match="one picture; give the folder"):
        load(str(tmp_path / "cat.png"))
