"""Data sets of faces: CelebA (202,599 faces with 40 attributes, from the user's copy) and "faces"."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64

from hardmax.data.arrays import load_array
from hardmax.data.attributes import check_names
from hardmax.data.datasets import SETS, obtain_files
from hardmax.data.folder import Collection
from hardmax.data.images import Images
from hardmax.data.memory import check_memory
from hardmax.data.tables import read_text
from hardmax.errors import DataError

_BITS = {"-1": 0, "1": 1}
_ATTRIBUTE_BYTES = 32  # that an attribute of an image takes, with all copies
_PARTS = {"0": "train", "1": "validation", "2": "test"}


def read_attribute_list(path: Path) -> tuple[list[str], list[str], Int64[np.ndarray, "N A"]]:
    """Read `list_attr_celeba.txt`: the number of images, the names of the attributes, then a line per image.

    Returns:
        The images' file names, the attributes' names, and the attributes as zeros and ones.

    Raises:
        DataError: the file is invalid; the message names the line.
    """
    lines = read_text(path).rstrip().splitlines()
    if not re.fullmatch("[0-9]{1,9}", lines[0].strip()) or len(lines) < 2:
        raise DataError(
            f"{path}, line 1: {lines[0][:40]!r}, expected the number of images, then a line with the names of the "
            "attributes, then lines such as '000001.jpg -1 1 ...'"
        )
    count, names = int(lines[0]), lines[1].split()
    if not names:
        raise DataError(f"{path}, line 2: it is empty, expected the names of the attributes")
    check_memory(_ATTRIBUTE_BYTES * count * len(names), path.stat().st_size, str(path))
    images: dict[str, int] = {}
    values: list[list[int]] = []
    for number, line in enumerate(lines[2:], 3):
        image, *bits = line.split() or [""]
        if len(bits) != len(names):
            raise DataError(f"{path}, line {number}: {len(bits)} values, but line 2 names {len(names)} attributes")
        if image in images:
            raise DataError(f"{path}, line {number}: {image} is here a second time; line {images[image]} has it")
        images[image] = number
        try:
            values.append([_BITS[value] for value in bits])
        except KeyError as error:
            raise DataError(f"{path}, line {number}: a value is {error.args[0]!r}, expected -1 or 1") from error
    if len(images) != count or not count:
        raise DataError(f"{path}: line 1 says {count:,} images, but {len(images):,} lines follow; get it again")
    return list(images), names, np.array(values)


def read_partition(path: Path, images: Sequence[str]) -> list[str]:
    """Read `list_eval_partition.txt`, lines such as `000001.jpg 0`: 0 to train, 1 to validate, 2 to test.

    Args:
        path: the file; it may list further images.
        images: the file names to look up.

    Returns:
        The part of each image.

    Raises:
        DataError: a line is invalid, or an image is missing.
    """
    parts: dict[str, str] = {}
    for number, line in enumerate(read_text(path).rstrip().splitlines(), 1):
        match line.split():
            case [image, value] if value in _PARTS:
                parts[image] = _PARTS[value]
            case _:
                raise DataError(
                    f"{path}, line {number}: {line[:40]!r}, expected an image and 0, 1 or 2, such as '000001.jpg 0'"
                )
    if missing := next((image for image in images if image not in parts), None):
        raise DataError(f"{path} does not have {missing}, which the list of attributes has; get it again, or remove it")
    return [parts[image] for image in images]


_SIZE = 64
_LIST, _PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
_IMAGES = "img_align_celeba"


def is_celeba(folder: Path) -> bool:
    """Return whether a folder contains CelebA, that is, its list of attributes."""
    return _find_list(folder, "Anno", _LIST) is not None


def find_celeba_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of the set "celeba".

    Raises:
        DataError: the set is missing; the message lists the expected files and folders.
    """
    (attribute_list,) = obtain_files(SETS["celeba"], data_dir).values()
    return attribute_list.parent.parent if attribute_list.parent.name == "Anno" else attribute_list.parent


def scan_celeba(folder: Path) -> Collection:
    """Find the images of CelebA and their attributes in the folder that contains `list_attr_celeba.txt`.

    The images are in `img_align_celeba`, or next to the list. `list_eval_partition.txt` gives the parts, if it
    exists. The publisher's sub-folders `Anno`, `Eval` and `Img` are searched as well.

    Raises:
        DataError: a list is invalid, or images are missing.

    References:
        Liu, Luo, Wang & Tang, "Deep learning face attributes in the wild", 2015.
    """
    attribute_list, partition = _find_list(folder, "Anno", _LIST), _find_list(folder, "Eval", _PARTITION)
    if attribute_list is None:
        raise DataError(f"{folder} has no {_LIST}")
    images, names, values = read_attribute_list(attribute_list)
    names = check_names(names, f"{attribute_list}, line 2")
    image_folder = _find_images(folder, images)
    return Collection(
        "celeba",
        image_folder,
        [image_folder / image for image in images],
        read_partition(partition, images) if partition else ["train"] * len(images),
        attributes=torch.from_numpy(values),
        attribute_names=names,
        notes=[
            f"{len(names)} attributes from {_LIST}",
            f"parts from {_PARTITION}" if partition else f"no {_PARTITION}: parts by the seed",
        ],
        size=_SIZE,
    )


def _find_list(folder: Path, published: str, name: str) -> Path | None:
    """Find a text file in the folder, or in the sub-folder where the publisher keeps it."""
    return next((path for path in (folder / name, folder / published / name) if path.is_file()), None)


def _find_images(folder: Path, images: list[str]) -> Path:
    """Find the folder that contains all images."""
    places = (folder / _IMAGES, folder / "Img" / _IMAGES, folder / _IMAGES / _IMAGES, folder)
    names = {place: set(os.listdir(place)) for place in places if place.is_dir()}
    best = max(names, key=lambda place: len(names[place].intersection(images)))
    if missing := [image for image in images if image not in names[best]]:
        zipped = next((path for path in (place / f"{_IMAGES}.zip" for place in places) if path.is_file()), None)
        todo = f"unpack {zipped}" if zipped else f"unpack {_IMAGES}.zip into {folder}"
        raise DataError(
            f"{len(missing):,} of the {len(images):,} images in {_LIST} are not in {best}, the first is "
            f"{missing[0]}; {todo}"
        )
    return best


def load_faces(data_dir: str | Path | None = None, *, seed: int = 0) -> Images:
    """Load the set "faces": 80 % to train, 10 % to validate, 10 % to test, stratified by their attributes.

    Args:
        data_dir: where to look first.
        seed: seed of the split.

    Raises:
        DataError: the file is missing or broken, or has no attributes.
    """
    entry = SETS["faces"]
    files = obtain_files(entry, data_dir)
    if len(files) > 1:
        raise DataError(f"which of these are the faces: {', '.join(map(str, files.values()))}? {entry.instructions}")
    (path,) = files.values()
    images = load_array(path, seed=seed)
    if images.attributes is None:
        raise DataError(f"{images.source}: there are no attributes; {entry.instructions}")
    return replace(images, name=entry.name)
