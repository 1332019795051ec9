"""What the training of a prior over tokens is told. No torch here: the command line shows its help from this file."""

from dataclasses import dataclass
from typing import Literal

from hardmax.errors import ArgumentError
from hardmax.training.picture_config import PictureConfig


@dataclass(frozen=True)
class TokenPriorConfig(PictureConfig):
    """Train a prior over the tokens of a dVAE, so that it generates pictures.

    Example: hardmax train --model token-prior --tokenizer runs/dvae --epochs 10 --out runs/prior
    """

    model: Literal["token-prior"] = "token-prior"
    """What is trained: token-prior, or another model with options of its own (hardmax train --help)."""
    tokenizer: str = ""
    """Folder of a run of hardmax train --model dvae; its best model becomes a part of this one."""
    data: str = ""
    """Pictures whose tokens are learned; default: those that the dVAE was trained on. They are read as it reads them:
    --size, --limit and --binarize are its own."""
    width: int = 128
    """Of the transformer, a multiple of --heads."""
    layers: int = 3
    """Of the transformer."""
    heads: int = 4
    """Of each layer."""
    evaluate_images: int = 2_000
    """Most pictures of a split that are evaluated after each epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("width", "layers", "heads")
        if self.width % self.heads:
            raise ArgumentError(f"width must be a multiple of --heads {self.heads}, got {self.width}")
