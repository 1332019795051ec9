"""A folder of the user's own pictures, of any sizes and kinds, as images of one size."""

import logging
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from hardmax.data.images import PARTS, Images
from hardmax.data.picture import SUFFIXES, Picture, picture_size, read_picture
from hardmax.data.split import complete
from hardmax.errors import DataError

_SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation", "test": "test"}
_MOST_BROKEN = 0.05
_log = logging.getLogger(__name__)
T = TypeVar("T")


def load_folder(folder: Path, *, size: int | tuple[int, int] | None = None, seed: int = 0) -> Images:
    """Load all pictures in a folder and below it.

    Grey if every picture is grey, else RGB. Sub-folders named train, validation (or val) and test are the parts;
    without them 80 % of the pictures train, 10 % validate and 10 % test. If all pictures lie in sub-folders (below
    those), these are the classes, numbered in the order of their names. Hidden files are left out.

    Args:
        folder: where they are.
        size: height and width, or one number for both; None takes the size that most pictures have, of several the
            smallest. Pictures of other sizes are cropped and resized (see `hardmax.data.picture.read_picture`).
        seed: of the split.

    Returns:
        The images; their `source` says what was done.

    Raises:
        DataError: there are no pictures, or 5 % or more of them cannot be read (fewer are left out).
    """
    paths = find_pictures(folder)
    if not paths:
        files = sum(path.is_file() for path in folder.iterdir())
        raise DataError(
            f"{folder} holds no pictures ({files:,} other files): expected {', '.join(SUFFIXES)}, also in sub-folders; "
            "for an .npz, .npy or IDX file give the path of the file itself"
        )
    broken: dict[Path, DataError] = {}
    if size is None:
        sizes = _each(picture_size, paths, broken)
        counts = Counter(sizes.values())
        # As common: the smaller one, and the order of the files decides nothing.
        height, width = max(counts, key=lambda hw: (counts[hw], -hw[0] * hw[1], hw))
    else:
        height, width = (size, size) if isinstance(size, int) else size
        if height < 1 or width < 1:
            raise DataError(f"size must be positive, got {size}")
    _check_memory(len(paths), height, width, folder)
    read = _each(lambda path: read_picture(path, (height, width)), paths, broken)
    pixels = _stack([picture.pixels for picture in read.values()])
    parts, classes, labels = _arrange([path.relative_to(folder).parts for path in read])
    members = {part: torch.tensor([i for i, p in enumerate(parts) if p == part]) for part in PARTS if part in parts}
    images, by_part = complete(
        {part: pixels[index] for part, index in members.items()},
        None if labels is None else {part: labels[index] for part, index in members.items()},
        seed=seed,
        origin=str(folder),
    )

    source = _describe(folder, list(read.values()), sorted(path.relative_to(folder) for path in broken), classes)
    return Images(folder.resolve().name, source, **images, labels=by_part)


def find_pictures(folder: Path) -> list[Path]:
    """Return all pictures in a folder and below it, sorted; nothing hidden; linked folders are followed, once."""
    found: list[Path] = []
    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        # Sorted, so that of two ways to one folder always the same is taken.
        folders[:] = [] if real in seen else sorted(name for name in folders if not name.startswith("."))
        if real not in seen:
            found += [Path(parent, n) for n in files if n.lower().endswith(SUFFIXES) and not n.startswith(".")]
        seen.add(real)
    return sorted(found)


def _each(f: Callable[[Path], T], paths: list[Path], broken: dict[Path, DataError]) -> dict[Path, T]:
    """Apply f to each path, several at a time; the paths on which it fails go to `broken`, unless they are many."""

    def tried(path: Path) -> T | DataError:
        try:
            return f(path)
        except DataError as error:
            return error

    good = [path for path in paths if path not in broken]
    results: dict[Path, T] = {}
    # Pillow lets other threads run while it decodes. It warns of much that we mend (transparent palettes) or report.
    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for path, result in zip(good, pool.map(tried, good), strict=True):
            if isinstance(result, DataError):
                broken[path] = result
            else:
                results[path] = result
    if broken and len(broken) >= _MOST_BROKEN * len(paths):
        first = broken[min(broken)]
        raise DataError(f"{len(broken):,} of {len(paths):,} pictures cannot be read; the first: {first}")
    return results


def _check_memory(count: int, height: int, width: int, folder: Path) -> None:
    """Refuse what cannot fit, before hours of reading."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return
    if (needed := count * height * width) > memory:
        raise DataError(
            f"{folder}: {count:,} pictures of {height}x{width} need at least {needed / 2**30:,.0f} GB of memory, this "
            f"machine has {memory / 2**30:,.0f}; choose a smaller size, such as size=64"
        )


def _stack(pictures: list[np.ndarray]) -> UInt8[Tensor, "N channels H W"]:
    """Put pictures `[H, W]` and `[H, W, 3]` into one tensor: one channel if all are grey, else three."""
    channels = 1 if all(pixels.ndim == 2 for pixels in pictures) else 3
    out = np.empty((len(pictures), channels, *pictures[0].shape[:2]), np.uint8)
    for row, pixels in zip(out, pictures, strict=True):
        row[:] = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(out)


def _arrange(names: list[tuple[str, ...]]) -> tuple[list[str], list[str], Int64[Tensor, "N"] | None]:
    """Read part and class of each picture from where it lies: parts, names of classes, labels `[N]` or None."""
    parts = [_SPLITS.get(name[0].lower(), "") if len(name) > 1 else "" for name in names]
    if all(parts) and "train" in parts:
        names = [name[1:] for name in names]
    else:
        parts = ["train"] * len(names)
    if not all(len(name) > 1 for name in names):
        return parts, [], None
    classes = sorted({name[0] for name in names})
    number = {name: i for i, name in enumerate(classes)}
    return parts, classes, torch.tensor([number[name[0]] for name in names])


def _describe(folder: Path, pictures: list[Picture], broken: list[Path], classes: list[str]) -> str:
    """Say in one line what was read and what was done to it."""
    height, width = pictures[0].pixels.shape[:2]
    colour = "grey" if all(picture.pixels.ndim == 2 for picture in pictures) else "RGB"
    modes = Counter(picture.mode for picture in pictures).most_common()
    notes = [
        f"{len(pictures):,} pictures in {folder}, as {height}x{width} {colour}",
        "modes " + ", ".join(f"{mode} {count:,}" for mode, count in modes),
    ]
    if resized := sum(picture.resized for picture in pictures):
        notes.append(f"{resized:,} of other sizes were cropped and resized")
    if flat := sum(int(picture.pixels.min() == picture.pixels.max()) for picture in pictures):
        notes.append(f"{flat:,} are of one flat colour")
    if broken:
        notes.append(f"{len(broken):,} could not be read and were left out: {_some(map(str, broken))}")
        _log.warning("%s: %s", folder, notes[-1])
    if classes:
        notes.append(f"{len(classes):,} classes: {_some(classes)}")
    return "; ".join(notes)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
