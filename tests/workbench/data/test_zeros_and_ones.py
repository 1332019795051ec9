"""Images of zeros and ones are black and white, and images that are all flat cause a warning."""

import gzip
import struct

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.runs import train
from hardmax.cli.data import check_sets
from hardmax.data import Images, load_images
from hardmax.data.image_files import fit_photo
from hardmax.data.images import describe_flatness
from hardmax.data.loading import load_images_in_order
from hardmax.training.loop import Observer

BITS = np.random.default_rng(0).integers(0, 2, (40, 6, 6), dtype=np.uint8)
NOTE = "0 and 1 read as black and white"


def write_npz(folder, bits):
    np.savez(folder / "bits.npz", images=bits)
    return folder / "bits.npz"


def write_npy(folder, bits):
    np.save(folder / "bits.npy", bits)
    return folder / "bits.npy"


def write_idx(folder, bits):
    header = struct.pack(">4B3I", 0, 0, 8, 3, *bits.shape)
    (folder / "bits-idx3-ubyte.gz").write_bytes(gzip.compress(header + bits.tobytes()))
    return folder / "bits-idx3-ubyte.gz"


def write_pngs(folder, bits):
    (folder / "bits").mkdir()
    for i, image in enumerate(bits):
        Image.fromarray(image).save(folder / "bits" / f"{i:02}.png")
    return folder / "bits"


def collect(images):
    pixels = torch.cat([images.train, images.validation, images.test])
    return sorted(map(tuple, pixels.flatten(1).tolist()))


EXPECTED = sorted(map(tuple, (BITS * 255).reshape(40, -1).tolist()))


@pytest.mark.parametrize("write", [write_npz, write_npy, write_idx, write_pngs])
def test_zeros_and_ones_are_black_and_white(tmp_path, capsys, write):
    path = write(tmp_path, BITS)
    images = load_images(path)
    assert collect(images) == EXPECTED
    assert NOTE in images.source
    assert "WARNING" not in images.source
    assert check_sets([str(path)]) == 0
    assert NOTE in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, ">i4"])
def test_whole_numbers_of_any_type(tmp_path, dtype):
    np.save(tmp_path / "bits.npy", BITS.astype(dtype))
    assert collect(load_images(tmp_path / "bits.npy")) == EXPECTED


def test_the_parts_of_a_file_are_judged_together(tmp_path):
    np.savez(tmp_path / "dark.npz", train=BITS * 200, test=BITS[:9])
    images = load_images(tmp_path / "dark.npz")
    assert images.test.max() == 1
    assert NOTE not in images.source
    np.savez(tmp_path / "bits.npz", train=BITS, test=0 * BITS[:9])
    assert load_images(tmp_path / "bits.npz").train.max() == 255


def test_floats_are_never_stretched(tmp_path):
    np.save(tmp_path / "dark.npy", BITS / 255)
    images = load_images(tmp_path / "dark.npy")
    assert images.train.max() == 1
    assert "WARNING: rounded to zeros and ones, each of the 40 images is flat" in images.source


def test_images_in_order_and_photos(tmp_path):
    folder = write_pngs(tmp_path, BITS)
    in_order = load_images_in_order([str(folder)], (1, 6, 6))
    assert torch.equal(in_order.pixels[:, 0], torch.from_numpy(BITS * 255))
    assert any(NOTE in note for note in in_order.notes)
    photo = fit_photo(folder / "00.png", (1, 6, 6))
    assert torch.equal(photo.pixels[0, 0], torch.from_numpy(BITS[0] * 255))
    assert NOTE in photo.conversions


@pytest.mark.parametrize("write", [write_npz, write_npy, write_idx, write_pngs])
@pytest.mark.parametrize(
    ("values", "warning"),
    [
        (np.arange(40)[:, None, None] * np.ones((1, 6, 6)), "each of the 40 images is of one flat colour"),
        (BITS * 100, "rounded to zeros and ones, each of the 40 images is flat: pixels go from 0 to 100"),
        (128 + BITS * 100, "rounded to zeros and ones, each of the 40 images is flat: pixels go from 128 to 228"),
    ],
    ids=["flat", "dark", "bright"],
)
def test_flat_images_cause_a_warning(tmp_path, capsys, write, values, warning):
    path = write(tmp_path, values.astype(np.uint8))
    assert f"WARNING: {warning}" in load_images(path).source
    assert check_sets([str(path)]) == 0
    assert f"WARNING: {warning}" in capsys.readouterr().out


def test_a_single_image_that_is_not_flat_is_enough(tmp_path):
    values = np.zeros((1500, 2, 2), np.uint8)
    values[-1, 0, 0] = 255
    np.save(tmp_path / "mine.npy", values)
    assert "WARNING" not in load_images(tmp_path / "mine.npy").source


def train_one_epoch(path, out, **options):
    messages = []
    config = DiscreteConfig(data=str(path), out=str(out), categories=2, hidden=2, epochs=1, **options)
    train(config, Observer(on_message=messages.append))
    return [message for message in messages if message.startswith("WARNING")]


def test_training_shows_the_warning(tmp_path):
    dark = write_npy(tmp_path, BITS * 100)
    assert len(train_one_epoch(dark, tmp_path / "rounded")) == 1
    assert not train_one_epoch(dark, tmp_path / "grey", binarize="none")
    flat = write_npz(tmp_path, 0 * BITS)
    assert len(train_one_epoch(flat, tmp_path / "flat", binarize="none")) == 1


def test_training_says_that_colours_are_rounded(tmp_path):
    np.save(tmp_path / "colour.npy", np.random.default_rng(0).integers(0, 256, (40, 6, 6, 3), dtype=np.uint8))
    (warning,) = train_one_epoch(tmp_path / "colour.npy", tmp_path / "rounded")
    assert "colour images are rounded to 8 colours" in warning
    assert "--binarize none" in warning
    assert not train_one_epoch(tmp_path / "colour.npy", tmp_path / "kept", binarize="none")


def test_flatness_depends_on_the_rounding():
    dark = torch.from_numpy(BITS * 100)[:, None]
    images = Images("dark", "made here", dark, dark, dark)
    assert describe_flatness(images, "none") is describe_flatness(images, "stochastic") is None
    assert describe_flatness(images, "threshold") is not None
