"""Appearances, sums of the labels that share their Gaussians; and the likelihood of the brain mask."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax.applications.segmentation.atlas.transforms import to_channels_last
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.applications.segmentation.tissues.partial_volume import log_density
from hardmax.applications.segmentation.volumes.geometry import Grid

# A mask includes some fluid around the brain, and rarely cuts into the brain.
_BACKGROUND_IN, _BRAIN_IN = 0.15, 0.99
_EDGE = 6.0  # mm


@dataclass(frozen=True, eq=False)
class Appearances:
    """An atlas in which the labels that look the same are summed.

    Args:
        probabilities: `[A, X, Y, Z]`, probabilities of the appearances; the first is the background.
        grid: grid of the voxels.
        mixing: `[A, K]`, the Gaussians of each appearance.
        of_label: `[M]`, the appearance of each label.
        in_mask: `[A, 1]`, the probability that a voxel of each appearance is in the mask of the scan.
    """

    probabilities: Float[Tensor, "A X Y Z"]
    grid: Grid
    mixing: Float[Tensor, "A K"]
    of_label: Int64[Tensor, " M"]
    in_mask: Float[Tensor, "A 1"]


def sum_appearances(probabilities: Float[Tensor, "M X Y Z"], grid: Grid, mixing: Float[Tensor, "M K"]) -> Appearances:
    """Sum the labels that share their Gaussians; the background, though it looks like fluid, stays separate."""
    rows = [(label == 0, *row) for label, row in enumerate(mixing.tolist())]
    unique = list(dict.fromkeys(rows))
    of_label = torch.tensor([unique.index(row) for row in rows])
    summed = torch.zeros(len(unique), *grid.shape).index_add_(0, of_label, probabilities)
    weights = torch.tensor([row[1:] for row in unique])
    return Appearances(to_channels_last(summed), grid, weights, of_label, brain_mask_probability(len(unique)))


def brain_mask_probability(count: int) -> Float[Tensor, "A 1"]:
    """Return, for `count` appearances, the probability of being in the mask of a brain; the first is the background."""
    probability = torch.full((count, 1), _BRAIN_IN)
    probability[0] = _BACKGROUND_IN
    return probability


def log_appearance(
    x: Float[Tensor, " N"],
    inside: Bool[Tensor, " N"],
    gaussians: Gaussians,
    prior: Float[Tensor, "A N"],
    in_mask: Float[Tensor, "A 1"],
) -> Float[Tensor, "A N"]:
    """Return `log p(b | a) + b log p(x | a)` of every appearance a.

    b is 1 inside the mask, else 0. A voxel inside is shared with the labels that the prior has at its position, given
    that it is in the mask.
    """
    within = log_density(x, gaussians, condition_on_mask(prior, in_mask)) + in_mask.log()
    return torch.where(inside, within, log_outside(in_mask))


def log_outside(in_mask: Float[Tensor, "A 1"]) -> Float[Tensor, "A 1"]:
    """Return `log p(not in the mask | a)` of every appearance a: outside the mask, the intensity is not used."""
    return (1 - in_mask).log()


def condition_on_mask(prior: Float[Tensor, "A N"], in_mask: Float[Tensor, "A 1"]) -> Float[Tensor, "A N"]:
    """Return the probabilities of the appearances, given that a voxel is in the mask."""
    joint = prior * in_mask
    return joint / joint.sum(0)


def log_background(depth: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Return what to add to the log-probability of background for a voxel in the mask, `depth` mm from the mask's edge.

    At the edge it is `log P(in the mask | background) - log P(in the mask | brain)`. Masks have no holes: deep inside
    they include everything, fluid too, so that the term falls to zero.
    """
    return math.log(_BACKGROUND_IN / _BRAIN_IN) * (1 - depth / _EDGE).clamp_min(0)
