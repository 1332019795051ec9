"""The part of a scan that is fitted: the brain mask, and its intensities on voxels of about 2 mm."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from scipy import ndimage
from torch import Tensor

from hardmax.applications.segmentation.atlas.alignment import pool_grid
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.errors import DataError

_MARGIN = 6.0  # mm around the mask; voxels in this margin are fitted too, as evidence for background
_FULL = 0.8  # fraction of the box; even a head with its skull fills less
_SMALLEST = 20_000.0  # mm^3, least volume of a brain
_LARGEST = 2_300_000.0  # mm^3; few skulls hold two litres, and a head has four


@dataclass(frozen=True, eq=False)
class Observation:
    """A scan on coarse voxels, inside its mask and a margin around it.

    Attributes:
        points: `[N, 3]`, world points of the voxels, mm.
        x: `[N]`, intensities, standardised; 0 outside of the mask.
        inside: `[N]`, whether a voxel is in the mask.
        mask: `[X, Y, Z]`, on the scan's voxels.
        centre: intensity at x = 0.
        scale: difference of intensity between x = 1 and x = 0.
        doubts: sentences on why the mask is doubtful.
    """

    points: Float[Tensor, "N 3"]
    x: Float[Tensor, " N"]
    inside: Bool[Tensor, " N"]
    mask: Bool[np.ndarray, "X Y Z"]
    centre: float
    scale: float
    doubts: tuple[str, ...] = ()

    def standardise(self, values: Float[np.ndarray, "..."]) -> Float[Tensor, "..."]:
        """Return intensities of the scan in the units of x."""
        return torch.from_numpy(((values - self.centre) / self.scale).astype(np.float32))


def prepare_scan(volume: Volume, mask: Bool[np.ndarray, "X Y Z"] | None = None, *, spacing: float = 2.0) -> Observation:
    """Find the brain in a scan, and return its intensities on voxels of about `spacing` mm: the data that is fitted.

    Intensities are averaged over blocks of voxels, only within the mask, and standardised: the same scan in other
    units, or brighter, gives the same result.

    Args:
        volume: the scan.
        mask: `[X, Y, Z]`, the brain; None means that the scan is skull-stripped, and finds the mask in it.
        spacing: approximate side of a block in mm.

    Raises:
        DataError: there is no brain in the scan, or it has only one value.

    Example:
        >>> values = np.zeros((40, 40, 40), np.float32)
        >>> values[4:36, 4:36, 4:36] = np.random.default_rng(0).random((32, 32, 32)) + 1
        >>> int(prepare_scan(Volume(values, Grid((40, 40, 40), np.eye(4)))).inside.sum())
        4096
    """
    mask, doubts = find_brain_mask(volume) if mask is None else (mask, check_size(mask, volume.grid))
    factors = choose_blocks(volume.grid, spacing)
    mask_fraction, grid = average_blocks(mask, volume.grid, factors)
    x = average_blocks(np.where(mask, volume.values, 0), volume.grid, factors)[0] / np.maximum(mask_fraction, 1e-6)
    inside = mask_fraction >= 0.5
    brain_values = volume.values[mask]
    low, centre, high = np.percentile(brain_values, [10, 50, 90])
    if low == high:
        raise DataError("the scan has one value all over the brain: tissues cannot be distinguished")
    scale = float(high - low) / 2.563  # 10 % to 90 % of a normal distribution span 2.563 deviations
    near = np.asarray(ndimage.distance_transform_edt(~inside, sampling=grid.spacing)) <= _MARGIN
    points = torch.from_numpy(grid.points()[near.ravel()]).float()
    standardised = np.where(inside, (x - centre) / scale, 0)[near]
    return Observation(
        points,
        torch.from_numpy(standardised.astype(np.float32)),
        torch.from_numpy(inside[near]),
        mask,
        float(centre),
        scale,
        tuple(doubts),
    )


def find_brain_mask(volume: Volume) -> tuple[Bool[np.ndarray, "X Y Z"], list[str]]:
    """Return the brain mask of a skull-stripped scan, and sentences on why the mask is doubtful.

    In a skull-stripped scan everything but the brain has one value, here the most frequent one on the faces of the box.
    The mask is the largest connected component of the other voxels, with its holes filled.

    Raises:
        DataError: the mask is too small for a brain.
    """
    values, doubts = volume.values, []
    faces = np.concatenate([np.take(values, end, axis).ravel() for axis in range(3) for end in (0, -1)])
    face_values, counts = np.unique(faces, return_counts=True)
    background = face_values[counts.argmax()]
    mask = values != background
    if mask.mean() > _FULL:
        # The surroundings are noise, or the scan was never skull-stripped: a threshold separates dark from bright.
        mask = values > _otsu_threshold(values)
        doubts.append(
            "The surroundings of the brain are not of one value: a threshold was used. Strip the skull first, or the "
            "result is poor."
        )
    mask = np.asarray(ndimage.binary_fill_holes(select_largest_piece(mask)))
    return mask, doubts + check_size(mask, volume.grid)


def check_size(mask: Bool[np.ndarray, "X Y Z"], grid: Grid) -> list[str]:
    """Return a sentence if a mask is too large for a brain.

    Raises:
        DataError: the mask is too small for a brain.
    """
    size = float(mask.sum()) * grid.voxel_volume
    if size < _SMALLEST:
        raise DataError(
            f"there is no brain in the scan: the largest object has {size / 1000:.1f} ml, expected at least "
            f"{_SMALLEST / 1000:.0f}; look at the scan in a viewer, and check that its header is in mm"
        )
    if size <= _LARGEST:
        return []
    return [
        f"The largest object has {size / 1000:,.0f} ml, but a brain with all its fluid has at most "
        f"{_LARGEST / 1000:,.0f}: strip the skull first, and check that the header is in mm."
    ]


def select_largest_piece(mask: Bool[np.ndarray, "X Y Z"]) -> Bool[np.ndarray, "X Y Z"]:
    """Return the largest connected component of a mask; an empty mask is returned as it is."""
    pieces: np.ndarray = np.asarray(ndimage.label(mask)[0])  # type: ignore[index]
    return pieces == 1 + np.bincount(pieces.ravel())[1:].argmax() if pieces.any() else mask


def mask_depth(mask: Bool[np.ndarray, "X Y Z"], grid: Grid) -> Float32[np.ndarray, "X Y Z"]:
    """Return the distance in mm from each voxel of a mask to the nearest outside it; the box's edge does not count."""
    depth = np.zeros(mask.shape, dtype=np.float32)
    box = tuple(slice(max(part.start - 1, 0), part.stop + 1) for part in ndimage.find_objects(mask.astype(np.uint8))[0])
    depth[box] = ndimage.distance_transform_edt(mask[box], sampling=grid.spacing)
    return depth


def choose_blocks(grid: Grid, spacing: float) -> list[int]:
    """Return the voxels of a block along each axis, so that a block has sides of about `spacing` mm."""
    return [max(1, round(spacing / side)) for side in grid.spacing]


def average_blocks(values: np.ndarray, grid: Grid, factors: list[int]) -> tuple[Float[np.ndarray, "X Y Z"], Grid]:
    """Return means over blocks of voxels, and their grid; an incomplete block at the end of an axis is left out."""
    sides = [side // factor for side, factor in zip(values.shape, factors, strict=True)]
    cut = values[tuple(slice(side * factor) for side, factor in zip(sides, factors, strict=True))]
    shape = [n for side, factor in zip(sides, factors, strict=True) for n in (side, factor)]
    return cut.reshape(shape).mean((1, 3, 5), dtype=np.float32), pool_grid(grid, factors)


def _otsu_threshold(values: np.ndarray) -> float:
    """Return the threshold between dark and bright that leaves the least variance within both (Otsu, 1979)."""
    counts, edges = np.histogram(values, 256)
    middles = (edges[1:] + edges[:-1]) / 2
    below, above = counts.cumsum(), counts[::-1].cumsum()[::-1]
    low = (counts * middles).cumsum() / np.maximum(below, 1)
    high = ((counts * middles)[::-1].cumsum() / np.maximum(above[::-1], 1))[::-1]
    between = below[:-1] * above[1:] * np.square(low[:-1] - high[1:])
    return float(edges[1 + between.argmax()])
