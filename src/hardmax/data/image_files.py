"""Read image files as images of one size, or one photo in the shape that a model expects; convert grey and RGB."""

import logging
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from hardmax.data.image_reading import read_image, read_image_size
from hardmax.data.images import BITS_NOTE, expand_bits
from hardmax.data.memory import get_physical_memory
from hardmax.errors import ArgumentError, DataError

_GREY = (19595, 38470, 7471)  # weights of red, green and blue, out of 65,536, as in Pillow


def to_channels(images: UInt8[Tensor, "N channels H W"], channels: int) -> UInt8[Tensor, "N out H W"]:
    """Convert images to one or three channels.

    Args:
        images: images with one or three channels.
        channels: number of channels of the result.

    Raises:
        ArgumentError: either number is not one or three.

    Example:
        >>> to_channels(torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1), 1).item()
        76
    """
    current = images.shape[1]
    if current == channels:
        return images
    if (current, channels) == (1, 3):
        return images.expand(-1, 3, -1, -1)
    if (current, channels) == (3, 1):
        weights = torch.tensor(_GREY, device=images.device)
        # In batches, since the products take eight bytes per pixel instead of one.
        sums = [(batch * weights[:, None, None]).sum(1, keepdim=True) for batch in images.split(1000)]
        return torch.cat([((batch + 32768) >> 16).to(torch.uint8) for batch in sums])
    raise ArgumentError(f"images have one channel or three, got {current} where {channels} are wanted")


# progress(description, number of images read, number of all images)
Progress = Callable[[str, int, int], None]

_MOST_BROKEN = 0.05  # share of files that cannot be read, from which on it is an error
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Images of one size, read from files.

    Attributes:
        pixels: `[N, channels, H, W]`; one channel if every image is grey, else three.
        index: `[N]`, index of each image's file.
        notes: how the images were processed.
    """

    pixels: UInt8[Tensor, "N channels H W"]
    index: Int64[Tensor, "N"]
    notes: tuple[str, ...]


def read_images(
    paths: Sequence[Path], folder: Path, size: int | tuple[int, int] | None, progress: Progress | None = None
) -> DecodedImages:
    """Read image files in parallel; skip broken ones if they are few.

    Args:
        paths: at least one file.
        folder: the folder that contains them; notes and errors name the files relative to it.
        size: height and width, or one number for both; None is the median of their heights and that of their widths.
        progress: called repeatedly.

    Returns:
        The images, in the order of their paths.

    Raises:
        DataError: 5 % or more of them cannot be read, or they do not fit into memory.
    """
    broken: dict[int, DataError] = {}
    median_note: list[str] = []
    if size is None:
        sizes = np.array([file_size for _, file_size in _map_files(read_image_size, paths, broken)])
        # Of an even number, the smaller of the two in the middle: always the height, or width, of an image.
        height, width = map(int, np.sort(sizes, axis=0)[(len(sizes) - 1) // 2])
        if len(np.unique(sizes, axis=0)) > 1:
            smallest, largest = ("x".join(map(str, f(sizes, axis=0))) for f in (np.min, np.max))
            median_note = [f"the median of sizes from {smallest} to {largest} (--size sets another)"]
    else:
        height, width = (size, size) if isinstance(size, int) else size
        if height < 1 or width < 1:
            raise DataError(f"size must be positive, got {size}")
    _check_memory(len(paths), height, width, folder)
    _log.info("reading %s images in %s", f"{len(paths):,}", folder)
    pixels = np.empty((len(paths), 3, height, width), np.uint8)
    index: list[int] = []
    modes: Counter[str] = Counter()
    resized = flat = coloured = 0
    for i, image in _map_files(lambda path: read_image(path, (height, width)), paths, broken):
        grey = image.pixels.ndim == 2
        pixels[len(index)] = image.pixels if grey else image.pixels.transpose(2, 0, 1)
        index.append(i)
        modes[image.mode] += 1
        resized += image.resized
        flat += int(image.pixels.min() == image.pixels.max())
        coloured += not grey
        if progress is not None and (len(index) % 100 == 0 or i + 1 == len(paths)):
            progress(str(folder), i + 1, len(paths))
    pixels = pixels[: len(index)] if coloured else np.ascontiguousarray(pixels[: len(index), :1])
    notes = [
        f"{len(index):,} images in {folder}, as {height}x{width} {'RGB' if coloured else 'grey'}",
        *median_note,
        "modes " + ", ".join(f"{mode} {count:,}" for mode, count in modes.most_common()),
    ]
    if resized:
        notes.append(f"{resized:,} of other sizes were cropped and resized")
    if flat:
        notes.append(f"{flat:,} are of one flat colour")
    if broken:
        names = list_first(str(paths[i].relative_to(folder)) for i in sorted(broken))
        notes.append(f"{len(broken):,} could not be read and were left out: {names}")
        _log.warning("%s: %s", folder, notes[-1])
    images = torch.from_numpy(pixels)
    if expand_bits(images):
        notes.append(BITS_NOTE)
    return DecodedImages(images, torch.tensor(index), tuple(notes))


def list_first(names: Iterable[str]) -> str:
    """Return the first five names, separated by commas."""
    names = list(names)
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _map_files(f: Callable[[Path], T], paths: Sequence[Path], broken: dict[int, DataError]) -> Iterator[tuple[int, T]]:
    """Apply f to the paths in parallel; failures are added to `broken`. Raises `DataError` if there are many."""

    def call_or_error(i: int) -> T | DataError:
        try:
            return f(paths[i])
        except DataError as error:
            return error

    good = [i for i in range(len(paths)) if i not in broken]
    # Pillow releases the GIL while it decodes. Its warnings are about problems that are fixed (transparent palettes)
    # or reported here.
    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for i, result in zip(good, pool.map(call_or_error, good), strict=True):
            if isinstance(result, DataError):
                broken[i] = result
            else:
                yield i, result
    if broken and len(broken) >= _MOST_BROKEN * len(paths):
        first = broken[min(broken)]
        raise DataError(f"{len(broken):,} of {len(paths):,} images cannot be read; the first: {first}")


def _check_memory(count: int, height: int, width: int, folder: Path) -> None:
    """Raise `DataError` if the images do not fit into memory, before hours of reading."""
    memory = get_physical_memory()
    # Three channels, and two copies: all images, and their parts.
    if memory is not None and (needed := 6 * count * height * width) > memory:
        raise DataError(
            f"{folder}: {count:,} images of {height}x{width} need {needed / 2**30:,.0f} GB of memory, this machine "
            f"has {memory / 2**30:,.0f}; choose a smaller size, such as size=64, or fewer images, such as "
            f"limit={max(1, count * memory // needed // 2):,}"
        )


@dataclass(frozen=True, eq=False)
class FittedPhoto:
    """A photo, converted to a given shape.

    Attributes:
        path: the file.
        pixels: a batch of one image.
        conversions: the conversions that were applied, as text.
    """

    path: Path
    pixels: UInt8[Tensor, "1 channels H W"]
    conversions: tuple[str, ...]


def fit_photo(path: Path, shape: tuple[int, int, int]) -> FittedPhoto:
    """Read a photo of any size and mode, and convert it to an image of this shape (channels, H, W).

    Raises:
        DataError: the file is not an image.
    """
    channels, height, width = shape
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of problems that are fixed here
        file_height, file_width = read_image_size(path)
        image = read_image(path, (height, width))
    conversions = [f"{file_width}x{file_height} {image.mode}"]
    if file_height * width != file_width * height:
        conversions.append("cut around its centre")
    if image.resized:
        conversions.append(f"resized to {width}x{height}")
    pixels = torch.from_numpy(image.pixels).reshape(height, width, -1).permute(2, 0, 1)[None]
    if expand_bits(pixels):
        conversions.append(BITS_NOTE)
    if pixels.shape[1] != channels:
        conversions.append("grey as RGB" if channels == 3 else "made grey")
    return FittedPhoto(path, to_channels(pixels, channels), tuple(conversions))
