"""Where EM begins: Gaussians from the prior and the scan's own intensities, with no idea of which tissue is bright."""

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.em import Fit, fit_gaussians, total_weight
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.errors import ArgumentError


def deviation_floor(
    x: Float[Tensor, " N"], weights: Float[Tensor, " N"] | None = None, fraction: float = 0.05
) -> float:
    """Return a floor for sigma: a fraction of the deviation of all intensities, which is the scan's own contrast."""
    return fraction * float(_moments(x, weights)[1])


def start_from_prior(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    mixing: Float[Tensor, "M K"],
    weights: Float[Tensor, " N"] | None = None,
) -> Gaussians:
    """Return Gaussians from the prior alone: the M-step in which every voxel belongs to labels as f says.

    It takes nothing for granted about which tissue is bright, and is the same for a scan and its negative. Means come
    out too near to each other, since f is blurred, but in the right order; EM does the rest. A Gaussian begins with the
    labels that have it alone, if there are any; several of the same labels begin at quantiles.

    Args:
        x: `[N]`, intensities.
        prior: `[M, N]`, f.
        mixing: `[M, K]`, W.
        weights: `[N]`, of voxels; None is one each.
    """
    alone = mixing * (mixing >= 1)
    belongs = torch.where((alone > 0).any(0), alone, mixing).T.to(x) @ prior
    belongs = belongs if weights is None else belongs * weights
    centre, spread = _moments(x, weights)
    count = belongs.sum(1)
    safe = count.clamp_min(torch.finfo(x.dtype).tiny)
    seen = count > 0
    means = torch.where(seen, (belongs @ x) / safe, centre)
    variances = (belongs * (x - means[:, None]).square()).sum(1) / safe
    deviations = torch.where(seen, variances.sqrt(), spread).clamp_min(float(0.05 * spread))
    return Gaussians(means + deviations * _spread(mixing).to(x), deviations, mixing.to(x))


def start_from_quantiles(
    x: Float[Tensor, " N"],
    mixing: Float[Tensor, "M K"],
    weights: Float[Tensor, " N"] | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Gaussians:
    """Return Gaussians whose means are K evenly spaced quantiles of the scan, dealt out at random.

    Args:
        x: `[N]`, intensities.
        mixing: `[M, K]`, W.
        weights: `[N]`, of voxels; None is one each.
        generator: where the randomness comes from; None is torch's global generator.
    """
    count = mixing.shape[1]
    order = x.argsort()
    rank = (torch.ones_like(x) if weights is None else weights)[order].cumsum(0)
    wanted = rank[-1] * (torch.arange(count).to(x) + 0.5) / count
    means = x[order[torch.searchsorted(rank, wanted).clamp_max(len(x) - 1)]]
    means = means[torch.randperm(count, generator=generator)]
    spread = _moments(x, weights)[1]
    return Gaussians(means, (2 * spread / count).expand(count).clone(), mixing.to(x))


@torch.no_grad()
def fit_from_starts(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    mixing: Float[Tensor, "M K"],
    *,
    weights: Float[Tensor, " N"] | None = None,
    floor: float = 0.0,
    starts: int = 4,
    rounds: int = 20,
    generator: torch.Generator | None = None,
) -> Fit:
    """Fit from the prior's start and from random ones, and keep the one with the highest likelihood.

    The likelihood of a scan does not change where two Gaussians and their labels change places, but f does not change
    with them: of all such permutations it picks the one that agrees with anatomy.

    Args:
        x: `[N]`, intensities.
        prior: `[M, N]`, f.
        mixing: `[M, K]`, W.
        weights: `[N]`, of voxels; None is one each.
        floor: on the deviations.
        starts: how many, the prior's own included.
        rounds: of EM for each, and as many again for the best.
        generator: for the random starts.

    Raises:
        ArgumentError: no start, or a scan that cannot be fitted.
    """
    if starts < 1:
        raise ArgumentError(f"starts must be at least 1, got {starts}")
    total_weight(x, weights)
    begins = [start_from_prior(x, prior, mixing, weights)]
    begins += [start_from_quantiles(x, mixing, weights, generator=generator) for _ in range(starts - 1)]
    fits = [fit_gaussians(x, prior, begin, weights=weights, floor=floor, rounds=rounds) for begin in begins]
    best = max(fits, key=lambda fit: fit.objectives[-1])
    more = fit_gaussians(x, prior, best.gaussians, weights=weights, floor=floor, rounds=rounds)
    return Fit(more.gaussians, best.objectives + more.objectives[1:])


def _moments(x: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the weighted mean and deviation of all intensities; a constant scan gets a small deviation."""
    weights = torch.ones_like(x) if weights is None else weights
    mean = (weights * x).sum() / weights.sum()
    deviation = ((weights * (x - mean).square()).sum() / weights.sum()).sqrt()
    return mean, deviation.clamp_min(1e-6 * mean.abs().clamp_min(1e-6))


def _spread(mixing: Tensor) -> Tensor:
    """Return for each Gaussian its place, in deviations, among those with the same labels: 0 where it is alone."""
    place = mixing.new_zeros(mixing.shape[1])
    patterns = (mixing > 0).T
    for pattern in patterns.unique(dim=0):
        same = (patterns == pattern).all(1).nonzero().squeeze(1)
        quantiles = (torch.arange(len(same), dtype=mixing.dtype) + 0.5) / len(same)
        place[same] = torch.special.ndtri(quantiles).to(mixing)
    return place
