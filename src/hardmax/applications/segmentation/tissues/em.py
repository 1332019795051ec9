"""EM for the Gaussians of one scan, given the prior probabilities of the labels.

The E-step assigns each voxel to the Gaussians in proportion to `sum_m f_jm W_mk N(x_j; mu_k, sigma_k^2)`, the M-step
computes weighted means and variances. Voxels have weights c_j (a mask, or a subsample). No round of EM lowers

`objective = sum_j c_j log sum_m f_jm p(x_j | m) + sum_k n_k E_{t ~ pseudo_k}[log N(t; mu_k, sigma_k^2)]`

under the constraint `sigma_k >= floor`. The first term is the exact log-likelihood. The second is the logarithm of a
prior on the Gaussians that is worth `n_k` voxels of a given mean and deviation; without pseudo-counts it is absent.
Jensen's bound is another objective, which these rounds may lower; its E-step is `label_e_step`.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class PseudoCounts:
    """Pseudo-voxels in addition to those of the scan, so that the Gaussian of a small label keeps its support.

    Args:
        counts: `[K]`, n, in voxels; 0 for none, and a very large number freezes a Gaussian.
        means: `[K]`, mean of the pseudo-voxels.
        deviations: `[K]`, deviation of the pseudo-voxels.
    """

    counts: Float[Tensor, " K"]
    means: Float[Tensor, " K"]
    deviations: Float[Tensor, " K"]

    def log_prior(self, gaussians: Gaussians) -> Float[Tensor, ""]:
        """Return `sum_k n_k E[log N(t; mu_k, sigma_k^2)]`, where t has the mean and deviation of the pseudo-voxels."""
        square = self.deviations.square() + (self.means - gaussians.means).square()
        each = -square / (2 * gaussians.deviations.square()) - gaussians.deviations.log() - 0.5 * math.log(2 * math.pi)
        return (self.counts * each).sum()


@dataclass(frozen=True)
class Expectation:
    """Result of an E-step.

    Attributes:
        responsibilities: `[K, N]`, probability of each Gaussian for each voxel; columns sum to one.
        shares: `[M, K]`, weighted number of voxels of each label in each Gaussian; for the M-step of W.
        log_likelihood: `[N]`, log-likelihood of every voxel.
    """

    responsibilities: Float[Tensor, "K N"]
    shares: Float[Tensor, "M K"]
    log_likelihood: Float[Tensor, " N"]


@dataclass(frozen=True)
class Fit:
    """Fitted Gaussians, and the value of the objective before every round and after the last."""

    gaussians: Gaussians
    objectives: list[float]


def e_step(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    gaussians: Gaussians,
    weights: Float[Tensor, " N"] | None = None,
) -> Expectation:
    """Return the responsibility of each Gaussian for each voxel.

    Args:
        x: `[N]`, intensities.
        prior: `[M, N]`, f.
        gaussians: current Gaussians.
        weights: `[N]`, weights of the voxels; None means one each.
    """
    tiny = torch.finfo(x.dtype).tiny
    components = gaussians.log_components(x)
    joint = (gaussians.mixing.T @ prior).clamp_min(tiny).log() + components
    log_likelihood = joint.logsumexp(0)
    relative = (components - log_likelihood).exp()  # N_k / p: the responsibility if the prior were one
    if weights is not None:
        relative = relative * weights
    shares = gaussians.mixing * (prior @ relative.T)
    return Expectation((joint - log_likelihood).exp(), shares, log_likelihood)


def label_e_step(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    gaussians: Gaussians,
    weights: Float[Tensor, " N"] | None = None,
) -> Expectation:
    """Return the E-step of Jensen's bound: labels follow f, and the scan only decides among the Gaussians of a label.

    With `m_step` after it, `sum_j c_j sum_m f_jm log p(x_j | m)` never falls; where each label has one Gaussian, one
    such round is the maximum. `log_likelihood` of the result holds the bound of each voxel.

    Args:
        x: `[N]`, intensities.
        prior: `[M, N]`, f.
        gaussians: current Gaussians.
        weights: `[N]`, weights of the voxels; None means one each.
    """
    components = gaussians.log_components(x)
    responsibilities, bound = torch.zeros_like(components), torch.zeros_like(x)
    shares = torch.zeros_like(gaussians.mixing)
    for m, row in enumerate(gaussians.mixing):
        used = row.nonzero().squeeze(1)
        joint = components[used] + row[used].log()[:, None]
        bound += prior[m] * joint.logsumexp(0)
        part = prior[m] * joint.softmax(0)
        responsibilities[used] += part
        shares[m, used] = part.sum(1) if weights is None else part @ weights
    return Expectation(responsibilities, shares, bound)


def m_step(
    x: Float[Tensor, " N"],
    expectation: Expectation,
    gaussians: Gaussians,
    *,
    weights: Float[Tensor, " N"] | None = None,
    pseudo: PseudoCounts | None = None,
    floor: float = 0.0,
) -> Gaussians:
    r"""Return the best Gaussians for given responsibilities r, in closed form.

    `mu_k = (n_k m_k + sum_j c_j r_jk x_j) / (n_k + sum_j c_j r_jk)`. sigma_k^2 is the mean squared distance from mu_k,
    which is `s_k^2 + (m_k - mu_k)^2` for the pseudo-voxels. The expected objective rises up to the best sigma and falls
    beyond it, so that the larger of the best sigma and the floor is optimal under the constraint. A Gaussian without
    voxels is unchanged.

    Args:
        x: `[N]`, intensities.
        expectation: result of the E-step.
        gaussians: current Gaussians.
        weights: `[N]`, c; None means one each.
        pseudo: pseudo-voxels.
        floor: smallest allowed sigma.
    """
    weighted = expectation.responsibilities
    if weights is not None:
        weighted = weighted * weights
    count, total = weighted.sum(1), weighted @ x
    if pseudo is not None:
        count, total = count + pseudo.counts, total + pseudo.counts * pseudo.means
    empty = count <= torch.finfo(x.dtype).tiny
    safe = torch.where(empty, 1.0, count)
    means = torch.where(empty, gaussians.means, total / safe)
    square = (weighted * (x - means[:, None]).square()).sum(1)
    if pseudo is not None:
        square = square + pseudo.counts * (pseudo.deviations.square() + (pseudo.means - means).square())
    deviations = torch.where(empty, gaussians.deviations, (square / safe).sqrt())
    rows = expectation.shares.sum(1, keepdim=True)
    mixing = torch.where(rows > 0, expectation.shares / rows.clamp_min(torch.finfo(x.dtype).tiny), gaussians.mixing)
    return Gaussians(means, deviations.clamp_min(max(floor, torch.finfo(x.dtype).tiny)), mixing)


@torch.no_grad()
def fit_gaussians(
    x: Float[Tensor, " N"],
    prior: Float[Tensor, "M N"],
    start: Gaussians,
    *,
    weights: Float[Tensor, " N"] | None = None,
    pseudo: PseudoCounts | None = None,
    floor: float = 0.0,
    rounds: int = 20,
    tolerance: float = 1e-6,
) -> Fit:
    """Fit the Gaussians of a scan by rounds of EM; the objective (see the top of this file) never falls.

    Args:
        x: `[N]`, intensities, finite.
        prior: `[M, N]`, f: columns sum to one.
        start: initial Gaussians; their deviations must respect the floor, or the first round may lower the objective.
        weights: `[N]`, weights of the voxels; None means one each.
        pseudo: pseudo-voxels.
        floor: smallest allowed deviation; see `initialization.deviation_floor`.
        rounds: maximum number of rounds.
        tolerance: stop when a round gains less than this, in nats per voxel.

    Returns:
        The Gaussians, and the objective before every round and after the last.

    Raises:
        ArgumentError: intensities that are not finite, or no voxel of any weight.

    Example:
        >>> import torch
        >>> from hardmax.applications.segmentation.tissues.gaussians import mixing_matrix
        >>> from hardmax.applications.segmentation.tissues.initialization import start_from_prior
        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.cat([torch.randn(500, generator=generator), 6 + torch.randn(500, generator=generator)])
        >>> prior = torch.full((2, 1000), 0.3)
        >>> prior[0, :500] = prior[1, 500:] = 0.7
        >>> fit = fit_gaussians(x, prior, start_from_prior(x, prior, mixing_matrix([0, 1])))
        >>> fit.gaussians.means.round().tolist()
        [0.0, 6.0]

    References:
        Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977; for labels with a
        spatial prior: Van Leemput et al., "Automated model-based tissue classification of MR images of the brain",
        1999.
    """
    total = total_weight(x, weights)
    gaussians, objectives = start, []
    for _ in range(rounds):
        expectation = e_step(x, prior, gaussians, weights)
        objectives.append(em_objective(expectation, gaussians, weights, pseudo))
        if len(objectives) > 1 and objectives[-1] - objectives[-2] < tolerance * total:
            return Fit(gaussians, objectives)
        gaussians = m_step(x, expectation, gaussians, weights=weights, pseudo=pseudo, floor=floor)
    objectives.append(em_objective(e_step(x, prior, gaussians, weights), gaussians, weights, pseudo))
    return Fit(gaussians, objectives)


def em_objective(
    expectation: Expectation, gaussians: Gaussians, weights: Float[Tensor, " N"] | None, pseudo: PseudoCounts | None
) -> float:
    """Return the objective that EM never lowers: log-likelihood plus log-prior of the pseudo-counts, in nats."""
    each = expectation.log_likelihood if weights is None else expectation.log_likelihood * weights
    value = each.sum(dtype=torch.float64)
    return float(value if pseudo is None else value + pseudo.log_prior(gaussians))


def total_weight(x: Float[Tensor, " N"], weights: Float[Tensor, " N"] | None) -> float:
    """Check that there are voxels to fit, and return their total weight.

    Raises:
        ArgumentError: intensities that are not finite, or no voxel of any weight.
    """
    total = float(len(x) if weights is None else weights.sum())
    if not x.isfinite().all():
        raise ArgumentError(
            f"{int((~x.isfinite()).sum())} of {len(x)} intensities are not finite; replace NaN and inf before fitting"
        )
    if not total > 0:
        raise ArgumentError("no voxel has any weight: the mask is empty; look at the scan")
    return total
