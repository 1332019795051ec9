"""Read many image files as images of one size, or one photo in a model's shape; convert between grey and RGB."""

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
from hardmax.errors import ArgumentError, DataError

_GREY = (19595, 38470, 7471)  # brightness of red, green and blue, of 65,536, as in Pillow


def to_channels(images: UInt8[Tensor, "N channels H W"], channels: int) -> UInt8[Tensor, "N out H W"]:
    """Convert pictures to one or three channels.

    Args:
        images: pictures with one or three channels.
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
        # In parts, since the products take eight bytes instead of one.
        sums = [(some * weights[:, None, None]).sum(1, keepdim=True) for some in images.split(1000)]
        return torch.cat([((some + 32768) >> 16).to(torch.uint8) for some in sums])
    raise ArgumentError(f"pictures have one channel or three, got {current} where {channels} are wanted")


# progress(description, number of pictures read, number of all pictures)
Progress = Callable[[str, int, int], None]

_MOST_BROKEN = 0.05
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures of one size, read from files.

    Attributes:
        pixels: `[N, channels, H, W]`; one channel if every picture is grey, else three.
        index: `[N]`, index of each picture's file.
        notes: how the pictures were processed.
    """

    pixels: UInt8[Tensor, "N channels H W"]
    index: Int64[Tensor, "N"]
    notes: tuple[str, ...]


def read_pictures(
    paths: Sequence[Path], folder: Path, size: int | tuple[int, int] | None, progress: Progress | None = None
) -> Gallery:
    """Read picture files in parallel; skip broken ones if they are few.

    Args:
        paths: at least one file.
        folder: the folder that contains them; notes and errors name the files relative to it.
        size: height and width, or one number for both; None is the most common size, the smallest of equally common
            ones.
        progress: called from time to time.

    Returns:
        The pictures, in the order of their paths.

    Raises:
        DataError: 5 % or more of them cannot be read, or they do not fit into memory.
    """
    broken: dict[int, DataError] = {}
    if size is None:
        sizes = _each(read_image_size, paths, broken)
        counts = Counter(size_of_file for _, size_of_file in sizes)
        # Of equally common sizes the smaller one, independent of the order of the files.
        height, width = max(counts, key=lambda hw: (counts[hw], -hw[0] * hw[1], hw))
    else:
        height, width = (size, size) if isinstance(size, int) else size
        if height < 1 or width < 1:
            raise DataError(f"size must be positive, got {size}")
    _check_memory(len(paths), height, width, folder)
    _log.info("reading %s pictures in %s", f"{len(paths):,}", folder)
    pixels = np.empty((len(paths), 3, height, width), np.uint8)
    index: list[int] = []
    modes: Counter[str] = Counter()
    resized = flat = colourful = 0
    for i, picture in _each(lambda path: read_image(path, (height, width)), paths, broken):
        grey = picture.pixels.ndim == 2
        pixels[len(index)] = picture.pixels if grey else picture.pixels.transpose(2, 0, 1)
        index.append(i)
        modes[picture.mode] += 1
        resized += picture.resized
        flat += int(picture.pixels.min() == picture.pixels.max())
        colourful += not grey
        if progress is not None and (len(index) % 100 == 0 or i + 1 == len(paths)):
            progress(str(folder), i + 1, len(paths))
    pixels = pixels[: len(index)] if colourful else np.ascontiguousarray(pixels[: len(index), :1])
    notes = [
        f"{len(index):,} pictures in {folder}, as {height}x{width} {'RGB' if colourful else 'grey'}",
        "modes " + ", ".join(f"{mode} {count:,}" for mode, count in modes.most_common()),
    ]
    if resized:
        notes.append(f"{resized:,} of other sizes were cropped and resized")
    if flat:
        notes.append(f"{flat:,} are of one flat colour")
    if broken:
        names = list_some(str(paths[i].relative_to(folder)) for i in sorted(broken))
        notes.append(f"{len(broken):,} could not be read and were left out: {names}")
        _log.warning("%s: %s", folder, notes[-1])
    return Gallery(torch.from_numpy(pixels), torch.tensor(index), tuple(notes))


def list_some(names: Iterable[str]) -> str:
    """Return the first five names, with commas."""
    names = list(names)
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _each(f: Callable[[Path], T], paths: Sequence[Path], broken: dict[int, DataError]) -> Iterator[tuple[int, T]]:
    """Apply f to the paths in parallel; failures are added to `broken`, and raise an error if they are many."""

    def call_or_error(i: int) -> T | DataError:
        try:
            return f(paths[i])
        except DataError as error:
            return error

    good = [i for i in range(len(paths)) if i not in broken]
    # Pillow releases the GIL while it decodes. It warns of much that we fix (transparent palettes) or report.
    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for i, result in zip(good, pool.map(call_or_error, good), strict=True):
            if isinstance(result, DataError):
                broken[i] = result
            else:
                yield i, result
    if broken and len(broken) >= _MOST_BROKEN * len(paths):
        first = broken[min(broken)]
        raise DataError(f"{len(broken):,} of {len(paths):,} pictures cannot be read; the first: {first}")


def _check_memory(count: int, height: int, width: int, folder: Path) -> None:
    """Raise an error if the pictures cannot fit into memory, before hours of reading."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return
    # Three channels; all pictures, and a second copy in their parts.
    if (needed := 6 * count * height * width) > memory:
        raise DataError(
            f"{folder}: {count:,} pictures of {height}x{width} need {needed / 2**30:,.0f} GB of memory, this machine "
            f"has {memory / 2**30:,.0f}; choose a smaller size, such as size=64, or fewer pictures, such as "
            f"limit={max(1, count * memory // needed // 2):,}"
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A photo, read and converted to a given shape.

    Attributes:
        path: the file.
        pixels: a batch of one picture.
        done: the conversions that were applied.
    """

    path: Path
    pixels: UInt8[Tensor, "1 channels H W"]
    done: tuple[str, ...]


def fit_photo(path: Path, shape: tuple[int, int, int]) -> Fitted:
    """Read a photo of any size and mode as a picture of this shape (channels, H, W).

    Raises:
        DataError: the file is not a picture.
    """
    channels, height, width = shape
    with warnings.catch_warnings(action="ignore"):  # Pillow warns of much that is fixed here
        before = read_image_size(path)
        read = read_image(path, (height, width))
    done = [f"{before[1]}x{before[0]} {read.mode}"]
    if before[0] * width != before[1] * height:
        done.append("cut around its centre")
    if read.resized:
        done.append(f"resized to {width}x{height}")
    pixels = torch.from_numpy(read.pixels).reshape(height, width, -1).permute(2, 0, 1)[None]
    if pixels.shape[1] != channels:
        done.append("grey as RGB" if channels == 3 else "made grey")
    return Fitted(path, to_channels(pixels, channels), tuple(done))
