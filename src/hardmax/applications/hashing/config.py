"""Options of a hash encoder: of its training, and of `hardmax index` and `search`. Imports no torch."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.errors import ArgumentError
from hardmax.training.config import EstimatorConfig, EstimatorName, ImageConfig


@dataclass(frozen=True)
class HashingConfig(EstimatorConfig, ImageConfig):
    """Train an encoder of images to binary codes, such that the codes of similar images differ in few bits.

    hardmax index and hardmax search then find similar images by their codes.

    Example: hardmax train --model hashing --data fashion-mnist --bits 64 --epochs 4 --out runs/codes
    """

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("pairs", "neighbours", "walk", "augment", "searched"),
        "model": ("bits", "gain", "architecture", "hidden"),
        "optimisation": ("contrast", "temperature", "margin"),
    }

    model: Literal["hashing"] = "hashing"
    bits: int = 64
    """Number of bits of a code."""
    pairs: Literal["neighbours", "distorted", "labels"] = "neighbours"
    """Pairs of images that should get similar codes. neighbours: images with similar pixels. distorted: an image and a
    distorted copy of it, see --augment. labels: images of one class; only this choice uses labels."""
    neighbours: int = 20
    """Number of nearest images among which the partner of an image is drawn, again in every epoch (--pairs
    neighbours)."""
    walk: int = 1
    """Number of steps from an image to its partner: 1 draws a neighbour, 2 a neighbour of that neighbour, and so on.
    Many steps with few neighbours make the codes of whole clusters similar (--pairs neighbours)."""
    augment: Literal["none", "mirror", "shift", "affine", "elastic", "flip"] = "none"
    """Distortion of both images of a pair. mirror: mirrored. shift: moved. affine: also rotated, scaled and sheared.
    elastic: also bent. flip: half as much of all that, and mirrored."""
    contrast: Literal["info-nce", "triplet"] = "info-nce"
    """Loss. info-nce: identify the partner among all images of the batch. triplet: be nearer to the partner than to the
    other images by a margin."""
    temperature: float = 0.2
    """Temperature of info-nce; the lower it is, the more the nearest negatives count."""
    margin: float = 0.5
    """Margin of triplet, a difference of cosines; half of it is the corresponding fraction of the bits."""
    gain: float = 6.0
    """Confidence of the encoder in its bits: the standard deviation of their scores."""
    architecture: Literal["auto", "mlp", "conv"] = "auto"
    """Network: two hidden layers (mlp), or convolutional (conv); auto: conv for images over 32 x 32 pixels."""
    hidden: int = 500
    """Width of the hidden layers."""
    estimator: EstimatorName = "auto"
    """Estimator of the encoder's gradient; auto: straight-through."""
    epochs: int = 4
    """Number of passes over the training set."""
    batch_size: int = 200
    """Number of pairs per step; each pair is contrasted with all others of the batch."""
    binarize: Literal["threshold", "stochastic", "none"] = "none"
    """How grey pixels become 0 or 1: threshold at 0.5, stochastic (sampled once), or none (left grey)."""
    evaluate_images: int = 1000
    """Maximum number of images per split that are queries after each epoch."""
    searched: Literal["train", "rest"] = "train"
    """Images that are searched for the queries. train: the training images. rest: all images that are not queries, and
    as many queries of each class, as in papers on hashing; test images only for queries of the test set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.need_at_least_one("bits", "neighbours", "walk", "hidden")
        self.need_positive("temperature", "margin", "gain")
        if self.pairs == "distorted" and self.augment == "none":
            raise ArgumentError("pairs distorted needs distortions: give --augment flip, or affine, elastic, shift")

    @property
    def unused_options(self) -> set[str]:
        """Unused options: those of other estimators, contrasts and pairs."""
        other = {"margin"} if self.contrast == "info-nce" else {"temperature"}
        return super().unused_options | other | (set() if self.pairs == "neighbours" else {"neighbours", "walk"})


@dataclass(frozen=True)
class IndexOptions:
    """Compute the codes of all images of a collection with a trained encoder, for hardmax search.

    Writes one file with the packed codes, the names, and the images in the size that the encoder reads.

    Examples:
      hardmax index runs/codes fashion-mnist --out fashion.npz
      hardmax index runs/codes my/photos --out my.npz
    """

    run: Annotated[str, Argument("RUN")]
    """Folder of a run of hardmax train --model hashing."""
    images: Annotated[str, Argument("IMAGES")]
    """Folder of images of any size; or, as for --data of hardmax train, the name of a data set, .npz, .npy or IDX."""
    out: str = "index.npz"
    """File to write."""
    split: Literal["all", "train", "validation", "test"] = "all"
    """Split of a data set; a folder is always indexed completely."""
    checkpoint: Literal["best", "latest"] = "best"
    """Checkpoint: the best on the validation set, or the latest."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: the environment variable HARDMAX_DATA."""
    device: str = "cpu"
    """Device: cpu, cuda, ..."""


@dataclass(frozen=True)
class SearchOptions:
    """Find the images of an index that are most similar to given images: their codes differ in the fewest bits.

    Prints a list, and writes an image with each given image and, next to it, the nearest ones.

    Example: hardmax search fashion.npz shirt.png --count 10
    """

    index: Annotated[str, Argument("INDEX")]
    """File that hardmax index wrote."""
    images: Annotated[tuple[str, ...], Argument("IMAGE")]
    """Image files of any size; they are cropped at the centre and resized to the size that the encoder reads."""
    count: int = 10
    """Number of similar images to find for each image."""
    out: str = "search.png"
    """Image file to write the results to."""
    run: Annotated[str | None, Metavar("RUN")] = None
    """Folder of the run that computed the codes, if it has moved since."""
    json: bool = False
    """Print one JSON object for each image instead of a list."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")
        if not self.images:
            raise ArgumentError("name at least one image to search for: hardmax search INDEX IMAGE")
