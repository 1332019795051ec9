"""Classes of the user's own images: sub-folders, arrays, and IDX files with labels beside them."""

import struct

import numpy as np
import pytest
from PIL import Image

from hardmax.applications.mixed_vae.config import MixedConfig
from hardmax.applications.mixed_vae.supervision import load_labelled_images, make_space, prepare_labelled_split

LABELS = np.arange(60) % 3
PIXELS = np.random.default_rng(0).integers(0, 80, (60, 6, 6), dtype=np.uint8) + (LABELS * 80)[:, None, None].astype(
    np.uint8
)


def write_folder(path):
    for i, image in enumerate(PIXELS):
        (path / "abc"[LABELS[i]]).mkdir(exist_ok=True)
        Image.fromarray(image).save(path / "abc"[LABELS[i]] / f"{i}.png")
    return path


def write_npz(path):
    np.savez(path / "mine.npz", images=PIXELS, labels=LABELS, class_names=["a", "b", "c"])
    return path / "mine.npz"


def write_idx(path):
    for name, values in (("train-images-idx3-ubyte", PIXELS), ("train-labels-idx1-ubyte", LABELS.astype(np.uint8))):
        head = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
        (path / name).write_bytes(head + values.tobytes())
    return path / "train-images-idx3-ubyte"


@pytest.mark.parametrize(("write", "names"), [(write_folder, "abc"), (write_npz, "abc"), (write_idx, "")])
def test_classes_are_the_labels_of_a_mixed_vae(tmp_path, write, names):
    config = MixedConfig(data=str(write(tmp_path)), labels=30, binarize="none")
    images = load_labelled_images(config)
    assert images.class_names == tuple(names)
    assert make_space(config, images).k == 3
    for part in ("train", "validation", "test"):
        prepared = prepare_labelled_split(config, images, part)
        assert ((prepared.x.amax((1, 2, 3)) * 255).round().long() // 80).tolist() == prepared.labels.tolist()
