"""Partial volume: a model of voxels that two tissues share. Most voxels of a brain are within a voxel of a border.

Between white matter and a ventricle lie voxels as grey as grey matter. A model of pure voxels labels them caudate or
cortex; here they are mixtures. A voxel holds two labels, both drawn from the prior f at its position. The first has the
larger part t, uniform on (1/2, 1), and gives the voxel its label. With Gaussians k and l of the two labels,

`p(x, m) = f_m sum_k W_mk sum_l F_l P_kl(x)`, `P_kl(x) = E_t[N(x; t mu_k + (1 - t) mu_l, sigma_k^2)]`, `F = W' f`.

Where f is certain of one tissue this is its Gaussian. There is no new parameter: f determines the number of shared
voxels. The mean over t is that of three equal parts (midpoints); with them the model is a mixture of K^2 x 3 Gaussians
whose means are linear in mu, so that both steps of EM are in closed form.

References:
    Van Leemput et al., "A unifying framework for partial volume segmentation of brain MR images", 2003.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.em import Fit, PseudoCounts, total_weight
from hardmax.applications.segmentation.tissues.gaussians import Gaussians

_PARTS = (11 / 12, 9 / 12, 7 / 12)  # midpoints of the thirds of (1/2, 1)
_CHUNK = 2**16  # voxels at a time: each needs K^2 numbers


def log_density(x: Float[Tensor, " N"], gaussians: Gaussians, prior: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    """Return `log p(x | label)` of every label as the larger part of a voxel; the other label is drawn from the prior.

    Differentiable in the prior. Where one label is certain, the result is `Gaussians.log_density`.

    Args:
        x: `[N]`, intensities.
        gaussians: Gaussians of the tissues.
        prior: `[M, N]`, f; columns sum to one.

    Example:
        >>> import torch
        >>> from hardmax.applications.segmentation.tissues.gaussians import mixing_matrix
        >>> tissues = Gaussians(torch.tensor([0.0, 4.0, 8.0]), torch.full((3,), 0.6), mixing_matrix([0, 1, 2]))
        >>> border = torch.tensor([[0.475], [0.05], [0.475]])  # of the dark and the bright one
        >>> x = torch.tensor([3.2])
        >>> [int((border.log() + each).argmax()) for each in (tissues.log_density(x), log_density(x, tissues, border))]
        [1, 0]
    """
    chunks = []
    for part, chunk_prior in zip(x.split(_CHUNK), prior.split(_CHUNK, 1), strict=True):
        larger = sum(_kernels(part, gaussians))
        each = _peak_density(gaussians) * torch.einsum("kln,ln->kn", larger, gaussians.mixing.T @ chunk_prior)
        chunks.append((gaussians.mixing @ each).clamp_min(torch.finfo(x.dtype).tiny).log())
    return torch.cat(chunks, 1)


def _kernels(x: Float[Tensor, " N"], gaussians: Gaussians) -> list[Float[Tensor, "K K N"]]:
    """Return the density of x for each part t, relative to its peak: Gaussian k has that part, l has the rest."""
    inverse = 1 / (math.sqrt(2) * gaussians.deviations[:, None])
    scaled, means = inverse * x, inverse * _mixed_means(gaussians.means)
    return [(scaled[:, None] - part_means[..., None]).square().neg().exp() for part_means in means]


def _peak_density(gaussians: Gaussians) -> Float[Tensor, "K 1"]:
    """Return the density of Gaussian k at its mean, divided by the number of parts."""
    return 1 / (len(_PARTS) * math.sqrt(2 * math.pi) * gaussians.deviations[:, None])


def _mixed_means(means: Float[Tensor, " K"]) -> Float[Tensor, "T K K"]:
    """Return the mean intensity of a voxel in which Gaussian k has the part t, and l the rest."""
    t = means.new_tensor(_PARTS).view(-1, 1, 1)
    return t * means[:, None] + (1 - t) * means


@dataclass(frozen=True, eq=False)
class _Statistics:
    """Sufficient statistics of an E-step.

    Attributes:
        counts: `[T, K, K]`, expected number of voxels of each part t and pair of Gaussians.
        sums: `[T, K, K]`, sums of their intensities.
        squares: `[T, K, K]`, sums of their squared intensities.
        shares: `[M, K]`, expected number of draws of each label with each Gaussian.
        log_likelihood: log-likelihood of all voxels.
    """

    counts: Float[Tensor, "T K K"]
    sums: Float[Tensor, "T K K"]
    squares: Float[Tensor, "T K K"]
    shares: Float[Tensor, "M K"]
    log_likelihood: float


def _e_step(x: Float[Tensor, " N"], prior: Float[Tensor, "M N"], gaussians: Gaussians) -> _Statistics:
    gaussian_prior = gaussians.mixing.T @ prior
    both = (gaussian_prior * _peak_density(gaussians))[:, None] * gaussian_prior
    joint = [both * kernel for kernel in _kernels(x, gaussians)]
    likelihood = torch.stack([density.sum((0, 1)) for density in joint]).sum(0).clamp_min(torch.finfo(x.dtype).tiny)
    responsibilities = [density / likelihood for density in joint]
    expected_draws = sum(
        part.sum(1) + part.sum(0) for part in responsibilities
    )  # as the larger part, and as the smaller
    per_prior = expected_draws / gaussian_prior.clamp_min(torch.finfo(x.dtype).tiny)
    return _Statistics(
        torch.stack([part.sum(-1) for part in responsibilities]),
        torch.stack([part @ x for part in responsibilities]),
        torch.stack([part @ x.square() for part in responsibilities]),
        gaussians.mixing * (prior @ per_prior.T),
        float(likelihood.log().sum(dtype=torch.float64)),
    )


def _m_step(statistics: _Statistics, gaussians: Gaussians, pseudo: PseudoCounts, floor: float) -> Gaussians:
    """Return means by weighted least squares, then deviations about them, then W; no step lowers the objective."""
    precision = gaussians.deviations.square().reciprocal()
    weights, sums = statistics.counts * precision[:, None], statistics.sums * precision[:, None]
    t = weights.new_tensor(_PARTS).view(-1, 1, 1)
    cross = (t * (1 - t) * weights).sum(0)
    diagonal = (t.square() * weights).sum((0, 2)) + ((1 - t).square() * weights).sum((0, 1)) + pseudo.counts * precision
    target = (t * sums).sum((0, 2)) + ((1 - t) * sums).sum((0, 1)) + pseudo.counts * precision * pseudo.means
    means = torch.linalg.solve(diagonal.diag() + cross + cross.T, target)
    part_means = _mixed_means(means)
    square = (statistics.squares - 2 * part_means * statistics.sums + part_means.square() * statistics.counts).sum(
        (0, 2)
    )
    square = square + pseudo.counts * (pseudo.deviations.square() + (pseudo.means - means).square())
    variances = square / (statistics.counts.sum((0, 2)) + pseudo.counts)
    rows = statistics.shares.sum(1, keepdim=True)
    mixing = torch.where(rows > 0, statistics.shares / rows.clamp_min(torch.finfo(rows.dtype).tiny), gaussians.mixing)
    return Gaussians(means, variances.clamp_min(0).sqrt().clamp_min(floor), mixing)


@torch.no_grad()
def fit_partial_volume(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    start: Gaussians,
    pseudo: PseudoCounts,
    *,
    floor: float,
    rounds: int = 20,
    tolerance: float = 1e-6,
) -> Fit:
    """Fit the Gaussians of a scan with shared voxels by EM; `em.fit_gaussians` is the fit for pure voxels.

    The objective, which never falls, is `sum_j log sum_m p(x_j, m)` plus the log-prior of the pseudo-counts. Here every
    Gaussian needs pseudo-counts, since borders may leave it no voxels.

    Args:
        x: `[N]`, intensities, finite.
        prior: `[M, N]`, f: columns sum to one.
        start: initial Gaussians; their deviations must respect the floor.
        pseudo: pseudo-voxels, of which each Gaussian must have some.
        floor: smallest allowed deviation; see `initialization.deviation_floor`.
        rounds: maximum number of rounds.
        tolerance: stop when a round gains less than this, in nats per voxel.

    Raises:
        ArgumentError: intensities that are not finite, or no voxel.

    Example:
        >>> import torch
        >>> from hardmax.applications.segmentation.tissues.gaussians import mixing_matrix
        >>> generator = torch.Generator().manual_seed(0)
        >>> prior = torch.tensor([[0.98, 0.5, 0.02], [0.02, 0.5, 0.98]]).repeat_interleave(500, 1)
        >>> part = torch.where(torch.rand(1500, generator=generator) < prior[0], 0.0, 1.0)
        >>> other = torch.where(torch.rand(1500, generator=generator) < prior[0], 0.0, 1.0)
        >>> x = 6 * (0.7 * part + 0.3 * other) + torch.randn(1500, generator=generator)
        >>> start = Gaussians(torch.tensor([1.0, 4.0]), torch.ones(2), mixing_matrix([0, 1]))
        >>> pseudo = PseudoCounts(torch.ones(2), start.means, start.deviations)
        >>> fit_partial_volume(x, prior, start, pseudo, floor=0.1).gaussians.means.round().tolist()
        [0.0, 6.0]
    """
    total = total_weight(x, None)
    gaussians, objectives = start, []
    for _ in range(rounds):
        statistics = _e_step(x, prior, gaussians)
        objectives.append(statistics.log_likelihood + float(pseudo.log_prior(gaussians)))
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tolerance * total:
            return Fit(gaussians, objectives)
        gaussians = _m_step(statistics, gaussians, pseudo, floor)
    last = _e_step(x, prior, gaussians).log_likelihood + float(pseudo.log_prior(gaussians))
    return Fit(gaussians, [*objectives, last])
