"""Geometry of volumes: grids in world space, canonical orientation, resampling. No torch here.

World space is RAS in mm: x grows to the right of the person, y to the front (anterior), z to the top (superior).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Shaped
from scipy import ndimage

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError, ShapeError

_FWHM = 2 * np.sqrt(2 * np.log(2))  # full width at half maximum of a Gaussian of deviation 1
_SLAB = 2**22  # voxels that are resampled at a time


@dataclass(frozen=True, eq=False)
class Grid:
    """A box of voxels with its position in the world.

    `x = A v + t` maps a voxel index v (an integer at the centre of a voxel) to the world in mm.

    Args:
        shape: voxels along each axis.
        affine: `[4, 4]`, voxel index to world, mm in RAS; it may flip, permute, rotate and shear.

    Raises:
        ShapeError: not three axes, or not a 4x4 matrix.
        ArgumentError: an affine without an inverse, or whose last row is not 0 0 0 1.

    Example:
        >>> import numpy as np
        >>> grid = Grid((160, 192, 160), np.diag([-1.0, 1.0, 1.2, 1.0]))
        >>> grid.axes, grid.spacing.tolist()
        ('LAS', [1.0, 1.0, 1.2])
        >>> grid.to_world(np.array([[10.0, 0.0, 5.0]])).tolist()
        [[-10.0, 0.0, 6.0]]
    """

    shape: tuple[int, int, int]
    affine: Float[np.ndarray, "4 4"]

    def __post_init__(self) -> None:
        shape, affine = tuple(int(side) for side in self.shape), np.array(self.affine, dtype=np.float64)
        if len(shape) != 3 or min(shape) < 1:
            raise ShapeError(f"a grid has three axes of at least one voxel each, got the shape {shape}")
        if affine.shape != (4, 4):
            raise ShapeError(f"an affine is a 4x4 matrix, got the shape {affine.shape}")
        if not np.isfinite(affine).all() or not np.allclose(affine[3], [0, 0, 0, 1]):
            raise ArgumentError(f"an affine is finite with the last row 0 0 0 1, got {affine.tolist()}")
        sides = np.linalg.norm(affine[:3, :3], axis=0)
        if not (sides > 0).all() or abs(np.linalg.det(affine[:3, :3] / sides)) < 1e-4:
            raise ArgumentError(f"the affine has no inverse: its axes lie in a plane, got {affine.tolist()}")
        affine.setflags(write=False)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "affine", affine)

    @cached_property
    def spacing(self) -> Float[np.ndarray, "3"]:
        """Distance in mm between neighbouring voxels along each axis."""
        return np.linalg.norm(self.affine[:3, :3], axis=0)

    @cached_property
    def voxel_volume(self) -> float:
        """Volume of a voxel in mm^3."""
        return float(abs(np.linalg.det(self.affine[:3, :3])))

    @cached_property
    def centre(self) -> Float[np.ndarray, "3"]:
        """World point in the middle of the box."""
        return self.to_world((np.array(self.shape)[None] - 1) / 2)[0]

    @property
    def axes(self) -> str:
        """Direction of each axis, the nearest of R L A P S I (right, left, ...): "RAS", "LPS", ..."""
        import nibabel

        return "".join(nibabel.orientations.aff2axcodes(self.affine))

    @cached_property
    def tilt(self) -> float:
        """Largest angle, in degrees, between a voxel axis and its nearest world axis."""
        cosines = np.abs(self.affine[:3, :3] / self.spacing).max(0)
        return float(np.degrees(np.arccos(np.clip(cosines, 0, 1))).max())

    def to_world(self, voxels: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
        """Return the world points of voxel indices, which may be fractional: `[N, 3]` in mm."""
        return voxels @ self.affine[:3, :3].T + self.affine[:3, 3]

    def to_voxels(self, points: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
        """Return the voxel indices, in general fractional, of world points `[N, 3]` in mm."""
        return (points - self.affine[:3, 3]) @ np.linalg.inv(self.affine[:3, :3]).T

    def points(self) -> Float[np.ndarray, "N 3"]:
        """Return the world points of all voxels, `[X Y Z, 3]`, the last axis running fastest."""
        return self.to_world(np.indices(self.shape).reshape(3, -1).T.astype(np.float64))

    def corners(self) -> Float[np.ndarray, "8 3"]:
        """Return the world points of the eight voxels at the corners."""
        ends = np.array(np.meshgrid(*([0, side - 1] for side in self.shape), indexing="ij"), dtype=np.float64)
        return self.to_world(ends.reshape(3, -1).T)

    def same_as(self, other: "Grid", tolerance: float = 1e-2) -> bool:
        """Return whether the voxels are the same: equal shapes, and corners at most `tolerance` mm apart."""
        return self.shape == other.shape and float(np.abs(self.corners() - other.corners()).max()) <= tolerance

    def at_spacing(self, spacing: float) -> "Grid":
        """Return a grid of cubic voxels with a side of `spacing` mm, along the same axes, that covers the same box."""
        if not spacing > 0:
            raise ArgumentError(f"the spacing must be positive, got {spacing} mm")
        sides = np.array(self.shape) * self.spacing
        shape = np.maximum(np.ceil(sides / spacing - 1e-6), 1).astype(int)
        affine = self.affine.copy()
        affine[:3, :3] *= spacing / self.spacing
        affine[:3, 3] = self.centre - affine[:3, :3] @ ((shape - 1) / 2)
        return Grid((int(shape[0]), int(shape[1]), int(shape[2])), affine)


@dataclass(frozen=True, eq=False)
class Reorientation:
    """The flips and permutation of axes from a grid to the orientation nearest to RAS, and back, without resampling.

    Args:
        original: the original grid.

    Example:
        >>> import numpy as np
        >>> reorientation = Reorientation(Grid((3, 4, 5), np.diag([-1.0, 1.0, 1.0, 1.0])))
        >>> reorientation.canonical.axes
        'RAS'
        >>> values = np.arange(60.0).reshape(3, 4, 5)
        >>> bool((reorientation.restore(reorientation.forward(values)) == values).all())
        True
    """

    original: Grid

    @cached_property
    def _orientation(self) -> tuple[tuple[int, int, int], tuple[bool, ...]]:
        """Return, for each of R, A, S, the nearest axis, and whether that axis points the other way."""
        import nibabel

        orientation = nibabel.orientations.io_orientation(self.original.affine)
        order = np.argsort(orientation[:, 0])
        return (int(order[0]), int(order[1]), int(order[2])), tuple(bool(orientation[axis, 1] < 0) for axis in order)

    @cached_property
    def canonical(self) -> Grid:
        """Grid of the same voxels, with its axes in the order and directions nearest to R, A and S."""
        order, flipped = self._orientation
        change = np.zeros((4, 4))  # index in the canonical grid -> index in the original
        change[3, 3] = 1
        for new, (old, flip) in enumerate(zip(order, flipped, strict=True)):
            change[old, new] = -1 if flip else 1
            change[old, 3] = self.original.shape[old] - 1 if flip else 0
        shape = (self.original.shape[order[0]], self.original.shape[order[1]], self.original.shape[order[2]])
        return Grid(shape, self.original.affine @ change)

    def forward(self, values: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """Return values `[..., X, Y, Z]` of the original grid as those of the canonical one (a view)."""
        _check_shape(values, self.original)
        order, flipped = self._orientation
        lead = tuple(range(values.ndim - 3))
        reoriented = values.transpose(*lead, *(axis + len(lead) for axis in order))
        return reoriented[(..., *(slice(None, None, -1 if flip else 1) for flip in flipped))]

    def restore(self, values: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
        """Return values `[..., X, Y, Z]` of the canonical grid as those of the original one (a view)."""
        _check_shape(values, self.canonical)
        order, flipped = self._orientation
        lead = tuple(range(values.ndim - 3))
        reoriented = values[(..., *(slice(None, None, -1 if flip else 1) for flip in flipped))]
        return reoriented.transpose(*lead, *(int(axis) + len(lead) for axis in np.argsort(order)))

    back = RenamedMember("restore")


def resample(
    values: Shaped[np.ndarray, "X Y Z"], source: Grid, target: Grid, *, fill: float = 0.0
) -> Float[np.ndarray, "U V W"]:
    """Resample intensities, or the probabilities of one label, to another grid by trilinear interpolation.

    Where the target is coarser, the volume is first blurred along each axis, to prevent aliasing. The full width at
    half maximum of the Gaussian is `sqrt(t^2 - s^2)`, for voxel sizes s of the source and t of the target.

    Args:
        values: `[X, Y, Z]` on the grid `source`.
        source: grid of the values.
        target: grid of the result.
        fill: value outside the source.

    Returns:
        `[U, V, W]`, float32, of the target's shape.

    Raises:
        ShapeError: the values are not of the source's shape.

    Example:
        >>> import numpy as np
        >>> fine = Grid((8, 8, 8), np.eye(4))
        >>> resample(np.ones((8, 8, 8)), fine, fine.at_spacing(2.0)).shape
        (4, 4, 4)
    """
    _check_shape(values, source, leading=False)
    values = np.asarray(values, dtype=np.float32)
    change = np.linalg.inv(source.affine) @ target.affine
    # Number of source voxels per step of the target, along each axis of the source.
    steps = np.linalg.norm(change[:3, :3], axis=1)
    if (steps > 1 + 1e-3).any():
        deviations = np.sqrt(np.clip(steps**2 - 1, 0, None)) / _FWHM
        values = ndimage.gaussian_filter(values, deviations, mode="nearest", truncate=3.0)
    return _interpolate(values, change, target.shape, order=1, fill=fill)


def resample_labels(
    labels: Shaped[np.ndarray, "X Y Z"], source: Grid, target: Grid, *, fill: int = 0
) -> Shaped[np.ndarray, "U V W"]:
    """Resample a label map to another grid: each voxel gets the label of the nearest one; the dtype is kept.

    Args:
        labels: `[X, Y, Z]`, integers on the grid `source`.
        source: grid of the labels.
        target: grid of the result.
        fill: label outside the source.

    Returns:
        `[U, V, W]` of the target's shape.

    Raises:
        ShapeError: the labels are not of the source's shape.

    Example:
        >>> import numpy as np
        >>> grid = Grid((2, 2, 2), np.eye(4))
        >>> labels = np.arange(8).reshape(2, 2, 2)
        >>> resample_labels(labels, grid, Grid((2, 2, 1), np.diag([1.0, 1.0, 0.9, 1.0])))[..., 0].tolist()
        [[0, 2], [4, 6]]
    """
    _check_shape(labels, source, leading=False)
    return _interpolate(labels, np.linalg.inv(source.affine) @ target.affine, target.shape, order=0, fill=fill)


def _interpolate(
    values: np.ndarray, change: np.ndarray, shape: tuple[int, int, int], order: int, fill: float
) -> np.ndarray:
    """Sample values at the indices `change v` for v in the shape; up to half a voxel beyond the edge is inside."""
    out = np.empty(shape, dtype=values.dtype)
    thick = max(1, _SLAB // (shape[1] * shape[2]))
    ends = np.array(values.shape)[:, None] - 1
    for start in range(0, shape[0], thick):
        part = out[start : start + thick]
        indices = np.indices(part.shape).reshape(3, -1)
        indices[0] += start
        coordinates = change[:3, :3] @ indices + change[:3, 3:]
        inside = ((coordinates > -0.5 - 1e-6) & (coordinates < ends + 0.5 + 1e-6)).all(0)
        sampled = np.full(inside.shape, fill, dtype=values.dtype)
        if inside.any():
            # Rounding errors of a flip must not move a voxel's centre to its neighbour.
            near = np.clip(np.round(coordinates[:, inside], 6), 0, ends)
            sampled[inside] = ndimage.map_coordinates(values, near, order=order, mode="nearest", prefilter=False)
        part[:] = sampled.reshape(part.shape)
    return out


def _check_shape(values: np.ndarray, grid: Grid, leading: bool = True) -> None:
    if values.shape[-3:] != grid.shape or (not leading and values.ndim != 3):
        expected = f"[..., {', '.join(map(str, grid.shape))}]" if leading else f"{list(grid.shape)}"
        raise ShapeError(f"expected values of the grid's shape {expected}, got {list(values.shape)}")
