"""Read an image file of any format as an array of grey or RGB bytes. Imports no torch."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from hardmax.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_ROTATED = (5, 6, 7, 8)  # values of the EXIF orientation that swap height and width


@dataclass(frozen=True)
class DecodedImage:
    """The pixels of an image file.

    Attributes:
        pixels: `[H, W]` if the image is grey, whatever its mode, else `[H, W, 3]`.
        mode: Pillow's mode of the file, such as "RGBA".
        resized: whether the image in the file has another size.
    """

    pixels: UInt8[np.ndarray, "H W *rgb"]
    mode: str
    resized: bool


class _BoundedFile(io.BufferedReader):
    """A file from which no more bytes are requested at once than it has: Python allocates what is requested."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None else min(size, self._size))


@contextmanager
def open_image(path: Path) -> Iterator[Image.Image]:
    """Open an image file within the block; its header cannot make Pillow read a chunk of any size.

    Raises:
        OSError: the file cannot be read, or is not an image.
    """
    with _BoundedFile(path) as file, Image.open(file) as image:
        yield image


def read_image_size(path: Path) -> tuple[int, int]:
    """Read height and width from an image's header, after its EXIF rotation.

    Raises:
        DataError: the file is not an image.
    """
    try:
        with open_image(path) as image:
            # Of a PNG, the EXIF data may follow the pixels, and Pillow decodes these to find it.
            decodes = image.format == "PNG"
            with decode_within_bounds(image, image.width * image.height) if decodes else nullcontext():
                rotated = image.getexif().get(0x0112) in _ROTATED
            return (image.width, image.height) if rotated else (image.height, image.width)
    except Exception as error:  # Pillow raises errors of almost any class for broken files
        raise make_read_error(path, error) from error


def read_image(path: Path, size: tuple[int, int]) -> DecodedImage:
    """Read an image, and resize it to a given size.

    Args:
        path: the file. Of an animation or a file with several pages, only the first image is read.
        size: height and width. An image of another size is cropped to these proportions around its centre, then
            resized, with a box filter if it shrinks and a Lanczos filter if it grows.

    Returns:
        The image. Transparent pixels are blended with black; 16 bits become 8 by scaling 0..65535 to 0..255.

    Raises:
        DataError: the file is broken, not an image, or has too many pixels.
    """
    try:
        with open_image(path) as image:
            mode, pixel_count = image.mode, image.width * image.height
            # A JPEG that is much larger is decoded at 1/2, 1/4 or 1/8, many times faster; other files are unaffected.
            image.draft(None, (2 * max(size), 2 * max(size)))
            with decode_within_bounds(image, pixel_count):
                ImageOps.exif_transpose(image, in_place=True)
                resized = (image.height, image.width) != size
                pixels = np.array(_convert_and_fit(image, size))
    except Exception as error:
        raise make_read_error(path, error) from error
    if pixels.ndim == 3 and (pixels[..., :1] == pixels).all():
        pixels = pixels[..., 0]
    return DecodedImage(pixels, mode, resized)


_MOST_PIXELS = 89_000_000  # about a quarter of a GB at three bytes each, where Pillow begins to warn
_MOST_BYTES = 640 * 2**20  # that decoding takes at most; where this is reached before, it limits the number of pixels
_LARGE = 64 * 2**20  # from this number of bytes on, images are decoded one at a time
_decodes_large = Lock()


@contextmanager
def decode_within_bounds(image: Image.Image, pixel_count: int) -> Iterator[None]:
    """Check the size of an open image before it is decoded; within the block, no other large one is decoded.

    A file of some kB may hold any number of equal pixels.

    Args:
        image: the image, at the size at which it will be decoded.
        pixel_count: the number of pixels in the file.

    Raises:
        ValueError: the image has too many pixels.
    """
    # Measured: up to four bytes per pixel, and four to rotate the image. WebP decodes to several frames; a progressive
    # JPEG keeps two bytes for each of its coefficients, at the full size even if it is decoded at a smaller one.
    needed = (20 if image.format == "WEBP" else 8) * image.width * image.height
    if image.info.get("progressive"):
        needed += 2 * len(image.getbands()) * pixel_count
    else:
        pixel_count = image.width * image.height
    if pixel_count > _MOST_PIXELS or needed > _MOST_BYTES:
        most = min(_MOST_PIXELS, _MOST_BYTES * pixel_count // needed)
        raise ValueError(
            f"it has {pixel_count // 10**6} million pixels, and an image of its kind may have {most // 10**6} million; "
            "save it smaller"
        )
    with _decodes_large if needed > _LARGE else nullcontext():
        yield


def _convert_and_fit(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return an image in mode L or RGB, cropped around its centre to the proportions of a size, and resized."""
    height, width = size
    shrinks = image.height >= height and image.width >= width
    method = Image.Resampling.BOX if shrinks else Image.Resampling.LANCZOS
    if image.width * image.height <= _STRIP:
        converted = _to_grey_or_rgb(image)
        return converted if converted.size == (width, height) else ImageOps.fit(converted, (width, height), method)
    # The conversion takes up to six times the memory of the image, so a large one is converted strip by strip: first
    # the rows of each strip are resized, then all columns. Pillow does the same, in this order or the other.
    left, top, right, bottom = _find_box(image.size, (width, height))
    rows = max(1, _STRIP // image.width)
    resized: Image.Image | None = None
    for begin in range(0, image.height, rows):
        end = min(begin + rows, image.height)
        strip = _to_grey_or_rgb(image.crop((0, begin, image.width, end)))
        strip = strip.resize((width, end - begin), method, box=(left, 0, right, end - begin))
        resized = resized or Image.new(strip.mode, (width, image.height))
        resized.paste(strip, (0, begin))
    assert resized is not None  # an image has a row
    return resized.resize((width, height), method, box=(0, top, width, bottom))


def _find_box(size: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
    """Return the largest box around the centre with the proportions of a target, as in `ImageOps.fit`."""
    (width, height), ratio = size, target[0] / target[1]
    if width / height == ratio:
        return 0, 0, width, height
    box_width, box_height = (ratio * height, height) if width / height > ratio else (width, width / ratio)
    left, top = (width - box_width) * 0.5, (height - box_height) * 0.5
    return left, top, left + box_width, top + box_height


_STRIP = 4_000_000  # pixels


def _to_grey_or_rgb(image: Image.Image) -> Image.Image:
    """Return the image in mode L or RGB."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_to_bytes(np.asarray(image)))
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "La", "RGBa"):
        # Blended with black, since empty pixels are zero in all other data.
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _to_bytes(values: np.ndarray) -> UInt8[np.ndarray, "H W"]:
    """Scale 16-bit integers, or floats in [0, 1], to bytes."""
    top = 1.0 if values.dtype.kind == "f" else 65535.0
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= top):  # also if NaN
        raise ValueError(f"its values go from {low} to {high}, expected 0 to {top:g}")
    return np.round(values * (255 / top)).astype(np.uint8)


def make_read_error(path: Path, error: Exception) -> DataError:
    """Return the error of a file that Pillow cannot read, in one line."""
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    elif "cannot identify" in str(error):
        reason = "it is not in an image's format"
    else:
        reason = " ".join(str(error).split()) or type(error).__name__
    return DataError(f"{path} cannot be read as an image: {reason}")
