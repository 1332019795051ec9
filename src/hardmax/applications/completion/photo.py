"""A photo with a hole: read, reduced to the model's size, and completed at its own size."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from PIL import Image, ImageOps
from torch import Tensor

from hardmax.applications.completion.config import CompletionConfig, check_mask
from hardmax.applications.completion.masks import check_hole, draw_masks
from hardmax.data import binarize
from hardmax.data.image_reading import read_image_size
from hardmax.errors import ArgumentError, DataError
from hardmax.random import stream

_KEPT_MODES = ("L", "LA", "RGB", "RGBA")


@dataclass(frozen=True)
class Canvas:
    """The pixels of a picture file.

    Attributes:
        pixels: `[H, W, channels]`: grey or RGB, then alpha if there is one; bytes, or 16 bits of grey.
        alpha: whether the last channel is alpha.
        description: what the file is and how it was converted.
    """

    pixels: np.ndarray
    alpha: bool
    description: str

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def colours(self) -> int:
        """Number of channels without alpha: 1 or 3."""
        return self.pixels.shape[2] - self.alpha

    @property
    def top(self) -> int:
        """The largest possible value."""
        return int(np.iinfo(self.pixels.dtype).max)

    def transparent(self) -> Bool[np.ndarray, "H W"] | None:
        """Return which pixels are more transparent than not; None where there is no alpha."""
        return self.pixels[..., -1] <= self.top // 2 if self.alpha else None

    def fill(self, hidden: Bool[np.ndarray, "H W"], values: Float[np.ndarray, "H W channels"]) -> "Canvas":
        """Return a copy with other values, in [0, 1], where pixels are hidden; there it is opaque."""
        pixels = self.pixels.copy()
        if values.shape[2] != self.colours:
            values = values.mean(2, keepdims=True).repeat(self.colours, 2)
        pixels[..., : self.colours][hidden] = np.round(values.clip(0, 1) * self.top)[hidden].astype(pixels.dtype)
        if self.alpha:
            pixels[..., -1][hidden] = self.top
        return replace(self, pixels=pixels)

    def image(self) -> Image.Image:
        """Return the picture as a Pillow image."""
        return Image.fromarray(self.pixels[..., 0] if self.pixels.shape[2] == 1 else self.pixels)


def read_canvas(path: Path) -> Canvas:
    """Read a picture at its own size: grey or RGB of 8 bits, with alpha or without, or grey of 16 bits.

    Others are converted: a palette to RGB, black and white to grey, floats to 16 bits. The EXIF orientation is applied.

    Raises:
        DataError: the file is not a picture.
    """
    read_image_size(path)  # raises the error of a file that is not a picture
    try:
        with Image.open(path) as opened:
            mode = opened.mode
            picture = ImageOps.exif_transpose(opened)
            clear = "transparency" in picture.info
        if mode.startswith("I") or mode == "F":
            values = np.asarray(picture, np.float64) * (65535 if mode == "F" else 1)
            if not (values.min() >= 0 and values.max() <= 65535):  # also if NaN
                raise ValueError(f"its values go from {values.min()} to {values.max()}, expected 16 bits")
            pixels = np.round(values).astype(np.uint16)[..., None]
        else:
            if clear or mode not in _KEPT_MODES:
                picture = picture.convert("RGBA" if clear else "L" if mode == "1" else "RGB")
            pixels = np.array(picture).reshape(picture.height, picture.width, -1)
    except Exception as error:  # Pillow raises nearly anything on broken files
        raise DataError(f"{path} cannot be read as a picture: {' '.join(str(error).split())}") from error
    description = f"{pixels.shape[1]}x{pixels.shape[0]} {mode}"
    if pixels.dtype == np.uint16:
        description += ", 16 bits"
    return Canvas(pixels, pixels.shape[2] in (2, 4), description)


@dataclass(frozen=True, eq=False)
class HoledPhoto:
    """A photo, its hidden pixels, and the part of it that the model sees.

    Attributes:
        canvas: the photo.
        hidden: `[H, W]`, at the photo's size.
        box: left, top, right and bottom of the part that the model sees.
        x: `[1, *shape]`, the model's input.
        mask: `[1, 1, h, w]`, which of its pixels are hidden: those that contain any hidden pixel of the photo.
        description: what the file is and how it was converted.
    """

    canvas: Canvas
    hidden: np.ndarray
    box: tuple[int, int, int, int]
    x: Tensor
    mask: Tensor
    description: str

    def completed(self, picture: Tensor) -> Canvas:
        """Return the photo with its hole filled from the model's picture `[channels, h, w]`."""
        left, top, right, bottom = self.box
        values = np.zeros((*self.canvas.size, len(picture)))
        for channel, plane in enumerate(picture.cpu().numpy()):
            values[top:bottom, left:right, channel] = _resized(plane, (right - left, bottom - top))
        return self.canvas.fill(self.hidden, values)


def read_holed(
    path: Path, mask: str | None, shape: tuple[int, int, int], config: CompletionConfig, seed: int = 0
) -> HoledPhoto:
    """Read a photo and its mask for a model of pictures of this shape (channels, h, w).

    Raises:
        ArgumentError: an unknown mask, or neither a mask nor a transparent pixel.
        DataError: a file is not a picture, mask and photo do not fit, or all or nothing is hidden.
    """
    canvas = read_canvas(path)
    hidden = _hidden(canvas, path, mask, seed)
    check_hole(torch.from_numpy(hidden), mask or f"the transparency of {path}")
    channels, height, width = shape
    box, done = _box(canvas.size, (height, width)), [canvas.description]
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
    crop = canvas.pixels[top:bottom, left:right, : canvas.colours] / canvas.top
    if canvas.colours != channels:
        crop = crop.mean(2, keepdims=True).repeat(channels, 2)
        done.append("grey as RGB" if channels == 3 else "the hole is drawn in grey")
    x = np.stack([_resized(crop[..., channel], (width, height)) for channel in range(channels)])
    covered = _covered(hidden[top:bottom, left:right], (width, height))
    pixels = torch.from_numpy(np.round(x.clip(0, 1) * 255).astype(np.uint8))[None]
    x = binarize(pixels, config.binarize, stream(config.seed, "binarize", "photo"))
    return HoledPhoto(canvas, hidden, box, x, torch.from_numpy(covered)[None, None], ", ".join(done))


def _hidden(canvas: Canvas, path: Path, mask: str | None, seed: int) -> np.ndarray:
    if mask is None:
        hidden = canvas.transparent()
        if hidden is None or not hidden.any():
            raise ArgumentError(f"{path} has no transparent pixel, so say what is hidden with --mask")
        return hidden
    check_mask(mask)
    return draw_masks(mask, 1, canvas.size, stream(seed, "mask"))[0, 0].numpy()


def _box(size: tuple[int, int], wanted: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the largest part around the centre with the wanted proportions."""
    height, width = size
    high, wide = min(height, width * wanted[0] // wanted[1]), min(width, height * wanted[1] // wanted[0])
    top, left = (height - high) // 2, (width - wide) // 2
    return left, top, left + max(wide, 1), top + max(high, 1)


def _covered(hidden: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return which pixels at another size (width, height) contain any hidden pixel."""
    picture = Image.fromarray(hidden.astype(np.float32))
    shrinks = picture.width >= size[0] and picture.height >= size[1]
    method = Image.Resampling.BOX if shrinks else Image.Resampling.NEAREST
    return np.asarray(picture.resize(size, method)) > 1e-6


def _resized(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return one channel at another size (width, height): averaged where it shrinks, else by bicubic interpolation."""
    picture = Image.fromarray(values.astype(np.float32))
    shrinks = picture.width >= size[0] and picture.height >= size[1]
    return np.asarray(picture.resize(size, Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC), np.float64)
