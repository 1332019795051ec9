"""A photo as a mixed VAE sees it, and what was done to it for that."""

from dataclasses import dataclass
from pathlib import Path

from hardmax.cli.photo import fit_photo
from hardmax.data import binarize
from hardmax.random import stream
from hardmax.training.mixed.config import MixedConfig
from hardmax.training.mixed.pictures import Seen


@dataclass(frozen=True, eq=False)
class Photo:
    """A picture file that was read.

    Attributes:
        path: the file.
        seen: as the model sees it, a batch of one.
        done: what was done to it.
    """

    path: Path
    seen: Seen
    done: str


def read_photo(path: Path, shape: tuple[int, int, int], config: MixedConfig) -> Photo:
    """Read a photo as a run's pictures are: of this shape (channels, H, W), and with their pixels.

    Raises:
        DataError: the file is no picture.
    """
    fitted = fit_photo(path, shape)
    done = list(fitted.done)
    if config.binarize != "none":
        how = "rounded to zeros and ones" if config.binarize == "threshold" else "drawn as zeros and ones"
        done.append(f"pixels {how}")
    x = binarize(fitted.pixels, config.binarize, stream(config.seed, "binarize", "photo"))
    shown = binarize(fitted.pixels, "none") if config.encoder_input == "grey" else x
    return Photo(path, Seen(x, shown, None), ", ".join(done))
