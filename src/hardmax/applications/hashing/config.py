"""Options of a hash encoder: of its training, and of `hardmax index` and `search`. No torch here."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorConfig, EstimatorName, PictureConfig


@dataclass(frozen=True)
class HashingConfig(EstimatorConfig, PictureConfig):
    """Train an encoder of pictures to codes of bits, so that alike pictures have codes that differ in few bits.

    Example: hardmax train --model hashing --data fashion-mnist --bits 64 --epochs 4 --out runs/codes
    """

    model: Literal["hashing"] = "hashing"
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
    """Number of passes over the training set."""
    batch_size: int = 200
    """Number of pairs per step; each is contrasted with all others."""
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

    @property
    def unused_options(self) -> set[str]:
        """Unused options: those of other estimators, contrasts and pairs."""
        other = {"margin"} if self.contrast == "info-nce" else {"temperature"}
        return super().unused_options | other | (set() if self.pairs == "neighbours" else {"neighbours"})


@dataclass(frozen=True)
class IndexOptions:
    """Give every picture of a collection the code that a trained encoder has for it, for hardmax search.

    Writes one file: packed codes, names, and the pictures as the encoder sees them.

    Examples: hardmax index runs/codes fashion-mnist --out fashion.npz; hardmax index runs/codes my/photos --out my.npz
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model hashing."""
    images: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES")]
    """A folder of pictures of any sizes, or what --data of hardmax train takes: a set by its name, .npz, .npy, IDX."""
    out: str = "index.npz"
    """File to write."""
    split: Literal["all", "train", "validation", "test"] = "all"
    """Pictures of a data set; of a folder, all below it."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""


@dataclass(frozen=True)
class SearchOptions:
    """Find the pictures of an index whose codes differ in the fewest bits from those of some pictures.

    Prints a list, and writes a sheet: each picture, and the nearest ones beside it.

    Example: hardmax search fashion.npz shirt.png --count 10
    """

    index: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="INDEX")]
    """File that hardmax index wrote."""
    pictures: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PICTURE [PICTURE ...]")]
    """Picture files of any size: cut to the proportions that the encoder knows around the centre, and resized."""
    count: int = 10
    """How many to find for each."""
    out: str = "search.png"
    """Picture file for the sheet."""
    run: str | None = None
    """Folder of the run that made the codes, if it is no longer where it was."""
    json: bool = False
    """Print one JSON object for each picture instead of a list."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")
        if not self.pictures:
            raise ArgumentError("name at least one picture to search for: hardmax search INDEX PICTURE")
