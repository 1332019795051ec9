"""Read many image files as images of one size, and one photo as a model sees it; grey as RGB and RGB as grey."""

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

_GREY = (19595, 38470, 7471)  # of 65,536: how bright red, green and blue are, as Pillow has it


def to_channels(images: UInt8[Tensor, "N channels H W"], channels: int) -> UInt8[Tensor, "N out H W"]:
    """Return pictures with one or three channels.

    Args:
        images: with one or three.
        channels: how many are wanted.

    Raises:
        ArgumentError: another number is wanted or there.

    Example:
        >>> to_channels(torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1), 1).item()
        76
    """
    found = images.shape[1]
    if found == channels:
        return images
    if (found, channels) == (1, 3):
        return images.expand(-1, 3, -1, -1)
    if (found, channels) == (3, 1):
        weights = torch.tensor(_GREY, device=images.device)
        # In parts: numbers of eight bytes in place of one.
        sums = [(some * weights[:, None, None]).sum(1, keepdim=True) for some in images.split(1000)]
        return torch.cat([((some + 32768) >> 16).to(torch.uint8) for some in sums])
    raise ArgumentError(f"pictures have one channel or three, got {found} where {channels} are wanted")


# progress(what is read, pictures that are read, pictures in all)
Progress = Callable[[str, int, int], None]

_MOST_BROKEN = 0.05
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures that were read.

    Attributes:
        pixels: `[N, channels, H, W]`; one channel if every picture is grey, else three.
        index: `[N]`, which of the files each one is.
        notes: what was done to them.
    """

    pixels: UInt8[Tensor, "N channels H W"]
    index: Int64[Tensor, "N"]
    notes: tuple[str, ...]


def read_pictures(
    paths: Sequence[Path], folder: Path, size: int | tuple[int, int] | None, progress: Progress | None = None
) -> Gallery:
    """Read pictures, several at a time; a few that are broken are left out.

    Args:
        paths: at least one.
        folder: they lie in it; what notes and errors call them after.
        size: height and width, or one number for both; None takes the size that most pictures have, of several the
            smallest.
        progress: called now and then.

    Returns:
        The pictures, in the order of their paths.

    Raises:
        DataError: 5 % or more of them cannot be read, or they do not fit into memory.
    """
    broken: dict[int, DataError] = {}
    if size is None:
        sizes = _each(read_image_size, paths, broken)
        counts = Counter(found for _, found in sizes)
        # As common: the smaller one, and the order of the files decides nothing.
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
    """Apply f to the paths, several at a time; those on which it fails go to `broken`, unless they are many."""

    def tried(i: int) -> T | DataError:
        try:
            return f(paths[i])
        except DataError as error:
            return error

    good = [i for i in range(len(paths)) if i not in broken]
    # Pillow lets other threads run while it decodes. It warns of much that we mend (transparent palettes) or report.
    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for i, result in zip(good, pool.map(tried, good), strict=True):
            if isinstance(result, DataError):
                broken[i] = result
            else:
                yield i, result
    if broken and len(broken) >= _MOST_BROKEN * len(paths):
        first = broken[min(broken)]
        raise DataError(f"{len(broken):,} of {len(paths):,} pictures cannot be read; the first: {first}")


def _check_memory(count: int, height: int, width: int, folder: Path) -> None:
    """Refuse what cannot fit, before hours of reading."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return
    # Three channels; all pictures, and again in their parts.
    if (needed := 6 * count * height * width) > memory:
        raise DataError(
            f"{folder}: {count:,} pictures of {height}x{width} need {needed / 2**30:,.0f} GB of memory, this machine "
            f"has {memory / 2**30:,.0f}; choose a smaller size, such as size=64, or fewer pictures, such as "
            f"limit={max(1, count * memory // needed // 2):,}"
        )


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
