"""Left and right: FreeSurfer's table, where structures of both sides have two labels, and maps between the tables.

The model does not distinguish the sides, since mirrored structures look the same. A voxel's side is that of its place
in the atlas, whose middle is between left and right. No torch here.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32, Integer, Shaped, UInt8

from hardmax.applications.segmentation.volumes.labels import STRUCTURES, Label, LabelTable, split_into_slabs
from hardmax.errors import DataError

# For each structure: its name in FreeSurfer without the side, its number on the left, and on the right; structures in
# the middle have one number.
_FREESURFER_NUMBERS: dict[str, tuple[str, int, int | None]] = {
    "background": ("Unknown", 0, None),
    "cerebral_white_matter": ("Cerebral-White-Matter", 2, 41),
    "cerebral_cortex": ("Cerebral-Cortex", 3, 42),
    "lateral_ventricle": ("Lateral-Ventricle", 4, 43),
    "cerebellum_white_matter": ("Cerebellum-White-Matter", 7, 46),
    "cerebellum_cortex": ("Cerebellum-Cortex", 8, 47),
    "thalamus": ("Thalamus", 10, 49),
    "caudate": ("Caudate", 11, 50),
    "putamen": ("Putamen", 12, 51),
    "pallidum": ("Pallidum", 13, 52),
    "third_ventricle": ("3rd-Ventricle", 14, None),
    "fourth_ventricle": ("4th-Ventricle", 15, None),
    "brain_stem": ("Brain-Stem", 16, None),
    "hippocampus": ("Hippocampus", 17, 53),
    "amygdala": ("Amygdala", 18, 54),
    "csf": ("CSF", 24, None),
    "accumbens": ("Accumbens-area", 26, 58),
    "ventral_DC": ("VentralDC", 28, 60),
    "other": ("undetermined", 29, 61),
}
_COLOURS = {29: (135, 206, 235), 61: (135, 206, 235), 52: (13, 48, 255)}  # where they differ from those of STRUCTURES


def _make_sided_table() -> tuple[LabelTable, list[tuple[int, int]]]:
    """Return FreeSurfer's table, and for each structure the indices of its left and right label in it."""
    labels = []
    for label in STRUCTURES.labels:
        name, *numbers = _FREESURFER_NUMBERS[label.name]
        for number, side in zip(numbers, ("Left", "Right"), strict=True):
            if number is not None:
                full = name if numbers[1] is None else f"{side}-{name}"
                labels.append(Label(number, full, _COLOURS.get(number, label.colour), label.tissues, label.judged))
    labels.sort(key=lambda label: label.number)
    order = [label.number for label in labels]
    sides = []
    for label in STRUCTURES.labels:
        _, left, right = _FREESURFER_NUMBERS[label.name]
        sides.append((order.index(left), order.index(left if right is None else right)))
    return LabelTable(tuple(labels), other=order.index(29)), sides


FREESURFER, _SIDES = _make_sided_table()
# [19, 2]: the left and the right label of each structure; and the structure of each label.
_TO_SIDES = np.array(_SIDES, dtype=np.uint8)
_TO_STRUCTURE = np.zeros(len(FREESURFER), dtype=np.uint8)
_TO_STRUCTURE[_TO_SIDES] = np.arange(len(STRUCTURES))[:, None]
# Pairs of indices in FREESURFER: left and right of each structure that both sides have, and counts in comparisons.
PAIRS = [(left, right) for left, right in _SIDES if left != right and FREESURFER.labels[left].judged]


def split_sides(labels: UInt8[np.ndarray, "X Y Z"], right: Bool[np.ndarray, "X Y Z"]) -> UInt8[np.ndarray, "X Y Z"]:
    """Return labels in the table FREESURFER of labels in STRUCTURES.

    Args:
        labels: `[X, Y, Z]`, indices in STRUCTURES.
        right: `[X, Y, Z]`, whether a voxel is on the right side of the person.

    Example:
        >>> hippocampus = np.full((1, 1, 2), STRUCTURES.index("hippocampus"), np.uint8)
        >>> FREESURFER.to_numbers(split_sides(hippocampus, np.array([[[False, True]]]))).tolist()
        [[[17, 53]]]
    """
    return np.where(right, _TO_SIDES[labels, 1], _TO_SIDES[labels, 0])


def split_posterior(
    posterior: Float32[np.ndarray, "M X Y Z"], right: Bool[np.ndarray, "X Y Z"]
) -> Float32[np.ndarray, "L X Y Z"]:
    """Return the probabilities of the labels of FREESURFER: those of the voxel's own side, and zero for the other."""
    out = np.zeros((len(FREESURFER), *posterior.shape[1:]), dtype=np.float32)
    for structure, (left_index, right_index) in enumerate(_SIDES):
        if left_index == right_index:
            out[left_index] = posterior[structure]
        else:
            np.copyto(out[left_index], posterior[structure], where=~right)
            np.copyto(out[right_index], posterior[structure], where=right)
    return out


def merge_sides(labels: Integer[np.ndarray, "X Y Z"]) -> UInt8[np.ndarray, "X Y Z"]:
    """Return labels in STRUCTURES of labels in the table FREESURFER."""
    return _TO_STRUCTURE[labels]


def read_sides(numbers: Shaped[np.ndarray, "..."]) -> tuple[Integer[np.ndarray, "..."], list[str]]:
    """Return the indices in FREESURFER of a map of FreeSurfer's or SynthSeg's numbers, and notes on how it was read.

    Parcels of the cortex and other parts are read as the structure that they belong to.

    Args:
        numbers: integers of any shape.

    Raises:
        DataError: the map does not distinguish left and right, or no number except 0 is known.

    Example:
        >>> FREESURFER.to_numbers(read_sides(np.array([2, 41, 1022, 2022, 16]))[0]).tolist()
        [2, 41, 3, 42, 16]
    """
    merged, notes = STRUCTURES.to_indices(numbers)
    right = np.empty(numbers.shape, dtype=bool)
    for part, target in zip(split_into_slabs(numbers), split_into_slabs(right), strict=True):
        target[...] = _is_right(part)
    if not right.any() and any(
        (merged == structure).any() for structure, pair in enumerate(_SIDES) if len(set(pair)) > 1
    ):
        raise DataError("the map has no label of the right side: it does not distinguish left and right")
    return np.where(right, _TO_SIDES[merged, 1], _TO_SIDES[merged, 0]), [
        note for note in notes if "are merged" not in note
    ]


def _is_right(numbers: Shaped[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Return whether FreeSurfer's numbers are of the right side: structures, or parcels of cortex and white matter."""
    structures = ((numbers >= 40) & (numbers <= 63)) | (numbers == 5002)
    thousands = numbers // 1000
    return structures | np.isin(thousands, [2, 4, 12, 14]) & (numbers < 14176)


def measure_asymmetry(volumes: Float[np.ndarray, "L"]) -> dict[str, float]:
    """Return `200 (left - right) / (left + right)` percent of each structure of both sides; NaN where it is missing.

    Args:
        volumes: `[L]`, volume of each label of FREESURFER.

    Example:
        >>> volumes = np.zeros(len(FREESURFER))
        >>> volumes[[FREESURFER.index("Left-Putamen"), FREESURFER.index("Right-Putamen")]] = 5200.0, 4800.0
        >>> measure_asymmetry(volumes)["Putamen"]
        8.0
    """
    out = {}
    for left, right in PAIRS:
        total = float(volumes[left] + volumes[right])
        name = FREESURFER.names[left].removeprefix("Left-")
        out[name] = 200 * float(volumes[left] - volumes[right]) / total if total else float("nan")
    return out


def list_tables(names: Sequence[str]) -> list[LabelTable]:
    """Return the tables whose judged structures have the given names: STRUCTURES or FREESURFER."""
    return [
        table for table in (STRUCTURES, FREESURFER) if [table.names[i] for i in table.judged_indices] == list(names)
    ]
