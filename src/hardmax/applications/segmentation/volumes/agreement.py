"""Agreement of two label maps, and volumes of structures. No torch here."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Integer
from scipy import ndimage

from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.errors import ArgumentError, ShapeError


@dataclass(frozen=True, eq=False)
class Agreement:
    """Agreement of a label map with the true one, structure by structure.

    Attributes:
        names: names of the K structures.
        dice: `[K]`; NaN where both maps lack the structure.
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
        """Mean over the structures that at least one map has; a structure that only one map has counts as 0."""
        return _mean(self.dice)

    @property
    def mean_distance(self) -> float:
        """Mean over the structures that both maps have."""
        return _mean(self.distance)


def dice(found: Integer[np.ndarray, "X Y Z"], true: Integer[np.ndarray, "X Y Z"], count: int) -> Float[np.ndarray, "M"]:
    """Return the overlap `2 |A and B| / (|A| + |B|)` of each label 0..count-1: 1 is perfect, 0 is none.

    Args:
        found: `[X, Y, Z]`, labels of the map to judge.
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
    _check_shapes(found, true)
    # One pass over the voxels counts all labels of both maps, and the voxels where they are equal.
    sizes = np.bincount(found.ravel(), minlength=count)[:count] + np.bincount(true.ravel(), minlength=count)[:count]
    shared = np.bincount(found[found == true].ravel(), minlength=count)[:count]
    return np.where(sizes > 0, 2 * shared / np.maximum(sizes, 1), np.nan)


def surface_distance(
    found: Bool[np.ndarray, "X Y Z"],
    true: Bool[np.ndarray, "X Y Z"],
    spacing: Float[np.ndarray, "3"],
    percentile: float = 95.0,
) -> float:
    """Return the distance in mm within which `percentile` percent of each surface lie of the other: 0 is perfect.

    With S(A) the voxels of A that have one of their six neighbours outside of A (or of the volume), and d the distance
    of their centres: `max(P_95 {d(a, S(B)): a in S(A)}, P_95 {d(b, S(A)): b in S(B)})`. 100 percent give the Hausdorff
    distance. Some programs take the percentile of both sets together, which is never larger.

    Args:
        found: `[X, Y, Z]`, mask of the structure in the map to judge.
        true: `[X, Y, Z]`, true mask of the structure.
        spacing: mm between neighbours along each axis; the axes are at right angles.
        percentile: 0 to 100; between two distances it is interpolated.

    Returns:
        The distance; NaN if one of the masks is empty.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: a spacing that is not positive, or a percentile beyond 0 to 100.

    Example:
        >>> import numpy as np
        >>> cube = np.zeros((8, 8, 8), bool)
        >>> cube[2:5, 2:5, 2:5] = True
        >>> surface_distance(cube, np.roll(cube, 1, 2), np.array([1.0, 1.0, 1.5]))
        1.5

    References:
        Huttenlocher, Klanderman & Rucklidge, "Comparing images using the Hausdorff distance", 1993, section 3.
    """
    _check_shapes(found, true)
    if not (np.asarray(spacing) > 0).all() or not 0 <= percentile <= 100:
        raise ArgumentError(
            f"the spacing must be positive and the percentile from 0 to 100, got {np.asarray(spacing).tolist()} and "
            f"{percentile}"
        )
    if not found.any() or not true.any():
        return float("nan")
    box = _box(found | true)  # no surface lies outside of it
    surfaces = [_surface(found[box]), _surface(true[box])]
    directed = [
        np.percentile(np.asarray(ndimage.distance_transform_edt(~to, sampling=spacing))[start], percentile)
        for start, to in (surfaces, surfaces[::-1])
    ]
    return float(max(directed))


def volumes(labels: Integer[np.ndarray, "X Y Z"], grid: Grid, count: int) -> Float[np.ndarray, "M"]:
    """Return the volume of each label 0..count-1 in mm^3: voxels times the volume of one.

    Example:
        >>> import numpy as np
        >>> volumes(np.array([[[0, 1, 1]]]), Grid((1, 1, 3), np.diag([1.0, 1.0, 1.5, 1.0])), 3).tolist()
        [1.5, 3.0, 0.0]
    """
    return np.bincount(labels.ravel(), minlength=count)[:count] * grid.voxel_volume


def compare(
    found: Integer[np.ndarray, "X Y Z"], true: Integer[np.ndarray, "X Y Z"], grid: Grid, table: LabelTable
) -> Agreement:
    """Compare a label map with the true one, over the judged structures of the table.

    Args:
        found: `[X, Y, Z]`, indices in the table.
        true: `[X, Y, Z]`, true indices in the table.
        grid: grid of both maps.
        table: the labels.

    Raises:
        ShapeError: the shapes differ.
    """
    overlap = dice(found, true, len(table))
    sizes, true_sizes = (volumes(labels, grid, len(table)) for labels in (found, true))
    distances = [surface_distance(found == index, true == index, grid.spacing) for index in table.judged]
    notes = [
        f"{message}: {', '.join(table.names[index] for index in which)}"
        for message, which in (
            ("found, but not in the true map", [i for i in table.judged if sizes[i] > 0 and not true_sizes[i]]),
            ("in the true map, but not found", [i for i in table.judged if true_sizes[i] > 0 and not sizes[i]]),
            ("in neither map, not counted", [i for i in table.judged if not true_sizes[i] and not sizes[i]]),
        )
        if which
    ]
    judged = table.judged
    return Agreement(
        [table.names[index] for index in judged],
        overlap[judged],
        np.array(distances, dtype=np.float64),
        sizes[judged],
        true_sizes[judged],
        tuple(notes),
    )


def _box(mask: Bool[np.ndarray, "X Y Z"]) -> tuple[slice, ...]:
    """Return the bounding box of a mask that is not empty."""
    out = []
    for axes in ((1, 2), (0, 2), (0, 1)):
        there = np.flatnonzero(mask.any(axes))
        out.append(slice(int(there[0]), int(there[-1]) + 1))
    return tuple(out)


def _surface(mask: Bool[np.ndarray, "X Y Z"]) -> Bool[np.ndarray, "X Y Z"]:
    inside = ndimage.binary_erosion(mask)  # outside of the volume counts as outside of the structure
    return mask & np.logical_not(inside)


def _mean(values: Float[np.ndarray, "K"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _check_shapes(found: np.ndarray, true: np.ndarray) -> None:
    if found.shape != true.shape:
        raise ShapeError(
            f"two label maps are compared voxel by voxel, got the shapes {list(found.shape)} and {list(true.shape)}; "
            "resample one to the grid of the other"
        )
