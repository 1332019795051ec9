"""A photo with a hole, as a completion model sees it; and the way back, from what it draws to the photo's own size."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hardmax.data import binarize, draw_masks
from hardmax.data.canvas import Canvas, read_canvas
from hardmax.data.mask_names import check_mask
from hardmax.data.masks import check_hole
from hardmax.errors import ArgumentError, DataError
from hardmax.random import stream
from hardmax.training.completion.config import CompletionConfig


@dataclass(frozen=True, eq=False)
class HoledPhoto:
    """A photo, what is hidden of it, and the part of it that the model sees.

    Attributes:
        canvas: the photo.
        hidden: `[H, W]`, at the photo's size.
        box: left, top, right and bottom of what the model sees.
        x: `[1, *shape]`, as the model sees it.
        mask: `[1, 1, h, w]`, which of its pixels are hidden: those that hold any hidden pixel of the photo.
        told: what was read, and what was done to it.
    """

    canvas: Canvas
    hidden: np.ndarray
    box: tuple[int, int, int, int]
    x: Tensor
    mask: Tensor
    told: str

    def completed(self, picture: Tensor) -> Canvas:
        """Return the photo with its hole drawn as the model has it, `[channels, h, w]`."""
        left, top, right, bottom = self.box
        values = np.zeros((*self.canvas.size, len(picture)))
        for channel, drawn in enumerate(picture.cpu().numpy()):
            values[top:bottom, left:right, channel] = _resized(drawn, (right - left, bottom - top))
        return self.canvas.fill(self.hidden, values)


def read_holed(
    path: Path, mask: str | None, shape: tuple[int, int, int], config: CompletionConfig, seed: int = 0
) -> HoledPhoto:
    """Read a photo and its mask for a model of pictures of this shape (channels, h, w).

    Raises:
        ArgumentError: there is no mask of this name, or neither a mask nor a transparent pixel.
        DataError: a file is no picture, mask and photo do not fit, or all or nothing is hidden.
    """
    canvas = read_canvas(path)
    hidden = _hidden(canvas, path, mask, seed)
    check_hole(torch.from_numpy(hidden), mask or f"the transparency of {path}")
    channels, height, width = shape
    box, done = _box(canvas.size, (height, width)), [canvas.told]
    left, top, right, bottom = box
    if not hidden[top:bottom, left:right].sum() == hidden.sum():
        raise DataError(
            f"the hole reaches out of what the model sees of {path}: {right - left}x{bottom - top} pixels around the "
            f"centre of {canvas.size[1]}x{canvas.size[0]}; cut the photo to the proportions {width}:{height} first"
        )
    if (bottom - top, right - left) != canvas.size:
        done.append(f"seen in {right - left}x{bottom - top} around its centre")
    if (bottom - top, right - left) != (height, width):
        done.append(f"drawn at {width}x{height} and resized")
    seen = canvas.pixels[top:bottom, left:right, : canvas.colours] / canvas.top
    if canvas.colours != channels:
        seen = seen.mean(2, keepdims=True).repeat(channels, 2)
        done.append("grey as RGB" if channels == 3 else "the hole is drawn in grey")
    x = np.stack([_resized(seen[..., channel], (width, height)) for channel in range(channels)])
    mask_seen = _covered(hidden[top:bottom, left:right], (width, height))
    pixels = torch.from_numpy(np.round(x.clip(0, 1) * 255).astype(np.uint8))[None]
    x = binarize(pixels, config.binarize, stream(config.seed, "binarize", "photo"))
    return HoledPhoto(canvas, hidden, box, x, torch.from_numpy(mask_seen)[None, None], ", ".join(done))


def _hidden(canvas: Canvas, path: Path, mask: str | None, seed: int) -> np.ndarray:
    if mask is None:
        hidden = canvas.transparent()
        if hidden is None or not hidden.any():
            raise ArgumentError(f"{path} has no transparent pixel, so say what is hidden with --mask")
        return hidden
    check_mask(mask)
    return draw_masks(mask, 1, canvas.size, stream(seed, "mask"))[0, 0].numpy()


def _box(size: tuple[int, int], wanted: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the largest part around the centre with the proportions that are wanted."""
    height, width = size
    high, wide = min(height, width * wanted[0] // wanted[1]), min(width, height * wanted[1] // wanted[0])
    top, left = (height - high) // 2, (width - wide) // 2
    return left, top, left + max(wide, 1), top + max(high, 1)


def _covered(hidden: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return which pixels of another size, width and height, hold any that is hidden."""
    picture = Image.fromarray(hidden.astype(np.float32))
    shrinks = picture.width >= size[0] and picture.height >= size[1]
    method = Image.Resampling.BOX if shrinks else Image.Resampling.NEAREST
    return np.asarray(picture.resize(size, method)) > 1e-6


def _resized(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return one channel in another size, width and height; by means where it shrinks, else smoothly."""
    picture = Image.fromarray(values.astype(np.float32))
    shrinks = picture.width >= size[0] and picture.height >= size[1]
    return np.asarray(picture.resize(size, Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC), np.float64)
