"""MNIST, Fashion-MNIST, and the sample of Fashion-MNIST that ships with hardmax."""

from importlib import resources
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from hardmax.data.datasets import SETS, obtain_files
from hardmax.data.idx import parse_idx, read_idx
from hardmax.data.images import Images
from hardmax.errors import DataError

CLASS_NAMES = {
    "fashion-mnist": (
        "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"
    ),
}  # fmt: skip
_TRAIN, _VALIDATION, _TEST = 50_000, 10_000, 10_000


def load_mnist(name: str = "mnist", data_dir: str | Path | None = None) -> Images:
    """Load "mnist" or "fashion-mnist", downloading missing files.

    Of the 60,000 training images, the first 50,000 are "train" and the last 10,000 are "validation".

    Raises:
        DataError: a file is missing and cannot be downloaded, is broken, or holds another number of images.
    """
    files = obtain_files(SETS[name], data_dir)
    images, labels = {}, {}
    for part, prefix, count in (("train", "train", _TRAIN + _VALIDATION), ("test", "t10k", _TEST)):
        path = files[f"{prefix}-images-idx3-ubyte.gz"]
        images[part] = torch.from_numpy(read_idx(path, dimensions=3)).unsqueeze(1)
        if images[part].shape != (count, 1, 28, 28):
            number, _, height, width = images[part].shape
            raise DataError(
                f"{path} has {number:,} images of {height}x{width}, but {name} has {count:,} of 28x28; is this "
                f"another set? Load a file of your own by its path"
            )
        path = files[f"{prefix}-labels-idx1-ubyte.gz"]
        labels[part] = torch.from_numpy(read_idx(path, dimensions=1)).long()
        if len(labels[part]) != count:
            raise DataError(f"{path} has {len(labels[part]):,} labels, expected {count:,}; get it again")
    folders = sorted({str(path.parent) for path in files.values()})
    return Images(
        name=name,
        source=f"IDX files in {' and '.join(folders)}; validation is the last {_VALIDATION:,} of the 60,000 for "
        "training",
        train=images["train"][:_TRAIN],
        validation=images["train"][_TRAIN:],
        test=images["test"],
        labels={"train": labels["train"][:_TRAIN], "validation": labels["train"][_TRAIN:], "test": labels["test"]},
        class_names=CLASS_NAMES.get(name, ()),
    )


_SAMPLE_TRAIN = 4_500
_SHOES, _BRIGHT = (5, 7, 9), 72  # classes; a grey value, about the median


def load_sample() -> Images:
    """Load the sample that ships with hardmax: 4,500 images to train, 500 to validate and 1,000 to test.

    Created by `tools/make_sample.py` from Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017; MIT licence, Zalando SE). Each
    part has equally many images of all classes. Image i is of class i mod 10, so that the first images of a part are
    balanced, too. There are two simple attributes: "shoe" is a sandal, sneaker or boot, "bright" is an image whose mean
    pixel is above 72.
    """
    train, test = (_read_sample(f"{prefix}-images-idx3-ubyte.gz", 3).unsqueeze(1) for prefix in ("train", "t10k"))
    labels, test_labels = (_read_sample(f"{prefix}-labels-idx1-ubyte.gz", 1).long() for prefix in ("train", "t10k"))
    parts = {
        "train": (train[:_SAMPLE_TRAIN], labels[:_SAMPLE_TRAIN]),
        "validation": (train[_SAMPLE_TRAIN:], labels[_SAMPLE_TRAIN:]),
        "test": (test, test_labels),
    }
    return Images(
        name="sample",
        source="embedded in hardmax: 5,000 + 1,000 images of Fashion-MNIST, 28x28 grey, balanced; "
        "validation is the last 500 of the 5,000",
        **{part: images for part, (images, _) in parts.items()},
        labels={part: classes for part, (_, classes) in parts.items()},
        attributes={part: _compute_attributes(*columns) for part, columns in parts.items()},
        attribute_names=("shoe", "bright"),
        class_names=CLASS_NAMES["fashion-mnist"],
    )


def _compute_attributes(images: Tensor, labels: Tensor) -> Tensor:
    shoe = torch.isin(labels, torch.tensor(_SHOES))
    return torch.stack([shoe, images.float().mean((1, 2, 3)) > _BRIGHT], 1).long()


def _read_sample(name: str, dimensions: int) -> Tensor:
    data = BytesIO(resources.files("hardmax.data").joinpath("sample", name).read_bytes())
    return torch.from_numpy(parse_idx(data, f"hardmax/data/sample/{name}", dimensions))
