"""Pictures in the order that they are found in, each with a name: for what is made of every one of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.data.array import read_parts
from hardmax.data.catalogue import SETS
from hardmax.data.channels import to_channels
from hardmax.data.folder import find_pictures
from hardmax.data.images import PARTS
from hardmax.data.loading import load
from hardmax.data.picture import SUFFIXES
from hardmax.data.picture_files import Progress, read_pictures
from hardmax.errors import DataError


@dataclass(frozen=True, eq=False)
class Named:
    """Pictures with a name each.

    Attributes:
        pixels: `[N, channels, H, W]`.
        names: of files, within the folder that holds all of them; of others the part and the number, "train/0".
        notes: where they are from, and what was done to them.
    """

    pixels: UInt8[Tensor, "N channels H W"]
    names: list[str]
    notes: tuple[str, ...]


def load_in_order(
    data: Sequence[str],
    shape: tuple[int, int, int],
    *,
    data_dir: str | None = None,
    progress: Progress | None = None,
) -> Named:
    """Load all pictures, undivided, in a model's shape.

    Args:
        data: picture files; or one folder of them, one .npz, .npy or IDX file, or the name of one set.
        shape: channels, H and W that they are to have. Picture files of another size are cut around their centre and
            resized; grey becomes RGB, or RGB grey, where need be.
        data_dir: folder that holds the named sets.
        progress: for picture files, called now and then.

    Raises:
        DataError: nothing is named, there is no such file, it is broken, or an array has pictures of another size.
    """
    if not data:
        raise DataError("name pictures: files, a folder, an .npz, .npy or IDX file, or a data set")
    paths = [Path(name).expanduser() for name in data]
    pictures = len(paths) > 1 or paths[0].suffix.lower() in SUFFIXES or (paths[0].is_dir() and data[0] not in SETS)
    found = _files(paths, shape[1:], progress) if pictures else _arrays(data[0], data_dir)
    if tuple(found.pixels.shape[2:]) != shape[1:]:
        height, width = found.pixels.shape[2:]
        raise DataError(
            f"the pictures of {data[0]} are {height}x{width}, and those of the model {shape[1]}x{shape[2]}; give "
            "them as picture files, which are resized"
        )
    note = ["grey as RGB" if shape[0] == 3 else "made grey"] if found.pixels.shape[1] != shape[0] else []
    return Named(to_channels(found.pixels, shape[0]), found.names, (*found.notes, *note))


def _files(paths: Sequence[Path], size: tuple[int, int], progress: Progress | None) -> Named:
    """Read picture files, or all of one folder."""
    if len(paths) == 1 and paths[0].is_dir():
        folder, files = paths[0], find_pictures(paths[0])
        if not files:
            raise DataError(f"{folder} holds no pictures: expected {', '.join(SUFFIXES)}, also in sub-folders")
    else:
        for path in paths:
            if not path.is_file():
                raise DataError(
                    f"{path} is {'a folder' if path.is_dir() else 'not there'}; name picture files, or one folder"
                )
        files = [path.absolute() for path in paths]
        folder = Path(os.path.commonpath([path.parent for path in files]))
    read = read_pictures(files, folder, size, progress)
    return Named(read.pixels, [files[i].relative_to(folder).as_posix() for i in read.index.tolist()], read.notes)


def _arrays(data: str, data_dir: str | None) -> Named:
    """Read a file of arrays, or a set, one part after the other."""
    if data in SETS:
        images = load(data, data_dir=data_dir)
        parts, notes = {part: getattr(images, part) for part in PARTS}, [images.source]
    elif not (path := Path(data).expanduser()).is_file():
        raise DataError(f"there is no file or folder {data!r}; the sets are {', '.join(SETS)}")
    else:
        _, parts, notes = read_parts(path)
        notes = [str(path), *notes]
    names = [f"{part}/{i}" for part, pixels in parts.items() for i in range(len(pixels))]
    return Named(torch.cat(list(parts.values())), names, tuple(notes))
