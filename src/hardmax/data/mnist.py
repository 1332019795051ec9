"""MNIST and Fashion-MNIST: 50,000 images to train, 10,000 to validate, 10,000 to test."""

from pathlib import Path

import torch

from hardmax.data.catalogue import SETS, obtain
from hardmax.data.idx import read_idx
from hardmax.data.images import Images
from hardmax.errors import DataError

CLASS_NAMES = {
    "fashion-mnist": (
        "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"
    ),
}  # fmt: skip
_TRAIN, _VALIDATION, _TEST = 50_000, 10_000, 10_000


def load_mnist(name: str = "mnist", data_dir: str | Path | None = None) -> Images:
    """Load "mnist" or "fashion-mnist", downloading what is not here.

    The 60,000 published for training are split in their order: the first 50,000 train, the last 10,000 validate.

    Raises:
        DataError: a file is missing and cannot be downloaded, is broken, or holds another number of images.
    """
    files = obtain(SETS[name], data_dir)
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
    where = sorted({str(path.parent) for path in files.values()})
    return Images(
        name=name,
        source=f"IDX files in {' and '.join(where)}; validation is the last {_VALIDATION:,} of the 60,000 for training",
        train=images["train"][:_TRAIN],
        validation=images["train"][_TRAIN:],
        test=images["test"],
        labels={"train": labels["train"][:_TRAIN], "validation": labels["train"][_TRAIN:], "test": labels["test"]},
        class_names=CLASS_NAMES.get(name, ()),
    )
