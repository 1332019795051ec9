"""A photo as a mixed VAE sees it, and what was done to it for that."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from hardmax.data import binarize
from hardmax.data.picture import picture_size, read_picture
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
    channels, height, width = shape
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of much that is mended here
        before = picture_size(path)
        read = read_picture(path, (height, width))
    pixels, grey = read.pixels, read.pixels.ndim == 2
    done = [f"{before[1]}x{before[0]} {read.mode}"]
    if before[0] * width != before[1] * height:
        done.append("cut around its centre")
    if read.resized:
        done.append(f"resized to {width}x{height}")
    if grey and channels == 3:
        pixels = np.repeat(pixels[..., None], 3, -1)
        done.append("grey as RGB")
    elif not grey and channels == 1:
        pixels = np.array(Image.fromarray(pixels).convert("L"))
        done.append("made grey")
    if config.binarize != "none":
        how = "rounded to zeros and ones" if config.binarize == "threshold" else "drawn as zeros and ones"
        done.append(f"pixels {how}")
    image = torch.from_numpy(pixels).reshape(height, width, channels).permute(2, 0, 1)[None]
    x = binarize(image, config.binarize, stream(config.seed, "binarize", "photo"))
    shown = binarize(image, "none") if config.encoder_input == "grey" else x
    return Photo(path, Seen(x, shown, None), ", ".join(done))
