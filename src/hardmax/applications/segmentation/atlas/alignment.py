"""Alignment of label maps: by the centroids of their structures, an affine map, then a smooth deformation.

`x = A phi(y)`, A affine, `phi = exp(v)`, maps the template's space to that of a map. A and v are those under which the
template explains the map best: they minimise the cross-entropy `-sum_j sum_m s_m(A phi(y_j)) log t_m(y_j)`, s the
map's probabilities, t the template's, plus `smoothness * roughness(v)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    displacement,
    draw_indices,
    grid_points,
    roughness,
    sample_at,
    to_channels_last,
    warp,
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
        """Return the map on voxels of twice the side."""
        return SoftMap(
            torch.nn.functional.avg_pool3d(self.probabilities.float(), 2).to(self.probabilities),
            pool_grid(self.grid, (2, 2, 2)),
        )


def pool_grid(grid: Grid, factors: Sequence[int]) -> Grid:
    """Return the grid of blocks of voxels; a remainder at the end of an axis is left out."""
    change = np.eye(4)
    change[:3, :3] = np.diag(factors)
    change[:3, 3] = (np.array(factors) - 1) / 2
    x, y, z = (side // factor for side, factor in zip(grid.shape, factors, strict=True))
    return Grid((x, y, z), grid.affine @ change)


def soft_map(labels: np.ndarray, grid: Grid, kept: Sequence[int], spacing: float = 2.0) -> SoftMap:
    """Return the fraction of each label in each block of voxels.

    Args:
        labels: `[X, Y, Z]`, indices in a table.
        grid: grid of the voxels.
        kept: the M labels to distinguish; all others are background, the first of them.
        spacing: approximate side of a block in mm: a block is a whole number of voxels.

    Example:
        >>> labels = np.zeros((4, 4, 4), int)
        >>> labels[0] = 2
        >>> soft_map(labels, Grid((4, 4, 4), np.eye(4)), [0, 2]).probabilities[:, 0, 0, 0]
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
        spread: root mean square distance from it.
        centroids: `[M - 1, 3]`, of the structures, relative to the centre; NaN for a missing one.
    """

    centre: Float[np.ndarray, "3"]
    spread: float
    centroids: Float[np.ndarray, "M 3"]


def measure_shape(one: SoftMap) -> Shape:
    """Return the size of the brain in a map, and the positions of its structures."""
    points = one.grid.points()
    weights = one.probabilities[1:].flatten(1).double().numpy()
    brain = weights.sum(0)
    centre = brain @ points / brain.sum()
    spread = float(np.sqrt(brain @ np.square(points - centre).sum(1) / brain.sum()))
    size = weights.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        centroids = weights @ points / size[:, None] - centre
    return Shape(centre, spread, np.where(size[:, None] > 0, centroids, np.nan))


def place_by_centroids(shapes: Sequence[Shape]) -> list[Affine]:
    """Return for each map the rotation, scale and shift from an upright template of mean size to it.

    The rotations are those of Procrustes for the centroids of the structures. The template's x axis is the normal of
    the plane of the centroids, between the hemispheres; its rotation about that axis is the mean of that of the maps,
    by their headers.
    """
    size = float(np.exp(np.mean([np.log(shape.spread) for shape in shapes])))
    known = ~np.isnan(np.stack([shape.centroids for shape in shapes])).any((0, 2))
    placed = [shape.centroids[known] * size / shape.spread for shape in shapes]
    mean, turns = placed[0], [_find_rotation(placed[0], one) for one in placed]
    for _ in range(5):
        turns = [_find_rotation(mean, one) for one in placed]
        mean = np.mean([one @ turn for one, turn in zip(placed, turns, strict=True)], axis=0)
    upright = _nearest_rotation(np.mean(turns, axis=0))  # of the mean to the axes of the headers
    normal = upright @ np.linalg.svd(mean)[2][2]
    normal *= np.sign(normal[0])
    # Of all rotations about the normal, the one that keeps the front of the headers to the front.
    up = np.cross(normal, np.array([0.0, 1.0, 0.0]))
    up /= np.linalg.norm(up)
    frame = np.stack([normal, np.cross(up, normal), up], 1)
    base = upright.T @ frame  # template to mean
    return [
        Affine(
            torch.tensor(shape.spread / size * turn @ base, dtype=torch.float32),
            torch.tensor(shape.centre, dtype=torch.float32),
        )
        for shape, turn in zip(shapes, turns, strict=True)
    ]


def refine_affine(
    one: SoftMap,
    template: SoftMap,
    start: Affine,
    *,
    steps: int = 35,
    points: int = 8000,
    generator: torch.Generator,
) -> Affine:
    """Return the affine map from the template to a map that lowers their cross-entropy, by steps of Adam."""
    places, log_template = _points_inside(template)
    probabilities = to_channels_last(one.probabilities)
    change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([{"params": [change], "lr": 0.006}, {"params": [shift], "lr": 0.4}])
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    for _ in range(steps):
        chosen = draw_indices(len(places), points, generator)
        reached = start.adjust(change, shift)(places[chosen])
        loss = -(sample_at(probabilities, one.grid, reached) * log_template[:, chosen]).sum(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    return start.adjust(change, shift).detach()


def deform(
    one: SoftMap,
    template: SoftMap,
    place: Affine,
    velocity: Float[Tensor, "3 X Y Z"],
    grid: Grid,
    *,
    smoothness: float = 0.05,
    steps: int = 50,
    points: int = 12000,
    generator: torch.Generator,
) -> Float[Tensor, "3 X Y Z"]:
    """Return the velocity field under which template and map agree best, starting from a given one.

    Args:
        one: the map.
        template: the template, on its grid.
        place: affine map from the template to the map.
        velocity: `[3, X, Y, Z]`, initial velocity.
        grid: grid of the velocity, in the template's space.
        smoothness: weight of the roughness, in nats per voxel.
        steps: number of steps of Adam.
        points: number of points of the template, drawn again for each step.
        generator: source of randomness.
    """
    places, log_template = _points_inside(template)
    probabilities, spacing = to_channels_last(one.probabilities), float(grid.spacing[0])
    field = velocity.clone().requires_grad_(True)
    optimizer = torch.optim.Adam([field], lr=0.35)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.97 ** max(0, step - steps // 2))
    for _ in range(steps):
        chosen = draw_indices(len(places), points, generator)
        reached = place(warp(places[chosen], displacement(field, grid, squarings=4), grid))
        loss = -(sample_at(probabilities, one.grid, reached) * log_template[:, chosen]).sum(0).mean()
        optimizer.zero_grad()
        (loss + smoothness * roughness(field, spacing)).backward()
        optimizer.step()
        decay.step()
    return field.detach()


def _points_inside(template: SoftMap) -> tuple[Tensor, Tensor]:
    """Return the points of a template where a brain may be, and the log-probabilities there."""
    flat = template.probabilities.float().flatten(1)
    inside = flat[1:].sum(0) > 0.003
    return grid_points(template.grid)[inside], (flat[:, inside] + _FLOOR).log()


def _find_rotation(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the rotation R that minimises `sum |target - R source|^2`."""
    return _nearest_rotation(target.T @ source)


def _nearest_rotation(matrix: np.ndarray) -> np.ndarray:
    u, _, v = np.linalg.svd(matrix)
    return u @ np.diag([1.0, 1.0, np.linalg.det(u @ v)]) @ v
