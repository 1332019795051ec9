"""All images in order, without splits, in the shape of a model."""

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.data.loading import load_images_in_order
from hardmax.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    for i, pixels in enumerate(PIXELS):
        (tmp_path / "photos" / "abc"[i % 3]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "photos" / "abc"[i % 3] / f"{i}.png")
    return tmp_path / "photos"


def test_a_folder(folder):
    images = load_images_in_order([str(folder)], (1, 8, 8))
    assert images.names == ["a/0.png", "a/3.png", "b/1.png", "b/4.png", "c/2.png", "c/5.png"]
    assert torch.equal(images.pixels[:, 0], torch.from_numpy(PIXELS[[0, 3, 1, 4, 2, 5]]))


def test_files_in_the_order_they_are_named(folder):
    images = load_images_in_order([str(folder / "c" / "5.png"), str(folder / "a" / "0.png")], (1, 8, 8))
    assert images.names == ["c/5.png", "a/0.png"]
    assert torch.equal(images.pixels[:, 0], torch.from_numpy(PIXELS[[5, 0]]))
    assert load_images_in_order([str(folder / "c" / "5.png")], (1, 8, 8)).names == ["5.png"]


def test_arrays_are_not_split_into_parts(tmp_path):
    np.savez(tmp_path / "one.npz", images=PIXELS)
    images = load_images_in_order([str(tmp_path / "one.npz")], (1, 8, 8))
    assert images.names == [f"train/{i}" for i in range(6)]
    assert torch.equal(images.pixels[:, 0], torch.from_numpy(PIXELS))
    np.savez(tmp_path / "two.npz", x_train=PIXELS[:4], x_test=PIXELS[4:])
    assert load_images_in_order([str(tmp_path / "two.npz")], (1, 8, 8)).names[3:] == ["train/3", "test/0", "test/1"]
    np.save(tmp_path / "three.npy", PIXELS)
    assert torch.equal(load_images_in_order([str(tmp_path / "three.npy")], (1, 8, 8)).pixels, images.pixels)


def test_an_idx_file(tmp_path):
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in PIXELS.shape) + PIXELS.tobytes())
    assert torch.equal(load_images_in_order([str(path)], (1, 8, 8)).pixels[:, 0], torch.from_numpy(PIXELS))


def test_a_set_by_its_name():
    images = load_images_in_order(["sample"], (1, 28, 28))
    assert len(images.names) == len(images.pixels) == 6000
    assert images.names[4500] == "validation/0"


def test_colours_are_made_grey_as_pillow_does(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "colours.npz", images=colours)
    images = load_images_in_order([str(tmp_path / "colours.npz")], (1, 8, 8))
    wanted = np.stack([np.array(Image.fromarray(pixels).convert("L")) for pixels in colours])
    assert np.array_equal(images.pixels[:, 0].numpy(), wanted)
    assert "made grey" in images.notes


def test_grey_is_made_rgb_and_files_are_resized(folder):
    images = load_images_in_order([str(folder)], (3, 4, 4))
    assert images.pixels.shape == (6, 3, 4, 4)
    assert torch.equal(images.pixels[:, 0], images.pixels[:, 2])
    assert any("resized" in note for note in images.notes)


def test_missing_or_unsuitable_images(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "one.npz", images=PIXELS)
    for data, message in (
        ([], "name images"),
        ([str(tmp_path / "nothing")], "there is no file or folder"),
        ([str(tmp_path / "nothing.png")], "missing; name image files"),
        ([str(folder), str(folder)], "a folder; name image files"),
        ([str(tmp_path / "empty")], "holds no images"),
        ([str(tmp_path / "one.npz")], "are 8x8, and those of the model 28x28; give them as image files"),
    ):
        with pytest.raises(DataError, match=message):
            load_images_in_order(data, (1, 28, 28))
