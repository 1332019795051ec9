"""Alignment of label maps to a template: by the centroids of structures, an affine map, then a smooth deformation.

`x = A phi(y)`, with A affine and `phi = exp(v)`, maps a point y of the template to a point x of a label map. A and v
are fitted so that the template explains the map best: they minimise the cross-entropy
`-sum_j sum_m s_m(A phi(y_j)) log t_m(y_j)`, with s the map's probabilities and t the template's, plus
`smoothness * roughness(v)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    draw_indices,
    grid_points,
    integrate_velocity,
    roughness,
    sample_at,
    to_channels_last,
    warp_points,
)
from hardmax.applications.segmentation.volumes.geometry import Grid

_FLOOR = 1e-3  # added to the template's probabilities before their logarithm


@dataclass(frozen=True, eq=False)
class SoftMap:
    """A label map as probabilities on a coarse grid.

    Attributes:
        probabilities: `[M, X, Y, Z]`, any floating dtype.
        grid: grid of the voxels.
    """

    probabilities: Float[Tensor, "M X Y Z"]
    grid: Grid

    def coarsen(self) -> "SoftMap":
        """Return the map on voxels of twice the side length."""
        return SoftMap(
            torch.nn.functional.avg_pool3d(self.probabilities.float(), 2).to(self.probabilities),
            pool_grid(self.grid, (2, 2, 2)),
        )


def pool_grid(grid: Grid, factors: Sequence[int]) -> Grid:
    """Return the grid whose voxels are blocks of voxels of another grid; an incomplete block at the end is left out."""
    change = np.eye(4)
    change[:3, :3] = np.diag(factors)
    change[:3, 3] = (np.array(factors) - 1) / 2
    x, y, z = (side // factor for side, factor in zip(grid.shape, factors, strict=True))
    return Grid((x, y, z), grid.affine @ change)


def make_soft_map(labels: np.ndarray, grid: Grid, kept: Sequence[int], spacing: float = 2.0) -> SoftMap:
    """Return a label map as probabilities: the fraction of each label in each block of voxels.

    Args:
        labels: `[X, Y, Z]`, indices in a table.
        grid: grid of the voxels.
        kept: the M labels to distinguish, the background first; all other labels count as background.
        spacing: approximate side of a block in mm; a block is a whole number of voxels.

    Example:
        >>> labels = np.zeros((4, 4, 4), int)
        >>> labels[0] = 2
        >>> make_soft_map(labels, Grid((4, 4, 4), np.eye(4)), [0, 2]).probabilities[:, 0, 0, 0]
        tensor([0.5000, 0.5000], dtype=torch.float16)
    """
    factors = [max(1, round(spacing / side)) for side in grid.spacing]
    coarse = pool_grid(grid, factors)
    ends = [side * factor for side, factor in zip(coarse.shape, factors, strict=True)]
    counts = np.zeros((len(kept), *coarse.shape), np.uint16)
    for offset in np.ndindex(*factors):
        part = labels[tuple(slice(o, end, f) for o, end, f in zip(offset, ends, factors, strict=True))]
        for index, label in enumerate(kept[1:], 1):
            counts[index] += part == label
    fractions = (counts / np.float32(np.prod(factors))).astype(np.float16)
    fractions[0] = 1 - fractions[1:].sum(0, dtype=np.float32)
    return SoftMap(torch.from_numpy(fractions), coarse)


@dataclass(frozen=True)
class Shape:
    """Size of a brain, and positions of its structures.

    Attributes:
        centre: `[3]`, centre of the brain, mm.
        spread: root mean square distance of the brain's voxels from the centre.
        centroids: `[M - 1, 3]`, centroids of the structures, relative to the centre; NaN for a missing structure.
    """

    centre: Float[np.ndarray, "3"]
    spread: float
    centroids: Float[np.ndarray, "M 3"]


def measure_shape(soft_map: SoftMap) -> Shape:
    """Return the size of the brain in a map, and the positions of its structures."""
    points = soft_map.grid.points()
    weights = soft_map.probabilities[1:].flatten(1).double().numpy()
    brain = weights.sum(0)
    centre = brain @ points / brain.sum()
    spread = float(np.sqrt(brain @ np.square(points - centre).sum(1) / brain.sum()))
    size = weights.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        centroids = weights @ points / size[:, None] - centre
    return Shape(centre, spread, np.where(size[:, None] > 0, centroids, np.nan))


def align_by_centroids(shapes: Sequence[Shape]) -> list[Affine]:
    """Return, for each map, the rotation, scale and shift from an upright template of mean size to the map.

    The rotations align the centroids of the structures (Procrustes). The template's x axis is the normal of the plane
    of the centroids, which lies between the hemispheres; its rotation about that axis is the mean over the maps,
    according to their headers.
    """
    size = float(np.exp(np.mean([np.log(shape.spread) for shape in shapes])))
    known = ~np.isnan(np.stack([shape.centroids for shape in shapes])).any((0, 2))
    scaled = [shape.centroids[known] * size / shape.spread for shape in shapes]
    mean, rotations = scaled[0], [_find_rotation(scaled[0], points) for points in scaled]
    for _ in range(5):
        rotations = [_find_rotation(mean, points) for points in scaled]
        mean = np.mean([points @ rotation for points, rotation in zip(scaled, rotations, strict=True)], axis=0)
    upright = _nearest_rotation(np.mean(rotations, axis=0))  # from the mean to the axes of the headers
    normal = upright @ np.linalg.svd(mean)[2][2]
    normal *= np.sign(normal[0])
    # Of all rotations about the normal, take the one that keeps the front of the headers at the front.
    up = np.cross(normal, np.array([0.0, 1.0, 0.0]))
    up /= np.linalg.norm(up)
    frame = np.stack([normal, np.cross(up, normal), up], 1)
    base = upright.T @ frame  # from the template to the mean
    return [
        Affine(
            torch.tensor(shape.spread / size * rotation @ base, dtype=torch.float32),
            torch.tensor(shape.centre, dtype=torch.float32),
        )
        for shape, rotation in zip(shapes, rotations, strict=True)
    ]


def refine_affine(
    soft_map: SoftMap,
    template: SoftMap,
    start: Affine,
    *,
    steps: int = 35,
    points: int = 8000,
    generator: torch.Generator,
) -> Affine:
    """Lower the cross-entropy of a label map and the template by steps of Adam; return the affine map between them."""
    positions, log_template = _select_brain_points(template)
    probabilities = to_channels_last(soft_map.probabilities)
    change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([{"params": [change], "lr": 0.006}, {"params": [shift], "lr": 0.4}])
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    for _ in range(steps):
        indices = draw_indices(len(positions), points, generator)
        map_points = start.adjust(change, shift)(positions[indices])
        loss = -(sample_at(probabilities, soft_map.grid, map_points) * log_template[:, indices]).sum(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    return start.adjust(change, shift).detach()


def fit_velocity(
    soft_map: SoftMap,
    template: SoftMap,
    affine: Affine,
    velocity: Float[Tensor, "3 X Y Z"],
    grid: Grid,
    *,
    smoothness: float = 0.05,
    steps: int = 50,
    points: int = 12000,
    generator: torch.Generator,
) -> Float[Tensor, "3 X Y Z"]:
    """Fit the velocity field under which template and label map agree best, starting from a given field.

    Args:
        soft_map: the label map.
        template: the template, on its grid.
        affine: affine map from the template to the label map.
        velocity: `[3, X, Y, Z]`, initial velocity.
        grid: grid of the velocity, in the template's space.
        smoothness: weight of the roughness, in nats per voxel.
        steps: number of steps of Adam.
        points: number of points of the template per step; each step draws its own.
        generator: source of randomness.
    """
    positions, log_template = _select_brain_points(template)
    probabilities, spacing = to_channels_last(soft_map.probabilities), float(grid.spacing[0])
    field = velocity.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([field], lr=0.35)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.97 ** max(0, step - steps // 2))
    for _ in range(steps):
        indices = draw_indices(len(positions), points, generator)
        displacement = integrate_velocity(field, grid, squarings=4)
        map_points = affine(warp_points(positions[indices], displacement, grid))
        loss = -(sample_at(probabilities, soft_map.grid, map_points) * log_template[:, indices]).sum(0).mean()
        optimizer.zero_grad()
        (loss + smoothness * roughness(field, spacing)).backward()
        optimizer.step()
        decay.step()
    return field.detach()


def _select_brain_points(template: SoftMap) -> tuple[Tensor, Tensor]:
    """Return the points of a template that may be in a brain, and the log-probabilities at these points."""
    flat = template.probabilities.float().flatten(1)
    inside = flat[1:].sum(0) > 0.003
    return grid_points(template.grid)[inside], (flat[:, inside] + _FLOOR).log()


def _find_rotation(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the rotation R that minimises `sum |target - R source|^2`."""
    return _nearest_rotation(target.T @ source)


def _nearest_rotation(matrix: np.ndarray) -> np.ndarray:
    u, _, v = np.linalg.svd(matrix)
    return u @ np.diag([1.0, 1.0, np.linalg.det(u @ v)]) @ v
