"""Photos with hidden pixels: reading, resizing to the model's images, and completion at the original size."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from PIL import Image, ImageOps
from torch import Tensor

from hardmax.applications.completion.config import MASKS, CompletionConfig, check_mask
from hardmax.applications.completion.masks import check_hole, draw_masks
from hardmax.data import binarize
from hardmax.data.image_reading import decode_within_bounds, make_read_error, open_image
from hardmax.errors import ArgumentError, DataError
from hardmax.random import make_generator

_KEPT_MODES = ("L", "LA", "RGB", "RGBA")


@dataclass(frozen=True)
class Canvas:
    """The pixels of an image file.

    Attributes:
        pixels: `[H, W, channels]`: grey or RGB, then alpha if there is one; 8 bits, or 16 bits for grey.
        has_alpha: whether the last channel is alpha.
        description: what the file is and how it was converted.
    """

    pixels: np.ndarray
    has_alpha: bool
    description: str

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def colour_channels(self) -> int:
        """Number of channels without alpha: 1 or 3."""
        return self.pixels.shape[2] - self.has_alpha

    @property
    def max_value(self) -> int:
        """The largest possible value of a pixel."""
        return int(np.iinfo(self.pixels.dtype).max)

    def find_transparent(self) -> Bool[np.ndarray, "H W"] | None:
        """Return which pixels are more transparent than opaque; None if there is no alpha."""
        return self.pixels[..., -1] <= self.max_value // 2 if self.has_alpha else None

    def fill(self, hidden: Bool[np.ndarray, "H W"], values: Float[np.ndarray, "H W channels"]) -> "Canvas":
        """Return a copy whose hidden pixels have other values, in [0, 1], and are opaque."""
        pixels = self.pixels.copy()
        if values.shape[2] != self.colour_channels:
            values = values.mean(2, keepdims=True).repeat(self.colour_channels, 2)
        pixels[..., : self.colour_channels][hidden] = np.round(values.clip(0, 1) * self.max_value)[hidden].astype(
            pixels.dtype
        )
        if self.has_alpha:
            pixels[..., -1][hidden] = self.max_value
        return replace(self, pixels=pixels)

    def to_image(self) -> Image.Image:
        """Return the pixels as a Pillow image."""
        return Image.fromarray(self.pixels[..., 0] if self.pixels.shape[2] == 1 else self.pixels)


def read_canvas(path: Path) -> Canvas:
    """Read an image at its original size: grey or RGB of 8 bits, with or without alpha, or grey of 16 bits.

    Other modes are converted: palettes to RGB, black and white to grey, floats to 16 bits. The EXIF orientation is
    applied.

    Raises:
        DataError: the file is not an image.
    """
    try:
        with open_image(path) as image, decode_within_bounds(image, image.width * image.height):
            mode = image.mode
            ImageOps.exif_transpose(image, in_place=True)
            image.load()
            has_transparency = "transparency" in image.info
        if mode.startswith("I") or mode == "F":
            values = np.asarray(image, np.float64) * (65535 if mode == "F" else 1)
            if not (values.min() >= 0 and values.max() <= 65535):  # also if NaN
                raise ValueError(f"its values go from {values.min()} to {values.max()}, expected 16 bits")
            pixels = np.round(values).astype(np.uint16)[..., None]
        else:
            if has_transparency or mode not in _KEPT_MODES:
                image = image.convert("RGBA" if has_transparency else "L" if mode == "1" else "RGB")
            pixels = np.array(image).reshape(image.height, image.width, -1)
    except Exception as error:  # Pillow raises nearly anything on broken files
        raise make_read_error(path, error) from error
    description = f"{pixels.shape[1]}x{pixels.shape[0]} {mode}"
    if pixels.dtype == np.uint16:
        description += ", 16 bits"
    return Canvas(pixels, pixels.shape[2] in (2, 4), description)


@dataclass(frozen=True, eq=False)
class MaskedPhoto:
    """A photo, its hidden pixels, and the part of it that the model uses.

    Attributes:
        canvas: the photo.
        hidden: `[H, W]`. True where a pixel of the photo is hidden.
        box: left, top, right and bottom of the part that the model uses.
        x: `[1, *shape]`. The model's input.
        mask: `[1, 1, h, w]`. True where a pixel of the input contains any hidden pixel of the photo.
        description: what the file is and how it was converted.
    """

    canvas: Canvas
    hidden: np.ndarray
    box: tuple[int, int, int, int]
    x: Tensor
    mask: Tensor
    description: str

    def fill_hole(self, image: Tensor) -> Canvas:
        """Return the photo with its hidden pixels filled from the model's image `[channels, h, w]`."""
        left, top, right, bottom = self.box
        values = np.zeros((*self.canvas.size, len(image)))
        for channel, plane in enumerate(image.cpu().numpy()):
            values[top:bottom, left:right, channel] = _resize_channel(plane, (right - left, bottom - top))
        return self.canvas.fill(self.hidden, values)


def read_masked_photo(
    path: Path, mask: str | None, shape: tuple[int, int, int], config: CompletionConfig, seed: int = 0
) -> MaskedPhoto:
    """Read a photo and its mask, for a model of images of this shape (channels, h, w).

    Raises:
        ArgumentError: an unknown mask, or neither a mask nor a transparent pixel.
        DataError: a file is not an image, mask and photo do not fit, or all pixels or none are hidden.
    """
    canvas = read_canvas(path)
    channels, height, width = shape
    box, steps = _find_box(canvas.size, (height, width)), [canvas.description]
    left, top, right, bottom = box
    hidden = _find_hidden(canvas, box, path, mask, seed)
    check_hole(torch.from_numpy(hidden), mask or f"the transparency of {path}")
    if not hidden[top:bottom, left:right].sum() == hidden.sum():
        raise DataError(
            f"the hole extends beyond the part of {path} that the model uses: {right - left}x{bottom - top} around the "
            f"centre of {canvas.size[1]}x{canvas.size[0]}; crop the photo to the proportions {width}:{height} first"
        )
    if (bottom - top, right - left) != canvas.size:
        steps.append(f"the model uses {right - left}x{bottom - top} around its centre")
    if (bottom - top, right - left) != (height, width):
        steps.append(f"completed at {width}x{height} and resized")
    crop = canvas.pixels[top:bottom, left:right, : canvas.colour_channels] / canvas.max_value
    if canvas.colour_channels != channels:
        crop = crop.mean(2, keepdims=True).repeat(channels, 2)
        steps.append("grey as RGB" if channels == 3 else "the hole is filled in grey")
    x = np.stack([_resize_channel(crop[..., channel], (width, height)) for channel in range(channels)])
    mask_pixels = _resize_mask(hidden[top:bottom, left:right], (width, height))
    pixels = torch.from_numpy(np.round(x.clip(0, 1) * 255).astype(np.uint8))[None]
    x = binarize(pixels, config.binarize, make_generator(config.seed, "binarize", "photo"))
    return MaskedPhoto(canvas, hidden, box, x, torch.from_numpy(mask_pixels)[None, None], ", ".join(steps))


def _find_hidden(canvas: Canvas, box: tuple[int, int, int, int], path: Path, mask: str | None, seed: int) -> np.ndarray:
    """Return which pixels of a photo are hidden, `[H, W]`; a named mask belongs to the part that the model uses."""
    if mask is None:
        hidden = canvas.find_transparent()
        if hidden is None or not hidden.any():
            raise ArgumentError(f"{path} has no transparent pixel; give the hidden pixels with --mask")
        return hidden
    check_mask(mask)
    if mask not in MASKS:
        return draw_masks(mask, 1, canvas.size)[0, 0].numpy()
    left, top, right, bottom = box
    hidden = np.zeros(canvas.size, bool)
    generator = make_generator(seed, "mask")
    hidden[top:bottom, left:right] = draw_masks(mask, 1, (bottom - top, right - left), generator)[0, 0].numpy()
    return hidden


def _find_box(size: tuple[int, int], proportions: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the largest part around the centre with these proportions (height, width)."""
    height, width = size
    box_height = min(height, width * proportions[0] // proportions[1])
    box_width = min(width, height * proportions[1] // proportions[0])
    top, left = (height - box_height) // 2, (width - box_width) // 2
    return left, top, left + max(box_width, 1), top + max(box_height, 1)


def _resize_mask(hidden: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return which pixels at another size (width, height) contain any hidden pixel."""
    image = Image.fromarray(hidden.astype(np.float32))
    shrinks = image.width >= size[0] and image.height >= size[1]
    method = Image.Resampling.BOX if shrinks else Image.Resampling.NEAREST
    return np.asarray(image.resize(size, method)) > 1e-6


def _resize_channel(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return one channel at another size (width, height): averaged where it shrinks, else by bicubic interpolation."""
    image = Image.fromarray(values.astype(np.float32))
    shrinks = image.width >= size[0] and image.height >= size[1]
    return np.asarray(image.resize(size, Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC), np.float64)
