"""Left and right: FreeSurfer's table, where structures of both sides have two labels, and maps between the tables.

The model does not distinguish the sides, since mirrored structures look the same. A voxel's side is that of its place
in the atlas, whose middle is between left and right. No torch here.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Float32, Integer, Shaped, UInt8

from hardmax.applications.segmentation.volumes.labels import STRUCTURES, Label, LabelTable
from hardmax.applications.segmentation.volumes.reading import LabelMap, read_labels, read_numbers

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
_UNDETERMINED = (135, 206, 235)


def _make_sided_table() -> tuple[LabelTable, list[tuple[int, int]]]:
    """Return FreeSurfer's table, and for each structure the indices of its left and right label in it."""
    labels = []
    for label in STRUCTURES.labels:
        name, *numbers = _FREESURFER_NUMBERS[label.name]
        for number, side in zip(numbers, ("Left", "Right"), strict=True):
            if number is not None:
                full = name if numbers[1] is None else f"{side}-{name}"
                colour = _UNDETERMINED if label.name == "other" else label.colour
                labels.append(Label(number, full, colour, label.tissues, label.judged))
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


def split_sides(labels: Integer[np.ndarray, "X Y Z"], right: Bool[np.ndarray, "X Y Z"]) -> UInt8[np.ndarray, "X Y Z"]:
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
    posterior: Float[np.ndarray, "M X Y Z"], right: Bool[np.ndarray, "X Y Z"]
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


def read_truth(path: Path, table: LabelTable) -> tuple[LabelMap, LabelTable]:
    """Read a true label map, to compare it with labels of a table; return it with the table of its own labels.

    A map with merged sides is read in the table STRUCTURES, also if the labels have sides: these are then merged.

    Raises:
        DataError: as for `read_labels`.
    """
    if table.names != FREESURFER.names:
        return read_labels(path, table), table
    numbers, _, _ = read_numbers(path)
    label_map = read_labels(path)
    if not (right := find_right(numbers)).any():
        note = "left and right are merged in it, and were merged for the comparison"
        return replace(label_map, notes=(*label_map.notes, note)), STRUCTURES
    notes = tuple(note for note in label_map.notes if "are merged" not in note)
    return replace(label_map, labels=split_sides(label_map.labels, right), notes=notes), FREESURFER


def find_right(numbers: Shaped[np.ndarray, "X Y Z"]) -> Bool[np.ndarray, "X Y Z"]:
    """Return whether numbers of FreeSurfer are of the right side: structures, or parcels of cortex and white matter.

    Example:
        >>> find_right(np.array([[[2, 41, 1022, 2022, 16]]])).tolist()
        [[[False, True, False, True, False]]]
    """
    values = np.unique(numbers).astype(np.int64)
    structures = ((values >= 40) & (values <= 63)) | (values == 5002)
    parcels = np.isin(values // 100, [20, 40, 121, 141]) & (values % 1000 < 200)
    return (structures | parcels)[np.searchsorted(values, numbers)]


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
