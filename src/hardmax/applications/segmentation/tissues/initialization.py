"""Initial Gaussians for EM, from the prior and the scan's intensities, without assuming which tissue is bright."""

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.em import Fit, fit_gaussians, total_weight
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.errors import ArgumentError


def deviation_floor(
    x: Float[Tensor, " N"], weights: Float[Tensor, " N"] | None = None, fraction: float = 0.05
) -> float:
    """Return a floor for sigma: a fraction of the deviation of all intensities, which measures the scan's contrast."""
    return fraction * float(_moments(x, weights)[1])


def start_from_prior(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    mixing: Float[Tensor, "M K"],
    weights: Float[Tensor, " N"] | None = None,
) -> Gaussians:
    """Return initial Gaussians from the prior only: the M-step whose responsibilities are f.

    It assumes nothing about which tissue is bright: a scan and its negative are treated in the same way. The means are
    too close to each other, since f is blurred, but in the right order; EM does the rest. A Gaussian starts from the
    labels that have no other Gaussian, if there are any; several Gaussians of the same labels start at quantiles.

    Args:
        x: `[N]`, intensities.
        prior: `[M, N]`, f.
        mixing: `[M, K]`, W.
        weights: `[N]`, weights of the voxels; None means one each.
    """
    exclusive = mixing * (mixing >= 1)  # labels with one Gaussian
    responsibilities = torch.where((exclusive > 0).any(0), exclusive, mixing).T.to(x) @ prior
    responsibilities = responsibilities if weights is None else responsibilities * weights
    centre, spread = _moments(x, weights)
    count = responsibilities.sum(1)
    safe = count.clamp_min(torch.finfo(x.dtype).tiny)
    occupied = count > 0
    means = torch.where(occupied, (responsibilities @ x) / safe, centre)
    variances = (responsibilities * (x - means[:, None]).square()).sum(1) / safe
    deviations = torch.where(occupied, variances.sqrt(), spread).clamp_min(float(0.05 * spread))
    return Gaussians(means + deviations * _quantile_offsets(mixing).to(x), deviations, mixing.to(x))


def start_from_quantiles(
    x: Float[Tensor, " N"],
    mixing: Float[Tensor, "M K"],
    weights: Float[Tensor, " N"] | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Gaussians:
    """Return initial Gaussians whose means are K evenly spaced quantiles of the scan, in random order.

    Args:
        x: `[N]`, intensities.
        mixing: `[M, K]`, W.
        weights: `[N]`, weights of the voxels; None means one each.
        generator: source of randomness; None means torch's global generator.
    """
    count = mixing.shape[1]
    order = x.argsort()
    rank = (torch.ones_like(x) if weights is None else weights)[order].cumsum(0)
    targets = rank[-1] * (torch.arange(count).to(x) + 0.5) / count
    means = x[order[torch.searchsorted(rank, targets).clamp_max(len(x) - 1)]]
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
    """Fit from the prior's start and from random starts, and return the fit with the highest likelihood.

    Swapping two Gaussians together with their labels would not change the likelihood of a scan, but f does not swap
    with them: among all such permutations, f selects the one that agrees with anatomy.

    Args:
        x: `[N]`, intensities.
        prior: `[M, N]`, f.
        mixing: `[M, K]`, W.
        weights: `[N]`, weights of the voxels; None means one each.
        floor: smallest allowed deviation.
        starts: number of starts, including that from the prior.
        rounds: rounds of EM from each start, and the same number again for the best fit.
        generator: source of randomness of the random starts.

    Raises:
        ArgumentError: starts < 1, or a scan that cannot be fitted.
    """
    if starts < 1:
        raise ArgumentError(f"starts must be at least 1, got {starts}")
    total_weight(x, weights)
    candidates = [start_from_prior(x, prior, mixing, weights)]
    candidates += [start_from_quantiles(x, mixing, weights, generator=generator) for _ in range(starts - 1)]
    fits = [fit_gaussians(x, prior, start, weights=weights, floor=floor, rounds=rounds) for start in candidates]
    best = max(fits, key=lambda fit: fit.objectives[-1])
    more = fit_gaussians(x, prior, best.gaussians, weights=weights, floor=floor, rounds=rounds)
    return Fit(more.gaussians, best.objectives + more.objectives[1:])


def _moments(x: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the weighted mean and deviation of all intensities; a constant scan gets a small deviation."""
    weights = torch.ones_like(x) if weights is None else weights
    mean = (weights * x).sum() / weights.sum()
    deviation = ((weights * (x - mean).square()).sum() / weights.sum()).sqrt()
    return mean, deviation.clamp_min(1e-6 * mean.abs().clamp_min(1e-6))


def _quantile_offsets(mixing: Tensor) -> Tensor:
    """Return the offset of each Gaussian, in deviations, among those with the same labels: 0 for a single one."""
    offsets = mixing.new_zeros(mixing.shape[1])
    patterns = (mixing > 0).T
    for pattern in patterns.unique(dim=0):
        same = (patterns == pattern).all(1).nonzero().squeeze(1)
        quantiles = (torch.arange(len(same), dtype=mixing.dtype) + 0.5) / len(same)
        offsets[same] = torch.special.ndtri(quantiles).to(mixing)
    return offsets
