"""The table of structures: their numbers, names, colours and tissues. No torch here."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int64, Integer, Shaped

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError, DataError
from hardmax.json_files import parse_json

Tissue = Literal[
    "background", "white", "grey", "fluid", "thalamus", "caudate", "putamen", "pallidum", "brain stem", "other"
]


@dataclass(frozen=True)
class Label:
    """A structure of the brain, or the background.

    Args:
        number: value of its voxels in files.
        name: name, with underscores.
        colour: red, green and blue, 0 to 255.
        tissues: tissues of the structure. Structures of one tissue look similar in a scan and share a Gaussian; a
            structure of several tissues has a mixture of their Gaussians.
        judged: whether the structure counts when two segmentations are compared.
    """

    number: int
    name: str
    colour: tuple[int, int, int]
    tissues: tuple[Tissue, ...]
    judged: bool = True


@dataclass(frozen=True)
class LabelTable:
    """Labels in order: in memory, a label is its index 0..M-1, and 0 is the background.

    Args:
        labels: all labels, the background first.
        other: index of the label for numbers that are unknown.

    Raises:
        ArgumentError: a repeated number or name, no background, an unknown tissue, or an index `other` out of range.

    Example:
        >>> from hardmax.applications.segmentation.volumes.labels import STRUCTURES
        >>> len(STRUCTURES), STRUCTURES.names[13], STRUCTURES.judged_indices[:3]
        (19, 'hippocampus', [1, 2, 3])
    """

    labels: tuple[Label, ...]
    other: int = 0

    def __post_init__(self) -> None:
        for field in ("number", "name"):
            values = [getattr(label, field) for label in self.labels]
            if repeated := sorted({value for value in values if values.count(value) > 1}):
                raise ArgumentError(f"the {field} of a label must be unique, got {repeated[0]!r} more than once")
        if not self.labels or self.labels[0].tissues != ("background",) or self.labels[0].number != 0:
            raise ArgumentError(
                "the first label must be the background, with the number 0 and only the tissue 'background'"
            )
        if not 0 <= self.other < len(self.labels):
            raise ArgumentError(f"other is the index of a label, 0 to {len(self.labels) - 1}, got {self.other}")
        for label in self.labels:
            if not label.tissues or not set(label.tissues) <= set(get_args(Tissue)):
                raise ArgumentError(
                    f"the tissues of {label.name} are {label.tissues!r}, expected some of {', '.join(get_args(Tissue))}"
                )

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def names(self) -> list[str]:
        """Name of each label."""
        return [label.name for label in self.labels]

    @cached_property
    def numbers(self) -> Int64[np.ndarray, "M"]:
        """Number of each label in files."""
        return np.array([label.number for label in self.labels], dtype=np.int64)

    @cached_property
    def judged_indices(self) -> list[int]:
        """Indices of the labels that count in comparisons."""
        return [index for index, label in enumerate(self.labels) if label.judged]

    judged = RenamedMember("judged_indices")

    def index(self, name: str) -> int:
        """Return the index of a label by its name.

        Raises:
            ArgumentError: the name is unknown.
        """
        if name not in self.names:
            raise ArgumentError(f"no label is called {name!r}; there are: {', '.join(self.names)}")
        return self.names.index(name)

    def to_indices(self, numbers: Shaped[np.ndarray, "..."]) -> tuple[Integer[np.ndarray, "..."], list[str]]:
        """Return the indices (uint8 where they fit) of a map of numbers, and notes on how they were read.

        If all numbers are in this table, they are read as such. Otherwise they are read as numbers of FreeSurfer and
        SynthSeg (aseg, aparc, wmparc), where left and right have different numbers, which are merged. A number that is
        unknown there becomes `other`.

        Args:
            numbers: integers of any shape.

        Raises:
            DataError: no number except 0 is known.

        Example:
            >>> import numpy as np
            >>> from hardmax.applications.segmentation.volumes.labels import STRUCTURES
            >>> indices, notes = STRUCTURES.to_indices(np.array([0, 2, 41, 17, 53]))
            >>> indices.tolist(), notes
            ([0, 1, 1, 13, 13], ['read as numbers of FreeSurfer: left and right are merged'])
        """
        values = _list_values(numbers)
        index_of = {int(number): index for index, number in enumerate(self.numbers)}
        notes, known = [], index_of
        if any(int(number) not in index_of for number in values):
            known = {number: self.names.index(name) for number, name in _FREESURFER.items() if name in self.names}
            notes.append("read as numbers of FreeSurfer: left and right are merged")
        unknown = [int(number) for number in values if int(number) not in known]
        if unknown and all(int(number) in unknown for number in values if number):
            raise DataError(
                f"no label is known: the numbers are {_list_numbers(unknown)}, expected those of the table, "
                f"{_list_numbers(sorted(index_of))}, or of FreeSurfer's aseg"
            )
        if unknown:
            notes.append(f"unknown numbers {_list_numbers(unknown)} are read as {self.names[self.other]}")
        indices = np.array([known.get(int(number), self.other) for number in values])
        indices = indices.astype(np.uint8 if len(self) <= 256 else np.int32)
        out = np.empty(numbers.shape, dtype=indices.dtype)
        # In slabs: the places among the values take eight bytes for each voxel.
        for part, target in zip(split_into_slabs(numbers), split_into_slabs(out), strict=True):
            target[...] = indices[np.searchsorted(values, part)]
        return out, notes

    def to_numbers(self, indices: Integer[np.ndarray, "..."]) -> Integer[np.ndarray, "..."]:
        """Return the numbers, as in files, of a map of indices: uint8, int16 or int32."""
        top = int(self.numbers.max())
        kind = np.uint8 if top < 2**8 else np.int16 if top < 2**15 else np.int32
        return self.numbers.astype(kind)[indices]

    def to_json(self) -> str:
        """Return the table as JSON; `from_json` reads it."""
        return json.dumps({"other": self.other, "labels": [asdict(label) for label in self.labels]})

    @classmethod
    def from_json(cls, text: str) -> "LabelTable":
        """Return the table that `to_json` wrote.

        Raises:
            DataError: the text is not such a table.
        """
        try:
            content = parse_json(text, "the table")
            labels = [
                Label(**{**label, "colour": tuple(label["colour"]), "tissues": tuple(label["tissues"])})
                for label in content["labels"]
            ]
            for label in labels:
                _check_types(label)
            if type(content["other"]) is not int:
                raise TypeError(f"other is {content['other']!r:.80}, expected an index")
            return cls(tuple(labels), content["other"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"this is not a table of labels: {error}; make the model again") from error

    def to_colour_table(self) -> str:
        """Return the table in the form of FreeSurfer's colour tables, which viewers of label maps read."""
        lines = [
            f"{label.number:>5} {label.name:<28} {' '.join(f'{part:>3}' for part in label.colour)} 0"
            for label in self.labels
        ]
        return "\n".join(["# number, name, red, green, blue, transparency", *lines, ""])


_SLAB = 2**20  # voxels


def _list_values(numbers: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "V"]:
    """Return the different numbers of a map, ascending."""
    parts = [np.unique(part) for part in split_into_slabs(numbers)]
    return np.unique(np.concatenate(parts)) if parts else np.unique(numbers)


def split_into_slabs(values: Shaped[np.ndarray, "..."]) -> list[np.ndarray]:
    """Return views of an array, parts along its first axis with about a million values each."""
    if values.ndim == 0 or not values.size:
        return [values]
    thick = max(1, _SLAB * len(values) // values.size)
    return [values[start : start + thick] for start in range(0, len(values), thick)]


def _check_types(label: Label) -> None:
    """Check the types and ranges of a label from a file; raises TypeError or ValueError."""
    if not isinstance(label.name, str) or type(label.number) is not int or not isinstance(label.judged, bool):
        raise TypeError(f"a label has the name {label.name!r:.80} and the number {label.number!r:.80}")
    if len(label.colour) != 3 or not all(type(part) is int and 0 <= part <= 255 for part in label.colour):
        raise ValueError(f"the colour of {label.name:.80} is {label.colour!r:.80}, expected three integers up to 255")
    if not 0 <= label.number < 2**31:
        raise ValueError(f"the number of {label.name:.80} is {label.number!r:.20}, expected 0 to 2,147,483,647")


def _list_numbers(numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers[:20]))
    return text if len(numbers) <= 20 else f"{text} and {len(numbers) - 20} more"


# The colours are those of FreeSurfer, which readers are used to.
STRUCTURES = LabelTable(
    (
        Label(0, "background", (0, 0, 0), ("background",), judged=False),
        Label(1, "cerebral_white_matter", (245, 245, 245), ("white",)),
        Label(2, "cerebral_cortex", (205, 62, 78), ("grey",)),
        Label(3, "lateral_ventricle", (120, 18, 134), ("fluid",)),
        Label(4, "cerebellum_white_matter", (220, 248, 164), ("white",)),
        Label(5, "cerebellum_cortex", (230, 148, 34), ("grey",)),
        Label(6, "thalamus", (0, 118, 14), ("thalamus",)),
        Label(7, "caudate", (122, 186, 220), ("caudate",)),
        Label(8, "putamen", (236, 13, 176), ("putamen",)),
        Label(9, "pallidum", (12, 48, 255), ("pallidum",)),
        Label(10, "third_ventricle", (204, 182, 142), ("fluid",)),
        Label(11, "fourth_ventricle", (42, 204, 164), ("fluid",)),
        Label(12, "brain_stem", (119, 159, 176), ("brain stem",)),
        Label(13, "hippocampus", (220, 216, 20), ("grey",)),
        Label(14, "amygdala", (103, 255, 255), ("grey",)),
        Label(15, "accumbens", (255, 165, 0), ("caudate",)),
        Label(16, "ventral_DC", (165, 42, 42), ("white", "grey", "brain stem")),
        Label(17, "csf", (60, 60, 60), ("fluid",), judged=False),
        Label(18, "other", (255, 200, 220), ("other",), judged=False),
    ),
    other=18,
)

# Numbers of FreeSurfer's and SynthSeg's label maps by the name of the structure here.
_BY_NAME: dict[str, Sequence[int]] = {
    "background": [0, 165, 257, 258, 259, *range(502, 531)],  # including tissue outside of the brain: skull, skin
    "cerebral_white_matter": [2, 25, 41, 57, 77, 78, 79, *range(250, 256), *range(3000, 3036), *range(4000, 4036),
                              *range(13100, 13176), *range(14100, 14176), 5001, 5002],
    "cerebral_cortex": [3, 42, *range(1000, 1036), *range(2000, 2036), *range(11100, 11176), *range(12100, 12176)],
    "lateral_ventricle": [4, 5, 31, 43, 44, 63, 72],
    "cerebellum_white_matter": [7, 46],
    "cerebellum_cortex": [8, 47, 172],
    "thalamus": [9, 10, 48, 49],
    "caudate": [11, 50],
    "putamen": [12, 51],
    "pallidum": [13, 52],
    "third_ventricle": [14],
    "fourth_ventricle": [15],
    "brain_stem": [16, 170, 173, 174, 175],
    "hippocampus": [17, 53],
    "amygdala": [18, 54],
    "accumbens": [26, 58],
    "ventral_DC": [28, 60],
    "csf": [24],
    "other": [1, 6, 29, 30, 40, 45, 59, 61, 62, 80, 81, 82, 85, 136, 137, 163, 164],
}  # fmt: skip
_FREESURFER = dict(chain.from_iterable(((number, name) for number in numbers) for name, numbers in _BY_NAME.items()))
