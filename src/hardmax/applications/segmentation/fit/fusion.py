"""A personal atlas: each map is weighted locally by how well it explains the scan; then the scan is deformed again.

The atlas is the mean of its maps, with equal weights. Around each point y, some maps are more similar to the scan than
others. With `l_i(y) = log sum_m s_im(y) p(x(y) | m)`, where s_i is the i-th map and x the scan resampled to the atlas,

`w_i(y) = softmax_i(trust * sum_{y'} exp(-|y - y'|^2 / 2 reach^2) l_i(y'))`, `f_m(y) = sum_i w_i(y) s_im(y)`.

w_i(y) is the posterior of "at y this person is like map i", where voxels within reach of each other share the choice of
a map. Errors of neighbouring voxels are similar, so their evidence is not independent: trust, below one, reduces it.
Both the maps and their mirror images are used.
"""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage
from torch import Tensor
from torch.nn import functional

from hardmax.applications.segmentation.atlas.atlas import Atlas
from hardmax.applications.segmentation.atlas.transforms import (
    grid_points,
    integrate_velocity,
    sample_at,
    to_channels_last,
    warp_points,
)
from hardmax.applications.segmentation.fit.fitting import Fitter, ScanFit, fit_deformation
from hardmax.applications.segmentation.fit.observation import Observation
from hardmax.applications.segmentation.tissues.classes import (
    Appearances,
    condition_on_mask,
    log_outside,
    sum_appearances,
)
from hardmax.applications.segmentation.tissues.partial_volume import log_density
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.random import make_generator

_REACH = 8.0  # mm
# Fifty voxels of 2 mm count as one. Chosen, with the reach, on scans synthesised from maps left out of the atlas.
_TRUST = 0.02
_ATLAS_WEIGHT = 0.1  # weight of the atlas itself in the result
_OUTLIER_WEIGHT = 0.05  # weight of the atlas in each map, since no map is right everywhere


@torch.no_grad()
def build_personal_prior(
    volume: Volume,
    observation: Observation,
    fit: ScanFit,
    prior: Float[Tensor, "M X Y Z"],
    appearances: Appearances,
    maps: UInt8[Tensor, "N X Y Z"],
    grid: Grid,
) -> Float[Tensor, "M X Y Z"]:
    """Return the probabilities of labels for this scan, on the atlas' grid.

    Args:
        volume: the scan.
        observation: its mask and its units.
        fit: its position in the atlas, and its Gaussians.
        prior: `[M, X, Y, Z]`, the atlas.
        appearances: the labels that look the same.
        maps: `[N, X, Y, Z]`, labels 0..M-1 of the aligned maps.
        grid: grid of the atlas; its middle is between left and right.
    """
    x, inside = resample_scan(volume, observation, fit, grid)
    appearance_prior = appearances.probabilities.flatten(1)
    within = log_density(x, fit.gaussians, condition_on_mask(appearance_prior, appearances.in_mask))
    log_likelihood = torch.where(inside, within, log_outside(appearances.in_mask))
    # [M, X Y Z], of each label.
    likelihood = (log_likelihood - log_likelihood.max(0).values).exp()[appearances.of_label]
    outliers = _OUTLIER_WEIGHT * (prior.flatten(1) * likelihood).sum(0)
    candidates = [candidate for labels in maps for candidate in (labels, labels.flip(0))]
    evidence = torch.stack(
        [
            (outliers + (1 - _OUTLIER_WEIGHT) * likelihood.gather(0, labels.flatten()[None].long())[0])
            .clamp_min(1e-8)
            .log()
            for labels in candidates
        ]
    ).view(-1, *grid.shape)
    weights = _pool_evidence(evidence, float(grid.spacing[0])).softmax(0)
    fused = torch.zeros_like(likelihood)
    for labels, weight in zip(candidates, weights, strict=True):
        fused.scatter_add_(0, labels.flatten()[None].long(), weight.flatten()[None])
    return to_channels_last((1 - _ATLAS_WEIGHT) * fused.view(-1, *grid.shape) + _ATLAS_WEIGHT * prior)


def resample_scan(
    volume: Volume, observation: Observation, fit: ScanFit, grid: Grid
) -> tuple[Float[Tensor, " V"], Bool[Tensor, " V"]]:
    """Return the standardised scan, and whether it is in the mask, at the voxels of a grid in the atlas' space."""
    points = grid_points(grid)
    if fit.velocity is not None:
        points = warp_points(points, integrate_velocity(-fit.velocity, fit.velocity_grid), fit.velocity_grid)
    masked = np.where(observation.mask, observation.standardise(volume.values).numpy(), 0)
    stacked = torch.from_numpy(np.stack([masked, observation.mask.astype(np.float32)]).astype(np.float32))
    x, mask = sample_at(stacked, volume.grid, fit.affine.inverse()(points))
    inside = mask > 0.5
    return torch.where(inside, x / mask.clamp_min(0.5), 0.0), inside


def _pool_evidence(evidence: Float[Tensor, "N X Y Z"], spacing: float) -> Float[Tensor, "N X Y Z"]:
    """Return trust times the sum of the evidence within reach; it is smooth, so half the resolution is enough."""
    shape = evidence.shape[1:]
    coarse = functional.avg_pool3d(evidence[None], 2, ceil_mode=True)[0]
    reach = _REACH / spacing / 2
    voxels = (2 * math.pi) ** 1.5 * (2 * reach) ** 3  # voxels of the grid within reach
    near = np.stack([ndimage.gaussian_filter(volume, reach) for volume in coarse.numpy()])
    fine = functional.interpolate(torch.from_numpy(near)[None], shape, mode="trilinear", align_corners=False)[0]
    return _TRUST * voxels * fine


_STEPS, _RATE = 50, 0.2  # half the steps of the first deformation, and shorter ones: the first did most of the work


def fit_personal_atlas(
    volume: Volume,
    observation: Observation,
    fit: ScanFit,
    atlas: Atlas,
    prior: Float[Tensor, "M X Y Z"],
    appearances: Appearances,
) -> tuple[ScanFit, Float[Tensor, "M X Y Z"]]:
    """Fit a scan to a personal atlas of the maps that are locally most similar to it; return the fit and that atlas.

    Args:
        volume: the scan.
        observation: the part of it that is fitted.
        fit: fit of the first pass.
        atlas: the atlas with its maps.
        prior: `[M, X, Y, Z]`, its softened probabilities.
        appearances: the labels that look the same.
    """
    personal_prior = build_personal_prior(volume, observation, fit, prior, appearances, atlas.maps, atlas.grid)
    summed = sum_appearances(personal_prior, atlas.grid, appearances.mixing[appearances.of_label])
    fitter = Fitter(observation, summed, fit.velocity_grid, make_generator(0, "second fit"))
    return fit_deformation(fitter, fit, steps=_STEPS, rate=_RATE), personal_prior
