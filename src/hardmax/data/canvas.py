"""A picture file at its own size and depth, of which some pixels are drawn anew and no other is touched. No torch."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image, ImageOps

from hardmax.data.picture import picture_size
from hardmax.errors import DataError

_KEPT = ("L", "LA", "RGB", "RGBA")


@dataclass(frozen=True)
class Canvas:
    """A picture as its file has it.

    Attributes:
        pixels: `[H, W, channels]`: grey or RGB, then alpha if there is one; bytes, or 16 bits of grey.
        alpha: whether the last channel is alpha.
        told: what was read, and what was done to it.
    """

    pixels: np.ndarray
    alpha: bool
    told: str

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def colours(self) -> int:
        """Channels that are no alpha: 1 or 3."""
        return self.pixels.shape[2] - self.alpha

    @property
    def top(self) -> int:
        """The largest value."""
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
        """Return it as Pillow has it."""
        return Image.fromarray(self.pixels[..., 0] if self.pixels.shape[2] == 1 else self.pixels)


def read_canvas(path: Path) -> Canvas:
    """Read a picture at its own size: grey or RGB of 8 bits, with alpha or without, or grey of 16 bits.

    Others become one of these: a palette or black and white RGB or grey, floats 16 bits. Turned as its EXIF says.

    Raises:
        DataError: the file is no picture.
    """
    picture_size(path)  # says what is wrong with a file that is none
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
            if clear or mode not in _KEPT:
                picture = picture.convert("RGBA" if clear else "L" if mode == "1" else "RGB")
            pixels = np.array(picture).reshape(picture.height, picture.width, -1)
    except Exception as error:  # Pillow raises nearly anything on broken files
        raise DataError(f"{path} cannot be read as a picture: {' '.join(str(error).split())}") from error
    told = f"{pixels.shape[1]}x{pixels.shape[0]} {mode}"
    if pixels.dtype == np.uint16:
        told += ", 16 bits"
    return Canvas(pixels, pixels.shape[2] in (2, 4), told)
