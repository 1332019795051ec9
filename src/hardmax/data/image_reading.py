"""Read one image file of any kind as an array of grey or RGB bytes. Does not import torch."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from hardmax.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_ROTATED = (5, 6, 7, 8)  # values of the EXIF orientation that swap height and width


@dataclass(frozen=True)
class Picture:
    """The pixels of an image file.

    Attributes:
        pixels: `[H, W]` if it is grey, whatever its mode, else `[H, W, 3]`.
        mode: Pillow's mode of the file ("RGBA").
        resized: whether the picture in the file has another size.
    """

    pixels: UInt8[np.ndarray, "H W *rgb"]
    mode: str
    resized: bool


def read_image_size(path: Path) -> tuple[int, int]:
    """Read height and width from a picture's header, after its EXIF rotation.

    Raises:
        DataError: the file is not a picture.
    """
    try:
        with Image.open(path) as picture:
            turned = picture.getexif().get(0x0112) in _ROTATED
            return (picture.width, picture.height) if turned else (picture.height, picture.width)
    except Exception as error:  # Pillow raises nearly anything on broken files
        raise _unreadable(path, error) from error


def read_image(path: Path, size: tuple[int, int]) -> Picture:
    """Read a picture in a given size.

    Args:
        path: the file. Of an animation or a file of several pages, the first one is read.
        size: height and width. A picture of another size is cropped to these proportions around its centre, then
            resized, with a box filter where it shrinks and Lanczos's where it grows.

    Returns:
        The picture. Transparent pixels are blended with black; 16 bits become 8 by scaling 0..65535 to 0..255.

    Raises:
        DataError: the file is broken, or not a picture.
    """
    try:
        with Image.open(path) as picture:
            mode = picture.mode
            # A JPEG that is far too large is decoded at 1/2, 1/4 or 1/8, many times faster; other files are unaffected.
            picture.draft(None, (2 * max(size), 2 * max(size)))
            plain = _plain(ImageOps.exif_transpose(picture))
        height, width = size
        if resized := plain.size != (width, height):
            shrinks = plain.height >= height and plain.width >= width
            method = Image.Resampling.BOX if shrinks else Image.Resampling.LANCZOS
            plain = ImageOps.fit(plain, (width, height), method)
        pixels = np.array(plain)
    except Exception as error:
        raise _unreadable(path, error) from error
    if pixels.ndim == 3 and (pixels[..., :1] == pixels).all():
        pixels = pixels[..., 0]
    return Picture(pixels, mode, resized)


def _plain(picture: Image.Image) -> Image.Image:
    """Return the picture in mode L or RGB."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return Image.fromarray(_to_bytes(np.asarray(picture)))
    if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA", "La", "RGBa"):
        # Black, since empty pixels are zero everywhere else here.
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, (0, 0, 0, 255)), picture).convert("RGB")
    return picture.convert("L" if picture.mode in ("1", "L") else "RGB")


def _to_bytes(values: np.ndarray) -> UInt8[np.ndarray, "H W"]:
    """Scale 16-bit integers, or floats in [0, 1], to bytes."""
    top = 1.0 if values.dtype.kind == "f" else 65535.0
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= top):  # also if NaN
        raise ValueError(f"its values go from {low} to {high}, expected 0 to {top:g}")
    return np.round(values * (255 / top)).astype(np.uint8)


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    elif "cannot identify" in str(error):
        reason = "it is not in a picture's format"
    else:
        reason = " ".join(str(error).split()) or type(error).__name__
    return DataError(f"{path} cannot be read as a picture: {reason}")
