"""Faces: CelebA, 202,599 faces of celebrities with 40 attributes, from the user's copy; and the set "faces"."""

import os
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
from hardmax.data.tables import read_text
from hardmax.errors import DataError

_BITS = {"-1": 0, "1": 1}
_PARTS = {"0": "train", "1": "validation", "2": "test"}


def read_attribute_list(path: Path) -> tuple[list[str], list[str], Int64[np.ndarray, "N A"]]:
    """Read `list_attr_celeba.txt`: the number of pictures, the names of the attributes, then a line per picture.

    Returns:
        The pictures' file names, the attributes' names, and the attributes as zeros and ones.

    Raises:
        DataError: the file is invalid; the message names the line.
    """
    lines = read_text(path).rstrip().splitlines()
    if not lines[0].strip().isdecimal() or len(lines) < 2:
        raise DataError(
            f"{path}, line 1: {lines[0][:40]!r}, expected the number of pictures, then a line with the names of the "
            "attributes, then lines such as '000001.jpg -1 1 ...'"
        )
    count, names = int(lines[0]), lines[1].split()
    pictures: dict[str, int] = {}
    values: list[list[int]] = []
    for number, line in enumerate(lines[2:], 3):
        picture, *bits = line.split() or [""]
        if len(bits) != len(names):
            raise DataError(f"{path}, line {number}: {len(bits)} values, but line 2 names {len(names)} attributes")
        if picture in pictures:
            raise DataError(f"{path}, line {number}: {picture} is here a second time; line {pictures[picture]} has it")
        pictures[picture] = number
        try:
            values.append([_BITS[value] for value in bits])
        except KeyError as error:
            raise DataError(f"{path}, line {number}: a value is {error.args[0]!r}, expected -1 or 1") from error
    if len(pictures) != count or not count:
        raise DataError(f"{path}: line 1 says {count:,} pictures, but {len(pictures):,} lines follow; get it again")
    return list(pictures), names, np.array(values)


def read_partition(path: Path, pictures: Sequence[str]) -> list[str]:
    """Read `list_eval_partition.txt`, lines such as `000001.jpg 0`: 0 to train, 1 to validate, 2 to test.

    Args:
        path: the file; it may list more pictures than requested.
        pictures: the requested file names.

    Returns:
        The part of each picture.

    Raises:
        DataError: a line is wrong, or a picture is missing.
    """
    parts: dict[str, str] = {}
    for number, line in enumerate(read_text(path).rstrip().splitlines(), 1):
        match line.split():
            case [picture, value] if value in _PARTS:
                parts[picture] = _PARTS[value]
            case _:
                raise DataError(
                    f"{path}, line {number}: {line[:40]!r}, expected a picture and 0, 1 or 2, such as '000001.jpg 0'"
                )
    if missing := next((picture for picture in pictures if picture not in parts), None):
        raise DataError(f"{path} does not have {missing}, which the list of attributes has; get it again, or remove it")
    return [parts[picture] for picture in pictures]


_SIZE = 64
_LIST, _PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
_PICTURES = "img_align_celeba"


def is_celeba(folder: Path) -> bool:
    """Return whether a folder contains CelebA's list of attributes, so that `find_celeba` can read it."""
    return _find_list(folder, "Anno", _LIST) is not None


def find_celeba_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of the set "celeba".

    Raises:
        DataError: the set is missing; the message lists the expected files and folders.
    """
    (attribute_list,) = obtain_files(SETS["celeba"], data_dir).values()
    return attribute_list.parent.parent if attribute_list.parent.name == "Anno" else attribute_list.parent


def find_celeba(folder: Path) -> Collection:
    """Find CelebA's pictures and their attributes, in the folder that holds `list_attr_celeba.txt`.

    The pictures are in `img_align_celeba`, or next to the list. `list_eval_partition.txt` gives the parts, if it
    exists. The publisher's sub-folders `Anno`, `Eval` and `Img` are searched as well.

    Raises:
        DataError: a list is invalid, or pictures are missing.

    References:
        Liu, Luo, Wang & Tang, "Deep learning face attributes in the wild", 2015.
    """
    listed, partition = _find_list(folder, "Anno", _LIST), _find_list(folder, "Eval", _PARTITION)
    if listed is None:
        raise DataError(f"{folder} has no {_LIST}")
    pictures, names, values = read_attribute_list(listed)
    names = check_names(names, f"{listed}, line 2")
    place = _find_pictures(folder, pictures)
    return Collection(
        "celeba",
        place,
        [place / picture for picture in pictures],
        read_partition(partition, pictures) if partition else ["train"] * len(pictures),
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


def _find_pictures(folder: Path, pictures: list[str]) -> Path:
    """Find the folder that contains all pictures."""
    places = (folder / _PICTURES, folder / "Img" / _PICTURES, folder / _PICTURES / _PICTURES, folder)
    here = {place: set(os.listdir(place)) for place in places if place.is_dir()}
    most = max(here, key=lambda place: len(here[place].intersection(pictures)))
    if missing := [picture for picture in pictures if picture not in here[most]]:
        zipped = next((path for path in (place / f"{_PICTURES}.zip" for place in places) if path.is_file()), None)
        todo = f"unpack {zipped}" if zipped else f"unpack {_PICTURES}.zip into {folder}"
        raise DataError(
            f"{len(missing):,} of the {len(pictures):,} pictures in {_LIST} are not in {most}, the first is "
            f"{missing[0]}; {todo}"
        )
    return most


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
        raise DataError(f"which of these are the faces: {', '.join(map(str, files.values()))}? {entry.bring}")
    (path,) = files.values()
    images = load_array(path, seed=seed)
    if images.attributes is None:
        raise DataError(f"{images.source}: there are no attributes; {entry.bring}")
    return replace(images, name=entry.name)
