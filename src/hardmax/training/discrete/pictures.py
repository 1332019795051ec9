"""The pictures of a split as a discrete VAE sees them."""

from typing import Literal

from torch import Tensor

from hardmax.data import Images, binarize
from hardmax.random import stream
from hardmax.training.discrete.config import DiscreteConfig
from hardmax.training.discrete.spaces import make_space
from hardmax.training.picture_config import PictureConfig

_MANY, _FEW = 1024, 500  # values of z; pictures
Split = Literal["train", "validation", "test"]


def evaluated(config: DiscreteConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split that are evaluated after each epoch."""
    most = config.evaluate_images
    if make_space(config).size > _MANY:  # every z is gone through for every picture
        most = min(most, _FEW)
    return held_out(config, images, split)[:most]


def held_out(config: PictureConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split as the model sees them, `[N, *shape]`; drawn pixels are always the same ones."""
    return binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))
