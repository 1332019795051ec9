"""Brain extraction: the brain mask of a scan with its skull, by the model of the head.

The mask is where the posterior of the brain's parts is above one half, in one piece, closed: fluid in sulci and between
the structures of the brain belongs to it, fluid around the brain does not, as skull-stripping programs leave it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy import ndimage

from hardmax.applications.segmentation.atlas.head import HEAD_PARTS, HeadAtlas
from hardmax.applications.segmentation.atlas.transforms import grid_points, sample_at
from hardmax.applications.segmentation.fit.fitting import ScanFit
from hardmax.applications.segmentation.fit.head import (
    HeadObservation,
    HeadStart,
    find_head,
    fit_head,
    has_skull,
    make_head_appearances,
    make_stripped_appearances,
    observe_head,
)
from hardmax.applications.segmentation.fit.observation import select_largest_piece
from hardmax.applications.segmentation.tissues.classes import Appearances
from hardmax.applications.segmentation.tissues.partial_volume import log_density
from hardmax.applications.segmentation.volumes.geometry import Grid, resample
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.errors import DataError

_CLOSING = 6.0  # mm: gaps of up to twice that between parts of the brain are filled
_CHUNK = 2**18  # voxels at a time
_TINY = 1e-6
_COMPLETE = 0.98  # fraction of the brain inside the scan; below, some of it is missing
_LEAST = 0.3  # fraction below which there is no brain to segment


@dataclass(frozen=True, eq=False)
class Extraction:
    """Brain mask of a scan, with the position of the head that it comes from.

    Attributes:
        mask: `[X, Y, Z]`, the brain in the scan's voxels.
        fit: the fit of the head; its affine map also aligns the atlas of the brain.
        coverage: fraction of the brain inside the field of view.
        doubts: sentences on why the mask is doubtful.
    """

    mask: Bool[np.ndarray, "X Y Z"]
    fit: ScanFit
    coverage: float
    doubts: tuple[str, ...]


def find_skull(volume: Volume, atlas: HeadAtlas) -> tuple[bool, HeadObservation, HeadStart]:
    """Return whether a scan has its skull, its voxels, and the most likely position of the head.

    The two explanations are compared by their likelihoods: a whole head, or a brain amid one brightness.
    """
    head = observe_head(volume)
    whole = find_head(head.observation, make_head_appearances(atlas))
    stripped = find_head(head.observation, make_stripped_appearances(atlas))
    return has_skull(whole, stripped), head, whole


@torch.no_grad()
def extract_brain(volume: Volume, atlas: HeadAtlas, head: HeadObservation, start: HeadStart) -> Extraction:
    """Return the brain mask of a scan with its skull.

    Args:
        volume: the scan.
        atlas: the atlas of the head.
        head: the scan's voxels, as `observe_head` returns them.
        start: the position of the head.

    Raises:
        DataError: there is no brain in the field of view.
    """
    appearances = make_head_appearances(atlas)
    with torch.enable_grad():
        fit = fit_head(head.observation, appearances, start)
    coverage = _measure_coverage(volume.grid, atlas, fit)
    if coverage < _LEAST:
        raise DataError(
            f"there is no brain in the scan: {coverage:.0%} of the brain that the head should have is inside the field "
            "of view; look at the scan in a viewer, and check that its header is right"
        )
    brain = _infer_brain(head, appearances, fit)
    piece = select_largest_piece(np.asarray(ndimage.binary_opening(brain > 0.5)))
    if not piece.any():
        raise DataError("there is no brain in the scan: no voxel looks like brain where the head should have it")
    closed = _close(piece, head.grid)
    # Interpolated between the blocks: their edge is smooth, apart from what closing added.
    near = ndimage.binary_dilation(closed)
    soft = np.where(near, np.where(closed & ~piece, 1.0, brain), 0.0).astype(np.float32)
    fine = resample(soft, head.grid, volume.grid, fill=0.0) > 0.5
    mask = np.asarray(ndimage.binary_fill_holes(select_largest_piece(fine)))
    doubts = []
    if coverage < _COMPLETE:
        doubts.append(
            f"About {coverage:.0%} of the brain is inside the field of view: volumes of the structures at its edge are "
            "too small."
        )
    return Extraction(mask, fit, coverage, tuple(doubts))


def _infer_brain(head: HeadObservation, atlas: Appearances, fit: ScanFit) -> Float[np.ndarray, "X Y Z"]:
    """Return the posterior probability of the brain on the blocks."""
    in_brain = torch.tensor([part.in_brain for part in HEAD_PARTS])
    displacement = fit.integrate_velocity()
    points, x = head.observation.points, head.observation.x
    brain = []
    for part_points, part_x in zip(points.split(_CHUNK), x.split(_CHUNK), strict=True):
        prior = sample_at(atlas.probabilities, atlas.grid, fit.to_atlas(part_points, displacement)) + _TINY
        prior = prior / prior.sum(0)
        posterior = (prior.log() + log_density(part_x, fit.gaussians, prior)).softmax(0)
        brain.append(posterior[in_brain].sum(0))
    return torch.cat(brain).view(head.grid.shape).numpy()


def _measure_coverage(grid: Grid, atlas: HeadAtlas, fit: ScanFit) -> float:
    """Return the fraction of the mean brain that lies inside a grid; the deformation is small, and left out."""
    in_brain = torch.tensor([part.in_brain for part in HEAD_PARTS])
    brain = atlas.probabilities[in_brain].sum(0).flatten()
    voxels = grid.to_voxels(fit.affine.inverse()(grid_points(atlas.grid)).double().numpy())
    inside = torch.from_numpy(((voxels > -0.5) & (voxels < np.array(grid.shape) - 0.5)).all(1))
    return float((brain * inside).sum() / brain.sum())


def _close(mask: Bool[np.ndarray, "X Y Z"], grid: Grid) -> Bool[np.ndarray, "X Y Z"]:
    """Return a mask closed by a ball, its holes filled."""
    # Distances beyond the box: its faces must not stop the growth of the mask, nor erode it.
    margin = [int(np.ceil(_CLOSING / side)) + 1 for side in grid.spacing]
    box = ndimage.find_objects(mask.astype(np.uint8))[0]
    padded = np.pad(mask[box], [(side, side) for side in margin])
    grown = np.asarray(ndimage.distance_transform_edt(~padded, sampling=grid.spacing)) <= _CLOSING
    closed = np.asarray(ndimage.distance_transform_edt(grown, sampling=grid.spacing)) > _CLOSING
    inner = tuple(slice(side, -side) for side in margin)
    out = mask.copy()
    out[box] |= closed[inner]
    return np.asarray(ndimage.binary_fill_holes(out))
