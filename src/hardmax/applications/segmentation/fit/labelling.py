"""Label every voxel of a scan by the arg max of its posterior."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, UInt8
from torch import Tensor

from hardmax.applications.segmentation.atlas.atlas import Atlas
from hardmax.applications.segmentation.atlas.transforms import sample_at
from hardmax.applications.segmentation.fit.fitting import ScanFit
from hardmax.applications.segmentation.fit.observation import Observation, mask_depth
from hardmax.applications.segmentation.tissues.classes import Appearances, log_background
from hardmax.applications.segmentation.tissues.partial_volume import log_density
from hardmax.applications.segmentation.volumes.reading import Volume

_CHUNK = 2**18  # voxels at a time
_EVERY = 8  # step between the voxels used for the evidence
_TINY = 1e-6


@dataclass(frozen=True, eq=False)
class VoxelLabels:
    """Labels of the voxels of a scan.

    Attributes:
        labels: `[X, Y, Z]`, indices in the atlas' table.
        right: `[X, Y, Z]`, whether a voxel of the mask is in the right half of the atlas; False outside of the mask.
        posterior: `[M, X, Y, Z]`, of all labels of the table; None unless requested.
        evidence: log-likelihood per voxel of the mask, minus that with the same tissues anywhere, in nats.
    """

    labels: UInt8[np.ndarray, "X Y Z"]
    right: Bool[np.ndarray, "X Y Z"]
    posterior: Float32[np.ndarray, "M X Y Z"] | None
    evidence: float


@torch.no_grad()
def label_voxels(
    volume: Volume,
    observation: Observation,
    fit: ScanFit,
    atlas: Atlas,
    prior: Float[Tensor, "M X Y Z"],
    appearances: Appearances,
    *,
    kappa: float = 1.0,
    posterior: bool = False,
) -> VoxelLabels:
    """Return the label `argmax_m kappa log f_m(q) + log p(x | m)` of every voxel of the mask; the rest is background.

    A voxel of the mask near its edge is less likely to be background (`log_background`).

    Args:
        volume: the scan.
        observation: its mask and its units.
        fit: its position in the atlas, and its Gaussians.
        atlas: gives the grid and the table.
        prior: `[M, X, Y, Z]`, f on the atlas' grid.
        appearances: the labels that look the same.
        kappa: weight of the log-prior; 1 gives the posterior, and was best on scans synthesised from maps left out of
            the atlas; infinity copies the prior.
        posterior: whether to return the probabilities.
    """
    kept = np.array(atlas.kept, dtype=np.uint8)
    voxels = np.flatnonzero(observation.mask)
    x = observation.standardise(volume.values.ravel()[voxels])
    depth = torch.from_numpy(mask_depth(observation.mask, volume.grid).ravel()[voxels])
    labels = np.zeros(observation.mask.size, dtype=np.uint8)
    right = np.zeros(observation.mask.size, dtype=bool)
    soft = None
    if posterior:
        soft = np.zeros((len(atlas.table), observation.mask.size), dtype=np.float32)
        soft[0] = 1
    displacement = fit.integrate_velocity()
    explained, shares, samples = 0.0, torch.zeros(len(appearances.mixing)), []
    for start in range(0, len(voxels), _CHUNK):
        part = voxels[start : start + _CHUNK]
        indices = np.stack(np.unravel_index(part, volume.grid.shape), 1).astype(np.float64)
        points = torch.from_numpy(volume.grid.to_world(indices)).float()
        atlas_points = fit.to_atlas(points, displacement)
        right[part] = (atlas_points[:, 0] > 0).numpy()  # the middle of the atlas is between the hemispheres
        log_f = (sample_at(prior, atlas.grid, atlas_points) + _TINY).log()
        edge = log_background(depth[start : start + _CHUNK])
        appearance_prior = torch.zeros(len(shares), len(part)).index_add_(0, appearances.of_label, log_f.exp())
        appearance_prior[0] *= edge.exp()  # given that the voxel is in the mask
        log_likelihood = log_density(
            x[start : start + _CHUNK], fit.gaussians, appearance_prior / appearance_prior.sum(0)
        )
        scores = log_f + log_likelihood[appearances.of_label] / kappa
        scores[0] += edge / kappa
        labels[part] = kept[scores.argmax(0).numpy()]
        if soft is not None:
            soft[kept[:, None], part[None]] = (kappa * scores).softmax(0).numpy()
        joint = (appearance_prior.log() + log_likelihood)[:, ::_EVERY]
        each = joint.logsumexp(0)
        explained += float(each.sum(dtype=torch.float64))
        shares += (joint - each).exp().sum(1)
        samples.append(x[start : start + _CHUNK : _EVERY])
    sampled = torch.cat(samples)
    anywhere = (shares / shares.sum()).clamp_min(_TINY)[:, None].expand(-1, len(sampled))
    anywhere_log_likelihood = (
        (anywhere.log() + log_density(sampled, fit.gaussians, anywhere)).logsumexp(0).sum(dtype=torch.float64)
    )
    shape = volume.grid.shape
    return VoxelLabels(
        labels.reshape(shape),
        right.reshape(shape),
        None if soft is None else soft.reshape(-1, *shape),
        (explained - float(anywhere_log_likelihood)) / len(sampled),
    )
