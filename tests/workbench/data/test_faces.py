"""The set "faces", which users provide themselves."""

import numpy as np
import pytest
import torch

from hardmax.data import load_images
from hardmax.errors import DataError

RNG = np.random.default_rng(0)
PARTS = ("train", "validation", "test")


def save(path, **changed):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        "images": RNG.integers(0, 256, (100, 8, 8, 3), dtype=np.uint8),
        "attributes": np.stack([np.arange(100) % 2, np.arange(100) % 5 == 0], 1).astype(np.uint8),
        "attribute_names": np.array(["male", "smiling"]),
    } | changed
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize("name", ["faces64.npz", "mine.npz"])
def test_by_name(tmp_path, name):
    save(tmp_path / "faces" / name)
    images = load_images("faces", data_dir=tmp_path)
    assert images.name == "faces"
    assert images.attribute_names == ("male", "smiling")
    assert [len(getattr(images, part)) for part in PARTS] == [80, 10, 10]
    assert [int(images.attributes[part][:, 1].sum()) for part in PARTS] == [16, 2, 2]
    assert torch.equal(images.test, load_images("faces", data_dir=tmp_path).test)
    assert not torch.equal(images.test, load_images("faces", data_dir=tmp_path, seed=1).test)


def test_which_file(tmp_path):
    save(tmp_path / "faces" / "a.npz")
    save(tmp_path / "faces" / "b.npz")
    with pytest.raises(DataError, match=r"which of these are the faces: .*a\.npz, .*b\.npz\? expected one"):
        load_images("faces", data_dir=tmp_path)
    save(tmp_path / "faces" / "faces64.npz")
    assert "faces64.npz" in load_images("faces", data_dir=tmp_path).source


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attribute_names": None}, r"there are no attributes; expected one \.npz file.*attributes \[N, A\]"),
        ({"attribute_names": None, "attributes": None}, "there are no attributes"),
        ({"attributes": None}, "has attribute_names, but no attributes for train"),
        ({"images": None}, "expected 'images'"),
    ],
)
def test_faces_without_attributes(tmp_path, changed, message):
    save(tmp_path / "faces" / "faces64.npz", **changed)
    with pytest.raises(DataError, match=message):
        load_images("faces", data_dir=tmp_path)


@pytest.mark.data
def test_the_real_faces(real_faces):
    images = load_images("faces", data_dir=real_faces)
    sizes = [len(getattr(images, part)) for part in PARTS]
    assert images.shape == (3, 64, 64)
    assert sizes[1] == sizes[2] == sum(sizes) // 10
    assert set(images.attribute_names) == {"male", "smiling"}
    overall = torch.cat(list(images.attributes.values())).double().mean(0)
    for part in PARTS:
        assert images.attributes[part].shape == (len(getattr(images, part)), 2)
        assert torch.allclose(images.attributes[part].double().mean(0), overall, atol=0.02)
