"""Voxels that two tissues share: most of a brain's are within a voxel of a border.

Between white matter and a ventricle lie voxels as grey as grey matter. To a model of pure voxels they are caudate, or
cortex; here they are what they are. A voxel holds two labels, both drawn from the prior f at its place, and the first
has the larger part t, uniform on (1/2, 1): the voxel is its. With Gaussians k and l of the two,

`p(x, m) = f_m sum_k W_mk sum_l F_l P_kl(x)`, `P_kl(x) = E_t[N(x; t mu_k + (1 - t) mu_l, sigma_k^2)]`, `F = W' f`.

Where f is sure of one tissue this is its Gaussian. There is no new parameter: f says how many voxels are shared.
The mean over t is that of three equal parts (midpoints); with them the model is a mixture of K^2 x 3 Gaussians whose
means are linear in mu, so that EM has closed steps.

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
_CHUNK = 2**16  # voxels at a time: there are K^2 numbers for each


def log_density(x: Float[Tensor, " N"], gaussians: Gaussians, prior: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    """Return `log p(x | label)` of every label with the larger part of a voxel, the other drawn from the prior.

    Differentiable in the prior. Where one label is certain it is `Gaussians.log_density`.

    Args:
        x: `[N]`, intensities.
        gaussians: of the tissues.
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
    found = []
    for some, around in zip(x.split(_CHUNK), prior.split(_CHUNK, 1), strict=True):
        larger = sum(_kernels(some, gaussians))
        each = _peak_density(gaussians) * torch.einsum("kln,ln->kn", larger, gaussians.mixing.T @ around)
        found.append((gaussians.mixing @ each).clamp_min(torch.finfo(x.dtype).tiny).log())
    return torch.cat(found, 1)


def _kernels(x: Float[Tensor, " N"], gaussians: Gaussians) -> list[Float[Tensor, "K K N"]]:
    """Return the density of x for each part t, over its top: Gaussian k has that part, l has the rest."""
    inverse = 1 / (math.sqrt(2) * gaussians.deviations[:, None])
    own, means = inverse * x, inverse * _means(gaussians.means)
    return [(own[:, None] - one[..., None]).square().neg().exp() for one in means]


def _peak_density(gaussians: Gaussians) -> Float[Tensor, "K 1"]:
    """Return the density of Gaussian k at its mean, over the number of parts."""
    return 1 / (len(_PARTS) * math.sqrt(2 * math.pi) * gaussians.deviations[:, None])


def _means(means: Float[Tensor, " K"]) -> Float[Tensor, "T K K"]:
    """Return the mean of a voxel of which k has the part t, and l the rest."""
    t = means.new_tensor(_PARTS).view(-1, 1, 1)
    return t * means[:, None] + (1 - t) * means


@dataclass(frozen=True, eq=False)
class _Statistics:
    """What an E-step finds.

    Attributes:
        counts: `[T, K, K]`, voxels of each of the Gaussians.
        sums: of their intensities.
        squares: of the squares of these.
        shares: `[M, K]`, how often each label was drawn with each Gaussian.
        log_likelihood: of all voxels.
    """

    counts: Float[Tensor, "T K K"]
    sums: Float[Tensor, "T K K"]
    squares: Float[Tensor, "T K K"]
    shares: Float[Tensor, "M K"]
    log_likelihood: float


def _e_step(x: Float[Tensor, " N"], prior: Float[Tensor, "M N"], gaussians: Gaussians) -> _Statistics:
    around = gaussians.mixing.T @ prior
    both = (around * _peak_density(gaussians))[:, None] * around
    joint = [both * kernel for kernel in _kernels(x, gaussians)]
    likely = torch.stack([one.sum((0, 1)) for one in joint]).sum(0).clamp_min(torch.finfo(x.dtype).tiny)
    belongs = [one / likely for one in joint]
    drawn = sum(one.sum(1) + one.sum(0) for one in belongs)  # with the larger part, and with the smaller
    per_prior = drawn / around.clamp_min(torch.finfo(x.dtype).tiny)
    return _Statistics(
        torch.stack([one.sum(-1) for one in belongs]),
        torch.stack([one @ x for one in belongs]),
        torch.stack([one @ x.square() for one in belongs]),
        gaussians.mixing * (prior @ per_prior.T),
        float(likely.log().sum(dtype=torch.float64)),
    )


def _m_step(found: _Statistics, gaussians: Gaussians, pseudo: PseudoCounts, floor: float) -> Gaussians:
    """Return means by weighted least squares, then deviations about them, then W: neither lowers the objective."""
    precision = gaussians.deviations.square().reciprocal()
    weights, sums = found.counts * precision[:, None], found.sums * precision[:, None]
    t = weights.new_tensor(_PARTS).view(-1, 1, 1)
    cross = (t * (1 - t) * weights).sum(0)
    own = (t.square() * weights).sum((0, 2)) + ((1 - t).square() * weights).sum((0, 1)) + pseudo.counts * precision
    right = (t * sums).sum((0, 2)) + ((1 - t) * sums).sum((0, 1)) + pseudo.counts * precision * pseudo.means
    means = torch.linalg.solve(own.diag() + cross + cross.T, right)
    of_parts = _means(means)
    square = (found.squares - 2 * of_parts * found.sums + of_parts.square() * found.counts).sum((0, 2))
    square = square + pseudo.counts * (pseudo.deviations.square() + (pseudo.means - means).square())
    variances = square / (found.counts.sum((0, 2)) + pseudo.counts)
    rows = found.shares.sum(1, keepdim=True)
    mixing = torch.where(rows > 0, found.shares / rows.clamp_min(torch.finfo(rows.dtype).tiny), gaussians.mixing)
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
    """Fit the Gaussians of a scan by rounds of EM, voxels being shared; as `em.fit_gaussians`, for pure ones, does.

    What never falls is `sum_j log sum_m p(x_j, m)` and the log-prior of the pseudo-counts, which every Gaussian needs
    here: between borders nothing may be left of it.

    Args:
        x: `[N]`, intensities, finite.
        prior: `[M, N]`, f: columns sum to one.
        start: where to begin; its deviations must respect the floor.
        pseudo: voxels that were never seen, some of each Gaussian.
        floor: on the deviations; see `initialization.deviation_floor`.
        rounds: at most.
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
        found = _e_step(x, prior, gaussians)
        objectives.append(found.log_likelihood + float(pseudo.log_prior(gaussians)))
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tolerance * total:
            return Fit(gaussians, objectives)
        gaussians = _m_step(found, gaussians, pseudo, floor)
    last = _e_step(x, prior, gaussians).log_likelihood + float(pseudo.log_prior(gaussians))
    return Fit(gaussians, [*objectives, last])
