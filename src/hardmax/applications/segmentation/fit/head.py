"""Fit of the atlas of the head to a scan: where the head is, whether it has its skull, and its shape.

The model is that of the brain (`fitting`), with the atlas of the head and without a mask: every voxel of the scan
counts, air too. The start is searched among many positions, sizes and rotations, since a scan may end at the crown or
contain the neck. What lies outside of the scan is no evidence, so that any part of a head can be fitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.atlas.head import HEAD_PARTS, HeadAtlas
from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    draw_indices,
    make_centred_grid,
    rotation_matrix,
    sample_at,
    to_channels_last,
)
from hardmax.applications.segmentation.fit.fitting import Fitter, ScanFit, fit_deformation
from hardmax.applications.segmentation.fit.observation import Observation, average_blocks, choose_blocks
from hardmax.applications.segmentation.tissues.classes import Appearances
from hardmax.applications.segmentation.tissues.em import fit_gaussians
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, mixing_matrix
from hardmax.applications.segmentation.tissues.initialization import deviation_floor, start_from_prior
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.errors import DataError
from hardmax.random import make_generator

HEAD_VELOCITY_GRID = make_centred_grid((20, 26, 28), 10.0)
_TAIL = 0.1  # percent of the voxels that are clipped, at both ends: vessels and artefacts are very bright
# Positions of the middle of the brain that are tried, in mm from the middle of the object in the scan, to the front and
# up; rotations in degrees about x, y and z; and sizes of the mean brain relative to the brain in the scan.
_SHIFTS = tuple((y, z) for y in (-35.0, -15.0, 5.0) for z in (-40.0, -15.0, 10.0, 35.0, 60.0, 85.0))
_ROTATIONS = ((0, 0, 0), (25, 0, 0), (-25, 0, 0), (0, 25, 0), (0, -25, 0), (0, 0, 25), (0, 0, -25))
_SIZES = (0.85, 1.0, 1.15)
_REFINED = 5  # number of starts that are refined
_BEYOND = 15.0  # mm around the atlas in which voxels are fitted
# Nats per voxel by which a skull must explain a scan better: without one, the Gaussians of the head have nothing to
# explain, and both models are equally likely. A real head gains about 1.
_LEAST_GAIN = 0.1
_TINY = 1e-6


@dataclass(frozen=True, eq=False)
class HeadStart:
    """A position of the head in a scan, before it is deformed.

    Attributes:
        affine: affine map from the scan's world to the atlas.
        gaussians: Gaussians of the tissues, in standardised intensities.
        log_likelihood: mean over the voxels of the scan, in nats.
    """

    affine: Affine
    gaussians: Gaussians
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class HeadObservation:
    """All voxels of a scan, averaged over blocks.

    Attributes:
        observation: the voxels; all of them are inside.
        grid: grid of the blocks.
    """

    observation: Observation
    grid: Grid


def observe_head(volume: Volume, *, spacing: float = 2.0) -> HeadObservation:
    """Return all voxels of a scan, averaged over blocks of about `spacing` mm and standardised.

    Raises:
        DataError: the scan has one value.
    """
    low, high = np.percentile(volume.values, [_TAIL, 100 - _TAIL])
    if low == high:
        raise DataError(f"the scan has the value {low:g} nearly everywhere: there is no head in it; look at it")
    means, grid = average_blocks(np.clip(volume.values, low, high), volume.grid, choose_blocks(volume.grid, spacing))
    centre, scale = float(means.mean()), float(means.std())
    observation = Observation(
        torch.from_numpy(grid.points()).float(),
        torch.from_numpy(((means - centre) / scale).astype(np.float32).ravel()),
        torch.ones(means.size, dtype=torch.bool),
        np.ones(volume.grid.shape, dtype=bool),
        centre,
        scale,
    )
    return HeadObservation(observation, grid)


def make_head_appearances(atlas: HeadAtlas) -> Appearances:
    """Return the atlas of a whole head, with the Gaussians of each part."""
    return _make_appearances(atlas, [part.tissues for part in HEAD_PARTS])


def make_stripped_appearances(atlas: HeadAtlas) -> Appearances:
    """Return the atlas of a head whose skull was removed: all but the brain and some of its fluid looks like air."""
    tissues = {"fluid": ("fluid", "air")}
    return _make_appearances(
        atlas, [part.tissues if part.in_brain else tissues.get(part.name, ("air",)) for part in HEAD_PARTS]
    )


def _make_appearances(atlas: HeadAtlas, tissues: Sequence[Sequence[str]]) -> Appearances:
    """Return the atlas with Gaussians for the named tissues of each part; every voxel counts, as if in a mask."""
    names = list(dict.fromkeys(name for several in tissues for name in several))
    mixing = mixing_matrix([[names.index(name) for name in several] for several in tissues])
    count = len(tissues)
    probabilities = to_channels_last(atlas.probabilities)
    return Appearances(probabilities, atlas.grid, mixing, torch.arange(count), torch.ones(count, 1))


def has_skull(whole: HeadStart, stripped: HeadStart) -> bool:
    """Return whether a scan is explained better by a head than by a brain that is surrounded by one brightness."""
    return whole.log_likelihood > stripped.log_likelihood + _LEAST_GAIN


def find_head(observation: Observation, atlas: Appearances) -> HeadStart:
    """Return the most likely position of the head, of many starts."""
    generator = make_generator(0, "find head")
    fitter = Fitter(observation, atlas, HEAD_VELOCITY_GRID, generator)
    starts = _rank_starts(observation, atlas, points=3000, generator=generator)
    return max((_refine_start(fitter, start) for start in starts[:_REFINED]), key=lambda start: start.log_likelihood)


def fit_head(observation: Observation, atlas: Appearances, start: HeadStart) -> ScanFit:
    """Return the fit of a head, with a deformation, from its position."""
    near = _select_near(observation, atlas, start.affine)
    fitter = Fitter(near, atlas, HEAD_VELOCITY_GRID, make_generator(0, "fit head"))
    affine = fitter.refine_affine(start.affine, start.gaussians)
    gaussians = fitter.fit_gaussians(affine, None, start.gaussians)
    affine = fitter.refine_affine(affine, gaussians, steps=25, rate=0.003)
    gaussians = fitter.fit_gaussians(affine, None, gaussians)
    return fit_deformation(fitter, ScanFit(affine, None, HEAD_VELOCITY_GRID, gaussians, math.nan))


def _rank_starts(
    observation: Observation, atlas: Appearances, *, points: int, generator: torch.Generator
) -> list[HeadStart]:
    """Return all positions, sizes and rotations that are tried, the most likely first."""
    indices = draw_indices(len(observation.x), points, generator)
    x, positions = observation.x[indices], observation.points[indices]
    floor = deviation_floor(x)
    middle = _find_middle(observation)
    starts = []
    for size in _SIZES:
        for y, z in _SHIFTS:
            for degrees in _ROTATIONS:
                matrix = size * rotation_matrix(degrees)
                affine = Affine(matrix, -matrix @ (middle + torch.tensor([0.0, y, z])))
                prior = sample_at(atlas.probabilities, atlas.grid, affine(positions)) + _TINY
                fit = fit_gaussians(x, prior, start_from_prior(x, prior, atlas.mixing), floor=floor, rounds=5)
                starts.append(HeadStart(affine, fit.gaussians, fit.objectives[-1] / points))
    return sorted(starts, key=lambda start: -start.log_likelihood)


def _find_middle(observation: Observation) -> Float[Tensor, " 3"]:
    """Return the middle of the object: of the voxels that are far from the brightness of the scan's faces."""
    points = observation.points
    low, high = points.min(0).values, points.max(0).values
    face = ((points < low + 1) | (points > high - 1)).any(1)
    distance = (observation.x - observation.x[face].median()).abs()
    weights = (distance > 0.5 * distance.mean()).float()
    return (weights[:, None] * points).sum(0) / weights.sum()


def _refine_start(fitter: Fitter, start: HeadStart, *, steps: int = 24, points: int = 5000) -> HeadStart:
    """Return a start after steps on its affine map and its Gaussians."""
    affine, gaussians = start.affine, start.gaussians
    for _ in range(3):
        gaussians = fitter.fit_gaussians(affine, None, gaussians, rounds=3, points=points)
        affine = fitter.refine_affine(affine, gaussians, steps=steps // 3, points=points, rate=0.01)
    gaussians = fitter.fit_gaussians(affine, None, gaussians, rounds=3, points=points)
    return HeadStart(affine, gaussians, fitter.log_likelihood(affine, None, gaussians))


def _select_near(observation: Observation, atlas: Appearances, affine: Affine) -> Observation:
    """Return the voxels of a scan near the box of the atlas: a large field of view has much air, or a body."""
    corners = torch.from_numpy(atlas.grid.corners()).float()
    low, high = corners.min(0).values - _BEYOND, corners.max(0).values + _BEYOND
    atlas_points = affine(observation.points)
    near = ((atlas_points > low) & (atlas_points < high)).all(1)
    return replace(observation, points=observation.points[near], x=observation.x[near], inside=observation.inside[near])
