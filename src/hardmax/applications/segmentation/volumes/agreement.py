"""Agreement of two label maps, and volumes of structures. No torch here."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Integer
from scipy import ndimage

from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import LabelTable, split_into_slabs
from hardmax.errors import ArgumentError, ShapeError


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of a label map with the true map, for each structure.

    Attributes:
        names: names of the K structures.
        dice: `[K]`, Dice overlap; NaN where both maps lack the structure.
        distance: `[K]`, 95 % surface distance in mm; NaN where a map lacks the structure.
        volume: `[K]`, mm^3 in the label map.
        true_volume: `[K]`, mm^3 in the true map.
        notes: sentences about missing structures.
    """

    names: list[str]
    dice: Float[np.ndarray, "K"]
    distance: Float[np.ndarray, "K"]
    volume: Float[np.ndarray, "K"]
    true_volume: Float[np.ndarray, "K"]
    notes: tuple[str, ...]

    @property
    def mean_dice(self) -> float:
        """Mean Dice over the structures that at least one map has; a structure that only one map has counts as 0."""
        return _mean(self.dice)

    @property
    def mean_distance(self) -> float:
        """Mean surface distance over the structures that both maps have."""
        return _mean(self.distance)


def dice(
    predicted: Integer[np.ndarray, "X Y Z"], true: Integer[np.ndarray, "X Y Z"], count: int
) -> Float[np.ndarray, "M"]:
    """Return Dice, the overlap `2 |A and B| / (|A| + |B|)`, of each label 0..count-1: 1 is perfect, 0 is no overlap.

    Args:
        predicted: `[X, Y, Z]`, labels of the map to judge.
        true: `[X, Y, Z]`, true labels.
        count: M, the number of labels.

    Returns:
        `[M]`; NaN for a label that neither map has.

    Raises:
        ShapeError: the maps have different shapes.

    Example:
        >>> import numpy as np
        >>> dice(np.array([[[0, 1, 1]]]), np.array([[[1, 1, 1]]]), 3).tolist()
        [0.0, 0.8, nan]

    References:
        Dice, "Measures of the amount of ecologic association between species", 1945.
    """
    _check_shapes(predicted, true)
    # One pass over the voxels counts all labels of both maps, and the voxels where they are equal.
    sizes = _count_voxels(predicted, count) + _count_voxels(true, count)
    shared = _count_voxels(predicted[predicted == true], count)
    return np.where(sizes > 0, 2 * shared / np.maximum(sizes, 1), np.nan)


def surface_distance(
    predicted: Bool[np.ndarray, "X Y Z"],
    true: Bool[np.ndarray, "X Y Z"],
    spacing: Float[np.ndarray, "3"],
    percentile: float = 95.0,
) -> float:
    """Return the surface distance of two masks in mm, as a percentile (95 %, say) of distances: 0 is perfect.

    Let S(A) be the voxels of A that have one of their six neighbours outside A (or outside the volume), and d the
    distance of voxel centres. The result is `max(P_95 {d(a, S(B)): a in S(A)}, P_95 {d(b, S(A)): b in S(B)})`. 100
    percent give the Hausdorff distance. Some programs take the percentile of both sets together, which is never larger.

    Args:
        predicted: `[X, Y, Z]`, mask of the structure in the map to judge.
        true: `[X, Y, Z]`, true mask of the structure.
        spacing: mm between neighbours along each axis; the axes are at right angles.
        percentile: 0 to 100; interpolated between two distances.

    Returns:
        The distance; NaN if one of the masks is empty.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: a spacing that is not positive, or a percentile outside 0 to 100.

    Example:
        >>> import numpy as np
        >>> cube = np.zeros((8, 8, 8), bool)
        >>> cube[2:5, 2:5, 2:5] = True
        >>> surface_distance(cube, np.roll(cube, 1, 2), np.array([1.0, 1.0, 1.5]))
        1.5

    References:
        Huttenlocher, Klanderman & Rucklidge, "Comparing images using the Hausdorff distance", 1993, section 3.
    """
    _check_shapes(predicted, true)
    if not (np.asarray(spacing) > 0).all() or not 0 <= percentile <= 100:
        raise ArgumentError(
            f"the spacing must be positive and the percentile from 0 to 100, got {np.asarray(spacing).tolist()} and "
            f"{percentile}"
        )
    if not predicted.any() or not true.any():
        return float("nan")
    box = _bounding_box(predicted | true)  # no surface lies outside
    surfaces = [_surface_voxels(predicted[box]), _surface_voxels(true[box])]
    directed = [
        np.percentile(np.asarray(ndimage.distance_transform_edt(~to, sampling=spacing))[start], percentile)
        for start, to in (surfaces, surfaces[::-1])
    ]
    return float(max(directed))


def measure_volumes(labels: Integer[np.ndarray, "X Y Z"], grid: Grid, count: int) -> Float[np.ndarray, "M"]:
    """Return the volume of each label 0..count-1 in mm^3: number of voxels times the volume of a voxel.

    Example:
        >>> import numpy as np
        >>> measure_volumes(np.array([[[0, 1, 1]]]), Grid((1, 1, 3), np.diag([1.0, 1.0, 1.5, 1.0])), 3).tolist()
        [1.5, 3.0, 0.0]
    """
    return _count_voxels(labels, count) * grid.voxel_volume


def _count_voxels(labels: Integer[np.ndarray, "..."], count: int) -> Integer[np.ndarray, "M"]:
    """Return the number of voxels of each label, slab by slab: counting takes eight bytes for each voxel."""
    out = np.zeros(count, np.int64)
    for part in split_into_slabs(labels):
        out += np.bincount(part.ravel(), minlength=count)[:count]
    return out


def compare_maps(
    predicted: Integer[np.ndarray, "X Y Z"], true: Integer[np.ndarray, "X Y Z"], grid: Grid, table: LabelTable
) -> Agreement:
    """Compare a label map with the true map, for the structures of the table that count in comparisons.

    Args:
        predicted: `[X, Y, Z]`, indices in the table.
        true: `[X, Y, Z]`, true indices in the table.
        grid: grid of both maps.
        table: the labels.

    Raises:
        ShapeError: the shapes differ.
    """
    overlap = dice(predicted, true, len(table))
    sizes, true_sizes = (measure_volumes(labels, grid, len(table)) for labels in (predicted, true))
    distances = [surface_distance(predicted == index, true == index, grid.spacing) for index in table.judged_indices]
    notes = [
        f"{message}: {', '.join(table.names[index] for index in which)}"
        for message, which in (
            ("found, but not in the true map", [i for i in table.judged_indices if sizes[i] > 0 and not true_sizes[i]]),
            ("in the true map, but not found", [i for i in table.judged_indices if true_sizes[i] > 0 and not sizes[i]]),
            ("in neither map, not counted", [i for i in table.judged_indices if not true_sizes[i] and not sizes[i]]),
        )
        if which
    ]
    judged = table.judged_indices
    return Agreement(
        [table.names[index] for index in judged],
        overlap[judged],
        np.array(distances, dtype=np.float64),
        sizes[judged],
        true_sizes[judged],
        tuple(notes),
    )


def _bounding_box(mask: Bool[np.ndarray, "X Y Z"]) -> tuple[slice, ...]:
    """Return the bounding box of a mask that is not empty."""
    out = []
    for axes in ((1, 2), (0, 2), (0, 1)):
        occupied = np.flatnonzero(mask.any(axes))
        out.append(slice(int(occupied[0]), int(occupied[-1]) + 1))
    return tuple(out)


def _surface_voxels(mask: Bool[np.ndarray, "X Y Z"]) -> Bool[np.ndarray, "X Y Z"]:
    inside = ndimage.binary_erosion(mask)  # outside the volume counts as outside the structure
    return mask & np.logical_not(inside)


def _mean(values: Float[np.ndarray, "K"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _check_shapes(predicted: np.ndarray, true: np.ndarray) -> None:
    if predicted.shape != true.shape:
        raise ShapeError(
            f"two label maps are compared voxel by voxel, got the shapes {list(predicted.shape)} and "
            f"{list(true.shape)}; resample one to the grid of the other"
        )
