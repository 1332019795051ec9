"""A folder of the user's own pictures: which there are, their parts, classes and attributes."""

import os
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.attributes import check_names
from hardmax.data.collection import Collection
from hardmax.data.picture import SUFFIXES
from hardmax.data.picture_files import some
from hardmax.data.table import read_attributes, read_labels
from hardmax.errors import DataError

_SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation", "test": "test"}


def find_folder(folder: Path) -> Collection:
    """Find all pictures in a folder and below it, and what is known about them.

    Sub-folders named train, validation (or val) and test are the parts. If all pictures lie in sub-folders (below
    those), these are the classes, numbered in the order of their names. Hidden files are left out. A file `labels.csv`
    in the folder gives the classes instead, and `attributes.csv` gives attributes (see `hardmax.data.table`).

    Raises:
        DataError: there are no pictures, or a table is wrong.
    """
    paths = find_pictures(folder)
    if not paths:
        files = sum(path.is_file() for path in folder.iterdir())
        raise DataError(
            f"{folder} holds no pictures ({files:,} other files): expected {', '.join(SUFFIXES)}, also in sub-folders; "
            "for an .npz, .npy or IDX file give the path of the file itself"
        )
    inside = [path.relative_to(folder) for path in paths]
    pictures = [path.as_posix() for path in inside]
    parts, classes, labels = _arrange([path.parts for path in inside])
    attributes, names, notes = None, (), []
    if (table := folder / "labels.csv").is_file():
        classes, found = read_labels(table, pictures)
        labels = torch.from_numpy(found)
        notes.append(f"labels.csv has {int((labels >= 0).sum()):,} pictures")
    if classes:
        notes.append(f"{len(classes):,} classes: {some(classes)}")
    if (table := folder / "attributes.csv").is_file():
        header, found = read_attributes(table, pictures)
        names = check_names(header, f"{table}, line 1")
        attributes = torch.from_numpy(found)
        notes.append(f"attributes.csv has {int((attributes >= 0).any(1).sum()):,} pictures: {some(names)}")
    return Collection(folder.resolve().name, folder, paths, parts, labels, attributes, names, notes, tuple(classes))


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
