"""An atlas for one scan: maps that explain the scan at a place count most there; then the deformation again.

The atlas is the mean of its maps, all equally likely. Around each place y some of them look more like the scan than
others: with `l_i(y) = log sum_m s_im(y) p(x(y) | m)`, s_i the i-th map and x the scan brought to the atlas,

`w_i(y) = softmax_i(trust * sum_{y'} exp(-|y - y'|^2 / 2 reach^2) l_i(y'))`, `f_m(y) = sum_i w_i(y) s_im(y)`,

the posterior of "here this person is like map i" where the choice of a map is shared by voxels within reach of each
other. Neighbouring voxels err alike, so their evidence is not independent: trust, below one, counts them as fewer. Maps
and their mirror images take part.
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
    displacement,
    grid_points,
    sample_at,
    to_channels_last,
    warp,
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
from hardmax.random import stream

_REACH = 8.0  # mm
# One voxel of 2 mm in fifty is independent. Chosen, with the reach, on scans made from maps left out of the atlas.
_TRUST = 0.02
_MEAN = 0.1  # part of the atlas itself in the result
_STRAY = 0.05  # part of the atlas in each map: no map is right everywhere


@torch.no_grad()
def build_personal_prior(
    volume: Volume,
    observed: Observation,
    fit: ScanFit,
    prior: Float[Tensor, "M X Y Z"],
    appearances: Appearances,
    maps: UInt8[Tensor, "N X Y Z"],
    grid: Grid,
) -> Float[Tensor, "M X Y Z"]:
    """Return the probabilities of labels for this scan, on the atlas' grid.

    Args:
        volume: the scan.
        observed: its mask and its units.
        fit: where it lies in the atlas, and its Gaussians.
        prior: `[M, X, Y, Z]`, the atlas.
        appearances: which labels look the same.
        maps: `[N, X, Y, Z]`, labels 0..M-1 of the maps, aligned.
        grid: of the atlas, with its middle between left and right.
    """
    x, inside = resample_scan(volume, observed, fit, grid)
    around = appearances.probabilities.flatten(1)
    within = log_density(x, fit.gaussians, condition_on_mask(around))
    seen = torch.where(inside, within, log_outside(len(around)))
    likely = (seen - seen.max(0).values).exp()[appearances.of_label]  # [M, X Y Z], of each label
    stray = _STRAY * (prior.flatten(1) * likely).sum(0)
    both = [one if side == 0 else one.flip(0) for one in maps for side in (0, 1)]
    evidence = torch.stack(
        [(stray + (1 - _STRAY) * likely.gather(0, one.flatten()[None].long())[0]).clamp_min(1e-8).log() for one in both]
    ).view(-1, *grid.shape)
    weights = _pool_evidence(evidence, float(grid.spacing[0])).softmax(0)
    found = torch.zeros_like(likely)
    for one, weight in zip(both, weights, strict=True):
        found.scatter_add_(0, one.flatten()[None].long(), weight.flatten()[None])
    return to_channels_last((1 - _MEAN) * found.view(-1, *grid.shape) + _MEAN * prior)


def resample_scan(
    volume: Volume, observed: Observation, fit: ScanFit, grid: Grid
) -> tuple[Float[Tensor, " V"], Bool[Tensor, " V"]]:
    """Return the scan, standardised, and whether it is in the mask, at the voxels of a grid in the atlas."""
    points = grid_points(grid)
    if fit.velocity is not None:
        points = warp(points, displacement(-fit.velocity, fit.velocity_grid), fit.velocity_grid)
    masked = np.where(observed.mask, observed.standardise(volume.values).numpy(), 0)
    stacked = torch.from_numpy(np.stack([masked, observed.mask.astype(np.float32)]).astype(np.float32))
    x, mask = sample_at(stacked, volume.grid, fit.place.inverse()(points))
    inside = mask > 0.5
    return torch.where(inside, x / mask.clamp_min(0.5), 0.0), inside


def _pool_evidence(evidence: Float[Tensor, "N X Y Z"], spacing: float) -> Float[Tensor, "N X Y Z"]:
    """Return trust times the evidence within reach; it is smooth, so half of the grid will do."""
    shape = evidence.shape[1:]
    coarse = functional.avg_pool3d(evidence[None], 2, ceil_mode=True)[0]
    reach = _REACH / spacing / 2
    voxels = (2 * math.pi) ** 1.5 * (2 * reach) ** 3  # of the grid, within reach
    near = np.stack([ndimage.gaussian_filter(one, reach) for one in coarse.numpy()])
    fine = functional.interpolate(torch.from_numpy(near)[None], shape, mode="trilinear", align_corners=False)[0]
    return _TRUST * voxels * fine


_STEPS, _RATE = 50, 0.2  # half of the way, and shorter steps: most was done in the first pass


def fit_personal_atlas(
    volume: Volume,
    observed: Observation,
    fit: ScanFit,
    atlas: Atlas,
    prior: Float[Tensor, "M X Y Z"],
    appearances: Appearances,
) -> tuple[ScanFit, Float[Tensor, "M X Y Z"]]:
    """Return the fit to an atlas of the maps that are most like the scan, place by place, and that atlas.

    Args:
        volume: the scan.
        observed: what of it is fitted.
        fit: of the first pass.
        atlas: with its maps.
        prior: `[M, X, Y, Z]`, its probabilities, softened.
        appearances: which labels look the same.
    """
    own = build_personal_prior(volume, observed, fit, prior, appearances, atlas.maps, atlas.grid)
    summed = sum_appearances(own, atlas.grid, appearances.mixing[appearances.of_label])
    fitter = Fitter(observed, summed, fit.velocity_grid, stream(0, "second fit"))
    return fit_deformation(fitter, fit, steps=_STEPS, rate=_RATE), own
