"""The pictures of a split as a discrete VAE sees them."""

from torch import Tensor

from hardmax.data import Images
from hardmax.training.discrete.config import DiscreteConfig
from hardmax.training.discrete.spaces import make_space
from hardmax.training.held_out import Split, held_out

_MANY, _FEW = 1024, 500  # values of z; pictures


def evaluated(config: DiscreteConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split that are evaluated after each epoch."""
    most = config.evaluate_images
    if make_space(config).size > _MANY:  # every z is gone through for every picture
        most = min(most, _FEW)
    return held_out(config, images, split)[:most]
