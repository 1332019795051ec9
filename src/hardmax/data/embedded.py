"""The sample that comes with hardmax: 6,000 images of Fashion-MNIST, so that everything runs without a download."""

from importlib import resources

import torch
from torch import Tensor

from hardmax.data.idx import parse_idx
from hardmax.data.images import Images
from hardmax.data.mnist import CLASS_NAMES

_TRAIN = 4_500
_SHOES, _BRIGHT = (5, 7, 9), 72  # classes; a grey value, about the median


def load_sample() -> Images:
    """Load 4,500 images to train, 500 to validate and 1,000 to test, each with as many of every class.

    Made by `tools/make_sample.py` from Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017; MIT licence, Zalando SE). Image i
    is of class i mod 10, so that any beginning of a part is balanced too. Its attributes are seen at once: "shoe" is a
    sandal, sneaker or boot, "bright" a picture whose mean pixel is above 72.
    """
    train, test = (_read(f"{prefix}-images-idx3-ubyte.gz", 3).unsqueeze(1) for prefix in ("train", "t10k"))
    labels, test_labels = (_read(f"{prefix}-labels-idx1-ubyte.gz", 1).long() for prefix in ("train", "t10k"))
    parts = {
        "train": (train[:_TRAIN], labels[:_TRAIN]),
        "validation": (train[_TRAIN:], labels[_TRAIN:]),
        "test": (test, test_labels),
    }
    return Images(
        name="sample",
        source="embedded in hardmax: 5,000 + 1,000 images of Fashion-MNIST, 28x28 grey, balanced; "
        "validation is the last 500 of the 5,000",
        **{part: pictures for part, (pictures, _) in parts.items()},
        labels={part: own for part, (_, own) in parts.items()},
        attributes={part: _attributes(*own) for part, own in parts.items()},
        attribute_names=("shoe", "bright"),
        class_names=CLASS_NAMES["fashion-mnist"],
    )


def _attributes(pictures: Tensor, labels: Tensor) -> Tensor:
    shoe = torch.isin(labels, torch.tensor(_SHOES))
    return torch.stack([shoe, pictures.float().mean((1, 2, 3)) > _BRIGHT], 1).long()


def _read(name: str, dimensions: int) -> Tensor:
    data = resources.files("hardmax.data").joinpath("sample", name).read_bytes()
    return torch.from_numpy(parse_idx(data, f"hardmax/data/sample/{name}", dimensions))
