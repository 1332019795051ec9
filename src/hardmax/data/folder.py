"""Folders of image files, with their splits, classes and attributes."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.attributes import check_names
from hardmax.data.image_files import Progress, list_first, read_images
from hardmax.data.image_reading import SUFFIXES
from hardmax.data.images import PARTS, Images, complete_splits
from hardmax.data.tables import read_attributes, read_labels
from hardmax.errors import DataError


@dataclass(frozen=True, eq=False)
class Collection:
    """Image files with their splits, labels and attributes, before any of them is read.

    Attributes:
        name: name of the images.
        folder: the folder that contains the images, directly or in sub-folders.
        paths: the N image files.
        parts: "train", "validation" or "test" for each image; missing parts are split off from "train".
        labels: `[N]`, -1 for unknown, or None if there are none.
        attributes: `[N, A]`, -1 for unknown, or None if there are none.
        attribute_names: names of the A attributes.
        notes: the origin of the parts, labels and attributes.
        class_names: names of the classes, in the order of their numbers; empty if they have no names.
        size: the default size of the images; None is their median height and width.
    """

    name: str
    folder: Path
    paths: list[Path]
    parts: list[str]
    labels: Int64[Tensor, "N"] | None = None
    attributes: Int64[Tensor, "N A"] | None = None
    attribute_names: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    class_names: tuple[str, ...] = ()
    size: int | None = None

    def read(
        self,
        *,
        size: int | tuple[int, int] | None = None,
        limit: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Images:
        """Read the images.

        Args:
            size: height and width, or one number for both; None is the collection's default.
            limit: maximum number of images, evenly spread over all of them: parts and classes keep their proportions.
            seed: seed of the split, for the parts that are missing.
            progress: called repeatedly.

        Raises:
            DataError: 5 % or more of the images cannot be read, there are too few, or they do not fit into memory.
        """
        count = len(self.paths)
        if limit is not None and limit < 1:
            raise DataError(f"limit must be positive, got {limit}")
        read_count = count if limit is None else min(limit, count)
        chosen = [i * count // read_count for i in range(read_count)]
        size = self.size if size is None else size
        decoded = read_images([self.paths[i] for i in chosen], self.folder, size, progress)
        files = torch.tensor(chosen)[decoded.index]  # index of each image that could be read
        columns = {"images": decoded.pixels}
        columns |= {} if self.labels is None else {"labels": self.labels[files]}
        columns |= {} if self.attributes is None else {"attributes": self.attributes[files]}
        parts = [self.parts[i] for i in files.tolist()]
        members = {part: torch.tensor([i for i, p in enumerate(parts) if p == part]) for part in PARTS if part in parts}
        by_part = complete_splits(
            {name: {part: values[index] for part, index in members.items()} for name, values in columns.items()},
            seed=seed,
            origin=str(self.folder),
        )
        limited = [f"{read_count:,} of {count:,}, evenly spread"] if read_count < count else []
        return Images(
            self.name,
            "; ".join([*decoded.notes, *limited, *self.notes]),
            **by_part["images"],
            labels=by_part.get("labels"),
            attributes=by_part.get("attributes"),
            attribute_names=self.attribute_names,
            class_names=self.class_names,
        )


_SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation", "test": "test"}


def scan_folder(folder: Path) -> Collection:
    """Find all images in a folder and its sub-folders, with their splits, labels and attributes.

    Sub-folders named train, validation (or val) and test are the parts. If all images are in sub-folders (of the parts,
    if there are parts), these are the classes, numbered in the order of their names. Hidden files are ignored. A
    file `labels.csv` in the folder gives the classes instead, and `attributes.csv` gives attributes (see
    `hardmax.data.tables`).

    Raises:
        DataError: there are no images, or a table is invalid.
    """
    paths = find_images(folder)
    if not paths:
        files = sum(path.is_file() for path in folder.iterdir())
        raise DataError(
            f"{folder} holds no images ({files:,} other files): expected {', '.join(SUFFIXES)}, also in sub-folders; "
            "for an .npz, .npy or IDX file give the path of the file itself"
        )
    relative = [path.relative_to(folder) for path in paths]
    images = [path.as_posix() for path in relative]
    parts, classes, labels = _parse_paths([path.parts for path in relative])
    attributes, names, notes = None, (), []
    if (table := folder / "labels.csv").is_file():
        classes, numbers = read_labels(table, images)
        labels = torch.from_numpy(numbers)
        notes.append(f"labels.csv has {int((labels >= 0).sum()):,} images")
    if classes:
        notes.append(f"{len(classes):,} classes: {list_first(classes)}")
    if (table := folder / "attributes.csv").is_file():
        header, bits = read_attributes(table, images)
        names = check_names(header, f"{table}, line 1")
        attributes = torch.from_numpy(bits)
        notes.append(f"attributes.csv has {int((attributes >= 0).any(1).sum()):,} images: {list_first(names)}")
    return Collection(folder.resolve().name, folder, paths, parts, labels, attributes, names, notes, tuple(classes))


def find_images(folder: Path) -> list[Path]:
    """Return all image files in a folder and its sub-folders, sorted; skip hidden files, and follow each link once."""
    paths: list[Path] = []
    visited: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        # Sorted, so that a folder with two paths is always reached by the same one.
        folders[:] = [] if real in visited else sorted(name for name in folders if not name.startswith("."))
        if real not in visited:
            paths += [Path(parent, n) for n in files if n.lower().endswith(SUFFIXES) and not n.startswith(".")]
        visited.add(real)
    return sorted(paths)


def _parse_paths(names: list[tuple[str, ...]]) -> tuple[list[str], list[str], Int64[Tensor, "N"] | None]:
    """Return parts, class names and labels `[N]` (or None) of images, given the components of their paths."""
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
