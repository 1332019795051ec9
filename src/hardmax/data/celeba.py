"""CelebA: 202,599 faces of celebrities with 40 attributes, as they are published, from the user's own copy."""

import os
from pathlib import Path

import torch

from hardmax.data.attributes import check_names
from hardmax.data.catalogue import SETS, obtain
from hardmax.data.celeba_lists import read_attribute_list, read_partition
from hardmax.data.collection import Collection
from hardmax.errors import DataError

_SIZE = 64
_LIST, _PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
_PICTURES = "img_align_celeba"


def is_celeba(folder: Path) -> bool:
    """Tell whether a folder is one that `find_celeba` can use: it holds CelebA's list of attributes."""
    return _list(folder, "Anno", _LIST) is not None


def celeba_folder(data_dir: str | Path | None = None) -> Path:
    """Return the folder of the set "celeba".

    Raises:
        DataError: it is not here; says what is expected where.
    """
    (found,) = obtain(SETS["celeba"], data_dir).values()
    return found.parent.parent if found.parent.name == "Anno" else found.parent


def find_celeba(folder: Path) -> Collection:
    """Find CelebA's pictures and their attributes, in the folder that holds `list_attr_celeba.txt`.

    The pictures are in `img_align_celeba`, or beside the list. `list_eval_partition.txt` gives the parts, if it is
    there. The publisher's own sub-folders `Anno`, `Eval` and `Img` are looked into as well.

    Raises:
        DataError: a list is wrong, or pictures are missing.

    References:
        Liu, Luo, Wang & Tang, "Deep learning face attributes in the wild", 2015.
    """
    listed, partition = _list(folder, "Anno", _LIST), _list(folder, "Eval", _PARTITION)
    if listed is None:
        raise DataError(f"{folder} has no {_LIST}")
    pictures, names, values = read_attribute_list(listed)
    names = check_names(names, f"{listed}, line 2")
    place = _place(folder, pictures)
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


def _list(folder: Path, published: str, name: str) -> Path | None:
    """Find a text file in the folder, or in the sub-folder that the publisher keeps it in."""
    return next((path for path in (folder / name, folder / published / name) if path.is_file()), None)


def _place(folder: Path, pictures: list[str]) -> Path:
    """Find the folder that the pictures lie in, all of them."""
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
