"""What a run is told that trains on pictures. No torch here."""

from dataclasses import dataclass
from typing import Literal

from hardmax.errors import ArgumentError
from hardmax.training.config import TrainConfig


@dataclass(frozen=True)
class PictureConfig(TrainConfig):
    """What a run is told that trains on pictures."""

    data: str = "sample"
    """A data set by name (hardmax data lists them), a folder of pictures, an .npz, .npy or IDX file."""
    size: int | None = None
    """Height and width that the pictures of a folder, or of celeba, are read as; default: that of most of them, 64."""
    limit: int | None = None
    """Most pictures of a folder, or of celeba, that are read, evenly spread; default: all."""
    binarize: Literal["threshold", "stochastic", "none"] = "threshold"
    """Grey to black and white: rounded at 0.5 (as in the paper's code), drawn anew each time, or left grey."""
    mixed_precision: bool = False
    """Compute in bfloat16 where that is safe (GPU only)."""
    evaluate_images: int = 10_000
    """Most pictures of a split that are evaluated after each epoch (500 where z has more than 1,024 values)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("size", "limit")
        if self.mixed_precision and self.device == "cpu":
            raise ArgumentError("mixed-precision needs a GPU: give --device cuda, or leave it out")
