"""Load images, by the name of a data set or by a path: in three splits, or all of them in order."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax._deprecation import load_renamed
from hardmax.data.arrays import convert_parts, load_array, read_arrays
from hardmax.data.celeba import find_celeba_folder, is_celeba, load_faces, scan_celeba
from hardmax.data.datasets import SETS, make_unknown_error
from hardmax.data.folder import find_images, scan_folder
from hardmax.data.image_files import Progress, read_images, to_channels
from hardmax.data.image_reading import SUFFIXES
from hardmax.data.images import PARTS, Images, describe_flatness
from hardmax.data.mnist import load_mnist, load_sample
from hardmax.data.omniglot import load_omniglot
from hardmax.errors import DataError
from hardmax.files import expand_path, report_read_error

__getattr__ = load_renamed(__name__, {"load": "load_images"})


def load_images(
    data: str | Path,
    *,
    data_dir: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Images:
    """Load images: a data set by name, or your own images by path.

    Args:
        data: "sample" (comes with hardmax), "mnist", "fashion-mnist", "omniglot", "faces" or "celeba"; or the path of a
            folder of images (or of one that holds CelebA), of an .npz, .npy or IDX file. A folder with the
            name of a set is "./mnist".
        data_dir: folder where a set is searched first, in `data_dir/<name>`; defaults to `$HARDMAX_DATA`. Next is the
            cache (`~/.cache/hardmax`), to which missing files are downloaded; "faces" and "celeba" are not downloaded.
        size: height and width, or one number for both, for image files: a folder or CelebA. The default is their
            median height and width, and 64 for CelebA. Images of other sizes are cropped around their centre and
            resized.
        limit: for image files, the maximum number to read, evenly spread over all of them.
        seed: seed of the split into train, validation and test, where the data has none: your own images, and "faces".
        progress: for image files, called repeatedly with a description, the number of images read and the total
            number.

    Returns:
        uint8 images `[N, channels, H, W]` in three parts, labels, attributes, and their origin.

    Raises:
        DataError: the set or path does not exist, a file is broken or of another kind, a download failed, or the
            images do not fit into memory.

    Example:
        >>> images = load_images("sample")
        >>> images.shape, len(images.train), images.train.dtype
        ((1, 28, 28), 4500, torch.uint8)
    """
    with report_read_error(data):
        images = _load(data, data_dir, size, limit, seed, progress)
    if (problem := describe_flatness(images)) is not None:
        return replace(images, source=f"{images.source}; WARNING: {problem}")
    return images


def _load(
    data: str | Path,
    data_dir: str | Path | None,
    size: int | tuple[int, int] | None,
    limit: int | None,
    seed: int,
    progress: Progress | None,
) -> Images:
    """Load images, as `load_images` does, without a look at their pixels."""
    if not str(data):
        raise DataError(f"data is empty: give a path, or one of the sets {', '.join(SETS)}")
    path = expand_path(data)
    is_set = isinstance(data, str) and data in SETS
    if is_set and data == "celeba":
        return scan_celeba(find_celeba_folder(data_dir)).read(size=size, limit=limit, seed=seed, progress=progress)
    if not is_set and path.is_dir():
        image_files = scan_celeba(path) if is_celeba(path) else scan_folder(path)
        return image_files.read(size=size, limit=limit, seed=seed, progress=progress)
    if not is_set and not path.exists():
        if isinstance(data, Path) or len(path.parts) > 1 or path.suffix:
            raise DataError(f"there is no file or folder {str(data)!r}; the sets are {', '.join(SETS)}")
        raise DataError(
            f"{make_unknown_error(data)}; or give the path of a folder of images, of an .npz, .npy or IDX file"
        )
    if size is not None or limit is not None:
        origin = f"the set {data!r}" if is_set else f"the file {path}"
        raise DataError(f"size and limit are for a folder of images or celeba, got {size=}, {limit=} with {origin}")
    if not is_set:
        return load_array(path, seed=seed)
    if data == "sample":
        return load_sample()
    if data == "faces":
        return load_faces(data_dir, seed=seed)
    return load_omniglot(data_dir) if data == "omniglot" else load_mnist(str(data), data_dir)


@dataclass(frozen=True, eq=False)
class NamedImages:
    """Images with their names.

    Attributes:
        pixels: `[N, channels, H, W]`.
        names: for files, the path relative to the folder that contains all of them; else part and number, "train/0".
        notes: the origin of the images, and how they were processed.
    """

    pixels: UInt8[Tensor, "N channels H W"]
    names: list[str]
    notes: tuple[str, ...]


def load_images_in_order(
    data: Sequence[str],
    shape: tuple[int, int, int],
    *,
    data_dir: str | None = None,
    progress: Progress | None = None,
) -> NamedImages:
    """Load all images, without splits, in the shape that a model expects.

    Args:
        data: image files; or one folder of them, one .npz, .npy or IDX file, or the name of one set.
        shape: channels, H and W of the result. Image files of another size are cropped around their centre and
            resized; grey becomes RGB, or RGB grey, where necessary.
        data_dir: folder that holds the named sets.
        progress: for image files, called repeatedly.

    Raises:
        DataError: `data` is empty, a file does not exist or is broken, or an array has images of another size.
    """
    if not data:
        raise DataError("name images: files, a folder, an .npz, .npy or IDX file, or a data set")
    paths = [expand_path(name) for name in data]
    with report_read_error(data[0]):
        in_files = len(paths) > 1 or paths[0].suffix.lower() in SUFFIXES or (paths[0].is_dir() and data[0] not in SETS)
        images = _load_files(paths, shape[1:], progress) if in_files else _load_arrays(data[0], data_dir)
    if tuple(images.pixels.shape[2:]) != shape[1:]:
        height, width = images.pixels.shape[2:]
        raise DataError(
            f"the images of {data[0]} are {height}x{width}, and those of the model {shape[1]}x{shape[2]}; give "
            "them as image files, which are resized"
        )
    note = ["grey as RGB" if shape[0] == 3 else "made grey"] if images.pixels.shape[1] != shape[0] else []
    return NamedImages(to_channels(images.pixels, shape[0]), images.names, (*images.notes, *note))


def _load_files(paths: Sequence[Path], size: tuple[int, int], progress: Progress | None) -> NamedImages:
    """Load image files, or all images of one folder."""
    if len(paths) == 1 and paths[0].is_dir():
        folder, files = paths[0], find_images(paths[0])
        if not files:
            raise DataError(f"{folder} holds no images: expected {', '.join(SUFFIXES)}, also in sub-folders")
    else:
        for path in paths:
            if not path.is_file():
                raise DataError(
                    f"{path} is {'a folder' if path.is_dir() else 'missing'}; name image files, or one folder"
                )
        files = [path.absolute() for path in paths]
        folder = Path(os.path.commonpath([path.parent for path in files]))
    images = read_images(files, folder, size, progress)
    names = [files[i].relative_to(folder).as_posix() for i in images.index.tolist()]
    return NamedImages(images.pixels, names, images.notes)


def _load_arrays(data: str, data_dir: str | None) -> NamedImages:
    """Load a file of arrays, or a set, one part after the other."""
    if data in SETS:
        images = load_images(data, data_dir=data_dir)
        parts, notes = {part: getattr(images, part) for part in PARTS}, [images.source]
    elif not (path := expand_path(data)).is_file():
        raise DataError(f"there is no file or folder {data!r}; the sets are {', '.join(SETS)}")
    else:
        parts, notes = convert_parts(path, read_arrays(path))
        notes = [str(path), *notes]
    names = [f"{part}/{i}" for part, pixels in parts.items() for i in range(len(pixels))]
    return NamedImages(torch.cat(list(parts.values())), names, tuple(notes))
