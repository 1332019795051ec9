"""Files of arrays: layouts, dtypes, names, and invalid files."""

import gzip
import struct
import zipfile

import numpy as np
import pytest
import torch

from hardmax.data import load_images
from hardmax.data.loading import load_images_in_order
from hardmax.errors import DataError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (40, 6, 6), dtype=np.uint8)
RGB = RNG.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)


def collect_images(images):
    """Return all images of the three parts, in an order that does not depend on the split."""
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
    images = load_images(str(tmp_path / "mine.npy"))
    assert images.name == "mine"
    assert str(array.dtype) in images.source
    assert images.shape == shape
    assert collect_images(images) == expected(pixels)
    assert [len(images.train), len(images.validation), len(images.test)] == [32, 4, 4]


def test_floats_are_reported(tmp_path):
    np.save(tmp_path / "mine.npy", GREY / 255)
    assert "0..1 rounded to 256 grey values" in load_images(str(tmp_path / "mine.npy")).source


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
def test_arrays_that_are_not_images(tmp_path, array, message):
    np.save(tmp_path / "mine.npy", array)
    with pytest.raises(DataError, match=message):
        load_images(str(tmp_path / "mine.npy"))


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
    images = load_images(str(tmp_path / "mine.npz"))
    assert (len(images.train), len(images.validation), len(images.test)) == sizes
    assert (images.labels is not None) == labelled
    if not labelled and {"labels", "y_train"} & arrays.keys():
        assert "left out" in images.source
    if labelled:
        labels = arrays.get("labels", LABELS).reshape(-1)
        rows = {tuple(image.reshape(-1).tolist()): label for image, label in zip(GREY, labels, strict=True)}
        for part in ("train", "validation", "test"):
            labels = [rows[tuple(row)] for row in getattr(images, part).flatten(1).tolist()]
            assert images.labels[part].tolist() == labels


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"faces": GREY}, "has arrays faces; expected 'images'"),
        ({"test": GREY}, "has arrays test; expected 'images', or 'train'"),
        ({}, r"has arrays \(none\)"),
        ({"train": GREY, "test": RGB}, "different sizes.*train 1x6x6, test 3x6x5"),
        ({"images": GREY, "labels": LABELS[:7]}, "labels has 7 labels for 40 images"),
        ({"images": GREY, "labels": LABELS - 2}, "labels has a label -2, expected 0, 1, ..., or -1 for unknown"),
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
        load_images(str(tmp_path / "mine.npz"))


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
    images = load_images(tmp_path / "mine.npz")
    assert images.attribute_names == ("odd", "third")
    rows = {tuple(image.reshape(-1).tolist()): row for image, row in zip(GREY, expected.tolist(), strict=True)}
    for part in ("train", "validation", "test"):
        assert images.attributes[part].dtype == torch.int64
        attributes = [rows[tuple(row)] for row in getattr(images, part).flatten(1).tolist()]
        assert images.attributes[part].tolist() == attributes


def test_attributes_for_each_part(tmp_path):
    arrays = {"train": GREY, "test": GREY[:9], "train_attributes": BITS, "test_attributes": 1 - BITS[:9]}
    np.savez(tmp_path / "mine.npz", **arrays, attribute_names=NAMES)
    images = load_images(tmp_path / "mine.npz")
    assert images.attributes["test"].tolist() == (1 - BITS[:9]).tolist()
    assert [len(images.attributes[part]) for part in ("train", "validation", "test")] == [36, 4, 9]


def test_attributes_without_names_are_left_out(tmp_path):
    np.savez(tmp_path / "mine.npz", images=GREY, attributes=BITS)
    images = load_images(tmp_path / "mine.npz")
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
            load_images(str(tmp_path / name))
    assert not trace.exists()


def test_broken_npz(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, images=GREY)
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    for content in (data[: len(data) // 2], bytes(flipped), b"PK\x03\x04 nothing", b"", b"<html>"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine\.npz.*(is broken|cannot be read)") as caught:
            load_images(str(path))
        assert "\n" not in str(caught.value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", b"not an array")
    with pytest.raises(DataError, match="broken"):
        load_images(str(path))


def test_truncated_npy(tmp_path):
    np.save(tmp_path / "mine.npy", GREY)
    (tmp_path / "mine.npy").write_bytes((tmp_path / "mine.npy").read_bytes()[:300])
    with pytest.raises(DataError, match=r"mine\.npy is broken"):
        load_images(str(tmp_path / "mine.npy"))


def test_idx_file(tmp_path):
    path = tmp_path / "digits.gz"
    path.write_bytes(gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, *GREY.shape) + GREY.tobytes()))
    assert collect_images(load_images(str(path))) == expected(GREY)


def test_files_that_are_not_arrays(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes.txt is not an .npz, .npy or IDX file: it starts with b'hello'"):
        load_images(str(tmp_path / "notes.txt"))
    (tmp_path / "cat.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match="one image; give the folder"):
        load_images(str(tmp_path / "cat.png"))


def write_idx(path, values):
    data = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize(
    ("images", "labels", "test", "test_labels"),
    [
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
        (
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
        ("train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"),
        (
            "emnist-letters-train-images-idx3-ubyte.gz",
            "emnist-letters-train-labels-idx1-ubyte.gz",
            "emnist-letters-test-images-idx3-ubyte.gz",
            "emnist-letters-test-labels-idx1-ubyte.gz",
        ),
    ],
)
def test_idx_files_with_labels_and_test_images_beside_them(tmp_path, images, labels, test, test_labels):
    write_idx(tmp_path / images, GREY)
    assert load_images(tmp_path / images).labels is None
    write_idx(tmp_path / labels, LABELS)
    loaded = load_images(tmp_path / images)
    assert [len(loaded.labels[part]) for part in ("train", "validation", "test")] == [32, 4, 4]
    rows = {tuple(image.reshape(-1).tolist()): label for image, label in zip(GREY, LABELS.tolist(), strict=True)}
    for part in ("train", "validation", "test"):
        assert loaded.labels[part].tolist() == [rows[tuple(row)] for row in getattr(loaded, part).flatten(1).tolist()]
    assert f"labels from {labels}" in loaded.source
    write_idx(tmp_path / test, GREY[:9])
    assert load_images(tmp_path / images).labels is None  # not all parts have them
    write_idx(tmp_path / test_labels, LABELS[:9])
    loaded = load_images(tmp_path / images)
    assert [len(loaded.train), len(loaded.validation), len(loaded.test)] == [36, 4, 9]
    assert loaded.test.flatten(1).tolist() == GREY[:9].reshape(9, -1).tolist()
    assert loaded.labels["test"].tolist() == LABELS[:9].tolist()
    assert f"test images from {test}" in loaded.source
    assert len(load_images(tmp_path / test).train) == 7
    in_order = load_images_in_order([str(tmp_path / images)], (1, 6, 6))
    assert len(in_order.names) == 40


def test_idx_labels_of_another_number(tmp_path):
    write_idx(tmp_path / "train-images-idx3-ubyte", GREY)
    write_idx(tmp_path / "train-labels-idx1-ubyte", LABELS[:7])
    with pytest.raises(DataError, match="7 labels for 40 images"):
        load_images(tmp_path / "train-images-idx3-ubyte")


@pytest.mark.parametrize("names", [["cat", "Cat", "dog"], [b"cat", b"Cat", b"dog"]], ids=["str", "bytes"])
def test_names_of_classes(tmp_path, names):
    np.savez(tmp_path / "mine.npz", images=GREY, labels=LABELS, class_names=names)
    images = load_images(tmp_path / "mine.npz")
    assert images.class_names == ("cat", "Cat", "dog")
    assert images.facts["classes"] == ["cat", "Cat", "dog"]
    np.savez(tmp_path / "mine.npz", images=GREY, class_names=names)
    images = load_images(tmp_path / "mine.npz")
    assert images.class_names == ()
    assert "class_names left out: there are no labels" in images.source


def test_too_few_names_of_classes(tmp_path):
    np.savez(tmp_path / "mine.npz", images=GREY, labels=LABELS, class_names=["cat", "dog"])
    with pytest.raises(DataError, match="a label is 2, but class_names has 2 names"):
        load_images(tmp_path / "mine.npz")
    np.savez(tmp_path / "mine.npz", images=GREY, labels=LABELS, class_names=[1, 2, 3])
    with pytest.raises(DataError, match=r"class_names is int64 \[3\], expected texts"):
        load_images(tmp_path / "mine.npz")
