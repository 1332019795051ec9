"""Spatial transforms in torch: affine maps, and smooth deformations given by the flow of a velocity field.

All points are in mm, `[N, 3]`. A velocity field v that is constant in time, on a coarse grid, gives the deformation
`phi = exp(v)`: the position of a point after one unit of time. It is smooth and has a smooth inverse, `exp(-v)`;
scaling and squaring computes it: `exp(v) = exp(v / 2^n)` composed with itself, 2^n times.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from hardmax._deprecation import RenamedMember
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.errors import ArgumentError, ShapeError

_STRETCH = 0.1  # weight of the first differences of a velocity field relative to the second ones


@dataclass(frozen=True, eq=False)
class Affine:
    """An affine map, `y = A x + t`.

    Args:
        matrix: `[3, 3]`, A.
        shift: `[3]`, t, in mm.

    Example:
        >>> import torch
        >>> affine = Affine(torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), torch.ones(3))
        >>> affine(torch.tensor([[2.0, 0.0, 0.0]]))
        tensor([[1., 3., 1.]])
    """

    matrix: Float[Tensor, "3 3"]
    shift: Float[Tensor, " 3"]

    def __call__(self, points: Float[Tensor, "N 3"]) -> Float[Tensor, "N 3"]:
        """Return the transformed points."""
        return points @ self.matrix.T + self.shift

    def compose(self, first: "Affine") -> "Affine":
        """Return the composition: `first`, then this map."""
        return Affine(self.matrix @ first.matrix, self.matrix @ first.shift + self.shift)

    after = RenamedMember("compose")

    def inverse(self) -> "Affine":
        """Return the inverse map."""
        matrix = torch.linalg.inv(self.matrix)
        return Affine(matrix, -matrix @ self.shift)

    def adjust(self, change: Float[Tensor, "3 3"], shift: Float[Tensor, " 3"]) -> "Affine":
        """Return `y = A (I + change) x + t + shift`; an optimizer steps along `change` and `shift`."""
        return Affine(self.matrix + self.matrix @ change, self.shift + shift)

    def detach(self) -> "Affine":
        """Return the same map without its gradient."""
        return Affine(self.matrix.detach(), self.shift.detach())


def rotation_matrix(degrees: Sequence[float]) -> Float[Tensor, "3 3"]:
    """Return the matrix of a rotation about x, then y, then z, by the given degrees.

    Example:
        >>> (rotation_matrix([0, 0, 90]) @ torch.tensor([1.0, 0.0, 0.0])).round().tolist()
        [0.0, 1.0, 0.0]
    """
    out = np.eye(3)
    for axis, angle in enumerate(np.radians(np.asarray(degrees, dtype=np.float64))):
        i, j = (axis + 1) % 3, (axis + 2) % 3
        rotation = np.eye(3)
        rotation[i, i] = rotation[j, j] = np.cos(angle)
        rotation[i, j], rotation[j, i] = -np.sin(angle), np.sin(angle)
        out = rotation @ out
    return torch.tensor(out, dtype=torch.float32)


def make_centred_grid(shape: tuple[int, int, int], spacing: float) -> Grid:
    """Return a grid of cubic voxels along the axes of the world, with its centre at the origin."""
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = -spacing * (np.array(shape) - 1) / 2
    return Grid(shape, affine)


def grid_points(grid: Grid) -> Float[Tensor, "N 3"]:
    """Return the world points of all voxels of a grid, the last axis running fastest."""
    return torch.from_numpy(grid.points()).float()


def sample_at(volume: Float[Tensor, "C X Y Z"], grid: Grid, points: Float[Tensor, "N 3"]) -> Float[Tensor, "C N"]:
    """Return the values of C volumes at world points by trilinear interpolation; outside the grid, those of its border.

    Differentiable in the volumes and in the points. Bias and variance: none; it is the exact piecewise linear function.

    Args:
        volume: `[C, X, Y, Z]`.
        grid: grid of the volume.
        points: `[N, 3]`, mm.

    Raises:
        ShapeError: the volume is not of the grid's shape.

    Example:
        >>> import numpy as np, torch
        >>> ramp = torch.arange(3.0).expand(1, 2, 2, 3)
        >>> sample_at(ramp, Grid((2, 2, 3), np.diag([1.0, 1.0, 2.0, 1.0])), torch.tensor([[0.5, 1.0, 3.0]]))
        tensor([[1.5000]])
    """
    if tuple(volume.shape[1:]) != grid.shape:
        raise ShapeError(f"the volume must be [C, {', '.join(map(str, grid.shape))}], got {list(volume.shape)}")
    ends = np.maximum(np.array(grid.shape) - 1, 1)
    inverse = np.linalg.inv(grid.affine)
    # One matrix maps world coordinates to -1..1 along each axis; grid_sample expects the last axis first.
    scale = torch.from_numpy((2 * inverse[:3, :3] / ends[:, None])[::-1].copy()).to(points)
    shift = torch.from_numpy((2 * inverse[:3, 3] / ends - 1)[::-1].copy()).to(points)
    coordinates = (points @ scale.T + shift).view(1, -1, 1, 1, 3)
    samples = functional.grid_sample(
        volume[None], coordinates, mode="bilinear", padding_mode="border", align_corners=True
    )
    return samples.view(len(volume), -1)


def to_channels_last(volume: Float[Tensor, "C X Y Z"]) -> Float[Tensor, "C X Y Z"]:
    """Return the volumes in float32 with the C values of a voxel adjacent in memory; sampling is then twice as fast."""
    return volume.float()[None].contiguous(memory_format=torch.channels_last_3d)[0]


def draw_indices(count: int, number: int, generator: torch.Generator) -> Int64[Tensor, " number"]:
    """Draw indices 0..count-1 with replacement, sorted so that neighbours in memory are read together."""
    return torch.randint(count, (number,), generator=generator).sort().values


def integrate_velocity(
    velocity: Float[Tensor, "3 X Y Z"], grid: Grid, *, squarings: int = 5
) -> Float[Tensor, "3 X Y Z"]:
    r"""Return the displacement u of the deformation `phi = exp(v)`, by scaling and squaring on the velocity's grid.

    `phi(x) = x + u(x)`. With `u_0 = v / 2^n`, `u_{i+1}(x) = u_i(x) + u_i(x + u_i(x))`, the result is `u_n`. The error
    falls as `2^-n`, down to that of interpolation.

    Args:
        velocity: `[3, X, Y, Z]`, mm per unit of time.
        grid: grid of the velocity.
        squarings: n, the number of squarings.

    Example:
        >>> import torch
        >>> grid = make_centred_grid((4, 4, 4), 8.0)
        >>> integrate_velocity(torch.ones(3, 4, 4, 4), grid).unique()  # the same velocity everywhere is a shift
        tensor([1.])

    References:
        Arsigny et al., "A log-Euclidean framework for statistics on diffeomorphisms", 2006.
    """
    if squarings < 0:
        raise ArgumentError(f"squarings must not be negative, got {squarings}")
    points = grid_points(grid).to(velocity)
    displacement = velocity / 2**squarings
    for _ in range(squarings):
        moved = points + displacement.flatten(1).T
        displacement = displacement + sample_at(displacement, grid, moved).view_as(displacement)
    return displacement


def warp_points(
    points: Float[Tensor, "N 3"], displacement: Float[Tensor, "3 X Y Z"], grid: Grid
) -> Float[Tensor, "N 3"]:
    """Return the deformed points, `x + u(x)`.

    Args:
        points: `[N, 3]`, mm.
        displacement: `[3, X, Y, Z]`, u, as `integrate_velocity` returns it.
        grid: grid of u.
    """
    return points + sample_at(displacement, grid, points).T


def roughness(velocity: Float[Tensor, "3 X Y Z"], spacing: float) -> Float[Tensor, ""]:
    r"""Return the roughness of a velocity field: its bending, plus a tenth of its stretching.

    `mean |d^2 v|^2 + 0.1 mean |d v|^2`, summed over the three axes. Differences are scaled to a grid of 8 mm, so that
    grids of other spacings are comparable: `d = difference * (8 / spacing)`, and second differences once more. The
    roughness of a pure shift is zero.

    Args:
        velocity: `[3, X, Y, Z]`.
        spacing: spacing of its grid, mm.

    Example:
        >>> import torch
        >>> roughness(torch.full((3, 4, 4, 4), 2.0), 8.0).item()
        0.0
    """
    scale = 8.0 / spacing
    total = velocity.new_zeros(())
    for axis in (1, 2, 3):
        first = velocity.diff(dim=axis) * scale
        second = first.diff(dim=axis) * scale
        total = total + _STRETCH * first.square().mean() + second.square().mean()
    return total
