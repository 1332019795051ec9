"""A photo as the pictures of a run are, and what was done to it for that."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.data.channels import to_channels
from hardmax.data.picture import picture_size, read_picture


@dataclass(frozen=True, eq=False)
class Fitted:
    """A picture file that was read.

    Attributes:
        path: the file.
        pixels: a batch of one.
        done: what was done to it.
    """

    path: Path
    pixels: UInt8[Tensor, "1 channels H W"]
    done: tuple[str, ...]


def fit_photo(path: Path, shape: tuple[int, int, int]) -> Fitted:
    """Read a photo of any size and mode as a picture of this shape (channels, H, W).

    Raises:
        DataError: the file is no picture.
    """
    channels, height, width = shape
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of much that is mended here
        before = picture_size(path)
        read = read_picture(path, (height, width))
    done = [f"{before[1]}x{before[0]} {read.mode}"]
    if before[0] * width != before[1] * height:
        done.append("cut around its centre")
    if read.resized:
        done.append(f"resized to {width}x{height}")
    pixels = torch.from_numpy(read.pixels).reshape(height, width, -1).permute(2, 0, 1)[None]
    if pixels.shape[1] != channels:
        done.append("grey as RGB" if channels == 3 else "made grey")
    return Fitted(path, to_channels(pixels, channels), tuple(done))
