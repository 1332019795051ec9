"""Pictures in files, with what is known about them, made into images in three parts."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.images import PARTS, Images
from hardmax.data.picture_files import Progress, read_pictures
from hardmax.data.split import complete
from hardmax.errors import DataError


@dataclass(frozen=True, eq=False)
class Collection:
    """Picture files and what is known about them, before any of them is read.

    Attributes:
        name: what the images are to be called.
        folder: the pictures lie in it or below.
        paths: of the N pictures.
        parts: "train", "validation" or "test" for each picture; parts that do not occur are made from train.
        labels: `[N]`, -1 where not known, or None if there are none.
        attributes: `[N, A]`, -1 where not known, or None if there are none.
        attribute_names: of the A attributes.
        notes: where all that came from.
        class_names: of the classes, in the order of their numbers; empty if they have none.
        size: what the pictures are read as if no size is asked for; None is the size that most of them have.
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
        """Read the pictures.

        Args:
            size: height and width, or one number for both; None takes the collection's own.
            limit: how many to read at most, evenly spread over all of them: parts and classes keep their proportions.
            seed: of the split into the parts that are missing.
            progress: called now and then.

        Raises:
            DataError: 5 % or more of the pictures cannot be read, they are too few, or do not fit into memory.
        """
        count = len(self.paths)
        if limit is not None and limit < 1:
            raise DataError(f"limit must be positive, got {limit}")
        read = count if limit is None else min(limit, count)
        chosen = [i * count // read for i in range(read)]
        size = self.size if size is None else size
        gallery = read_pictures([self.paths[i] for i in chosen], self.folder, size, progress)
        files = torch.tensor(chosen)[gallery.index]  # of each picture that could be read
        columns = {"images": gallery.pixels}
        columns |= {} if self.labels is None else {"labels": self.labels[files]}
        columns |= {} if self.attributes is None else {"attributes": self.attributes[files]}
        parts = [self.parts[i] for i in files.tolist()]
        members = {part: torch.tensor([i for i, p in enumerate(parts) if p == part]) for part in PARTS if part in parts}
        by_part = complete(
            {name: {part: values[index] for part, index in members.items()} for name, values in columns.items()},
            seed=seed,
            origin=str(self.folder),
        )
        limited = [f"{read:,} of {count:,}, evenly spread"] if read < count else []
        return Images(
            self.name,
            "; ".join([*gallery.notes, *limited, *self.notes]),
            **by_part["images"],
            labels=by_part.get("labels"),
            attributes=by_part.get("attributes"),
            attribute_names=self.attribute_names,
            class_names=self.class_names,
        )
