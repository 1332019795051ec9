"""What the training of a hash encoder is told. No torch here: the command line shows its help from this file."""

from dataclasses import dataclass
from typing import Literal

from hardmax.errors import ArgumentError
from hardmax.training.estimator_config import EstimatorConfig, EstimatorName
from hardmax.training.picture_config import PictureConfig


@dataclass(frozen=True)
class HashingConfig(EstimatorConfig, PictureConfig):
    """Train an encoder of pictures to codes of bits, so that alike pictures have codes that differ in few bits.

    Example: hardmax train --model hashing --data fashion-mnist --bits 64 --epochs 4 --out runs/codes
    """

    model: Literal["hashing"] = "hashing"
    """What is trained: hashing, or another model with options of its own (hardmax train --help)."""
    bits: int = 64
    """Bits of a code."""
    pairs: Literal["neighbours", "distorted", "labels"] = "neighbours"
    """Which pictures belong together: those with alike pixels; a picture and its distorted copy, with --augment; those
    of one class, the only ones that look at labels."""
    neighbours: int = 20
    """A picture is paired with one of so many nearest ones, drawn anew in every epoch."""
    augment: Literal["none", "mirror", "shift", "affine", "elastic", "flip"] = "none"
    """How both pictures of a pair are distorted: mirrored; moved (shift); also turned, scaled and sheared (affine);
    also bent (elastic); flip: half as much of all that, and mirrored."""
    contrast: Literal["info-nce", "triplet"] = "info-nce"
    """The loss: tell the partner from all others of the batch, or be nearer to it by a margin."""
    temperature: float = 0.2
    """Of info-nce: at a low one the nearest others count most."""
    margin: float = 0.5
    """Of triplet: cosines by which the partner shall be nearer; half of it is a share of the bits."""
    gain: float = 6.0
    """How sure the encoder is of its bits: standard deviation of their scores."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Network: two hidden layers, or convolutional; auto: convolutional for pictures over 32 x 32."""
    hidden: int = 500
    """Width of the hidden layers."""
    estimator: EstimatorName = "auto"
    """How the encoder's gradient is estimated; auto: straight-through."""
    epochs: int = 4
    """How often the training pictures are gone through."""
    batch_size: int = 200
    """Pairs in a step; each is told from all others."""
    binarize: Literal["threshold", "stochastic", "none"] = "none"
    """Grey to black and white: rounded at 0.5, drawn anew each time, or left grey."""
    evaluate_images: int = 1000
    """Most pictures of a split that are searched for after each epoch, among all training pictures."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("bits", "neighbours", "hidden")
        self.need_positive("temperature", "margin", "gain")
        if self.pairs == "distorted" and self.augment == "none":
            raise ArgumentError("pairs distorted needs distortions: give --augment flip, or affine, elastic, shift")
