"""The pictures of a split as a model sees them."""

from typing import Literal

from torch import Tensor

from hardmax.data import Images, binarize
from hardmax.random import stream
from hardmax.training.picture_config import PictureConfig

Split = Literal["train", "validation", "test"]


def held_out(config: PictureConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split as the model sees them, `[N, *shape]`; drawn pixels are always the same ones."""
    return binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))
