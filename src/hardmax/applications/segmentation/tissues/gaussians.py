"""Gaussians per tissue class: the likelihood of the intensity of a voxel under each label.

`p(x_j | label m) = sum_k W_mk N(x_j; mu_k, sigma_k^2)`: K Gaussians, and a matrix W `[M, K]` whose rows sum to one. A
row with a single one is a label with one Gaussian; equal rows share it; a row with several entries is a label with
several. Sharing matters: a small label has too few voxels to fit a Gaussian of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError


@dataclass(frozen=True)
class Gaussians:
    """The intensity model of one scan: K Gaussians, and the Gaussians of each label.

    Args:
        means: `[K]`, mu.
        deviations: `[K]`, sigma, positive.
        mixing: `[M, K]`, W: rows sum to one; see `mixing_matrix`.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentError: a deviation that is not positive, or a row of W that is not a distribution.

    Example:
        >>> import torch
        >>> tissue = Gaussians(torch.tensor([0.0, 4.0]), torch.ones(2), mixing_matrix([0, 1, 1]))
        >>> tissue.log_density(torch.tensor([4.0])).shape
        torch.Size([3, 1])
    """

    means: Float[Tensor, " K"]
    deviations: Float[Tensor, " K"]
    mixing: Float[Tensor, "M K"]

    def __post_init__(self) -> None:
        if self.means.shape != self.deviations.shape or self.mixing.shape[-1:] != self.means.shape:
            raise ShapeError(
                f"means, deviations and mixing must have shapes [K], [K] and [M, K], got {list(self.means.shape)}, "
                f"{list(self.deviations.shape)} and {list(self.mixing.shape)}"
            )
        if not (self.deviations > 0).all():
            raise ArgumentError(f"deviations must be positive, got {self.deviations.tolist()}; set a floor")
        if (self.mixing < 0).any() or not torch.allclose(self.mixing.sum(1), self.mixing.new_ones(()), atol=1e-4):
            raise ArgumentError(
                "every row of mixing must be a distribution over the Gaussians: pass mixing_matrix(...)"
            )

    def log_components(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "K *S"]:
        """Return `log N(x; mu_k, sigma_k^2)` of every Gaussian, its normaliser included."""
        lead = (-1,) + (1,) * x.dim()
        means, deviations = self.means.view(lead), self.deviations.view(lead)
        return -0.5 * ((x - means) / deviations).square() - deviations.log() - 0.5 * math.log(2 * math.pi)

    def log_density(self, x: Float[Tensor, "*S"]) -> Float[Tensor, "M *S"]:
        """Return `log p(x | label)` of every label."""
        components = self.log_components(x)
        rows = []
        for row in self.mixing:
            used = row.nonzero().squeeze(1)
            # Most labels have one Gaussian: this avoids an [M, K, *S] array for the few that have more.
            part = components[used] + row[used].log().view(-1, *[1] * x.dim())
            rows.append(part[0] if len(used) == 1 else part.logsumexp(0))
        return torch.stack(rows)


def mixing_matrix(used: Sequence[int | Sequence[int]]) -> Float[Tensor, "M K"]:
    """Return W, the weight of each Gaussian in each label; several Gaussians of a label get equal initial weights.

    Args:
        used: M entries: for each label the number of its Gaussian, or several numbers; numbers start at 0.

    Returns:
        `[M, K]`, where K is one more than the largest number.

    Raises:
        ArgumentError: a label without a Gaussian, a Gaussian without a label, or a number that is negative.

    Example:
        >>> mixing_matrix([[0, 1], 1, 2, 2])
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    sets = [{entry} if isinstance(entry, int) else set(entry) for entry in used]
    numbers = sorted(set().union(*sets))
    if not all(sets) or numbers != list(range(len(numbers))):
        raise ArgumentError(
            f"every label needs a Gaussian, and these are counted 0, 1, ... without a gap, got {list(used)}"
        )
    return torch.tensor([[(k in entry) / len(entry) for k in numbers] for entry in sets])


def tissue_names(tissues: Sequence[Sequence[str]]) -> list[str]:
    """Return the tissues that have Gaussians, in order of first appearance; see `tissue_mixing`."""
    return list(dict.fromkeys(_get_appearance(name) for several in tissues for name in several))


def tissue_mixing(tissues: Sequence[Sequence[str]]) -> Float[Tensor, "M K"]:
    """Return the W of labels that share one Gaussian per tissue; Gaussians are numbered in order of first appearance.

    Inside a brain mask, voxels without a structure are fluid: the background has the fluid's Gaussian there.

    Args:
        tissues: M sequences: the names of the tissues of each label (`LabelTable`).

    Example:
        >>> tissue_mixing([["background"], ["white"], ["grey"], ["fluid"], ["white", "grey"]])
        tensor([[1.0000, 0.0000, 0.0000],
                [0.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000],
                [1.0000, 0.0000, 0.0000],
                [0.0000, 0.5000, 0.5000]])
    """
    names = tissue_names(tissues)
    return mixing_matrix([[names.index(_get_appearance(name)) for name in several] for several in tissues])


def _get_appearance(tissue: str) -> str:
    return "fluid" if tissue == "background" else tissue


def log_likelihood(
    x: Float[Tensor, "*S"], log_prior: Float[Tensor, "M *S"], gaussians: Gaussians
) -> Float[Tensor, "*S"]:
    r"""Return the exact log-likelihood of every voxel, `log sum_m f_jm p(x_j | m)`.

    Given the anatomy z, the labels of voxels are independent, so `p(x | z)` factorises, and the sum over all
    segmentations is one log-sum-exp per voxel. It is never below `jensen_bound`.

    Args:
        x: `[*S]`, intensities.
        log_prior: `[M, *S]`, `log f`, normalised over labels.
        gaussians: Gaussians of this scan.

    Returns:
        `[*S]`, in nats; sum over voxels for `log p(x | z)`.

    Example:
        >>> import torch
        >>> tissue = Gaussians(torch.tensor([0.0, 4.0]), torch.ones(2), mixing_matrix([0, 1]))
        >>> half = torch.full((2, 3), 0.5).log()
        >>> log_likelihood(torch.tensor([0.0, 2.0, 4.0]), half, tissue)
        tensor([-1.6118, -2.9189, -1.6118])

    References:
        Dalca, Guttag & Sabuncu, "Anatomical priors in convolutional networks for unsupervised biomedical
        segmentation", 2018, who call the sum intractable and bound it.
    """
    return (log_prior + gaussians.log_density(x)).logsumexp(0)


def jensen_bound(x: Float[Tensor, "*S"], log_prior: Float[Tensor, "M *S"], gaussians: Gaussians) -> Float[Tensor, "*S"]:
    r"""Return Jensen's bound of the log-likelihood of every voxel, `sum_m f_jm log p(x_j | m)`.

    The gap to `log_likelihood` is `KL(f_j || posterior_j)`: zero only where the scan adds no information. The published
    form drops `-1/2 log(2 pi sigma_m^2)`, which is constant only where all deviations are equal; it is kept here.

    Args:
        x: `[*S]`, intensities.
        log_prior: `[M, *S]`, `log f`, normalised over labels.
        gaussians: Gaussians of this scan.

    Returns:
        `[*S]`, in nats.

    Example:
        >>> import torch
        >>> tissue = Gaussians(torch.tensor([0.0, 4.0]), torch.ones(2), mixing_matrix([0, 1]))
        >>> half = torch.full((2, 3), 0.5).log()
        >>> jensen_bound(torch.tensor([0.0, 2.0, 4.0]), half, tissue)
        tensor([-4.9189, -2.9189, -4.9189])

    References:
        Dalca, Guttag & Sabuncu, 2018, eq. 8.
    """
    return (log_prior.exp() * gaussians.log_density(x)).sum(0)


def posterior(x: Float[Tensor, "*S"], log_prior: Float[Tensor, "M *S"], gaussians: Gaussians) -> Float[Tensor, "M *S"]:
    """Return the probability of every label, `f_jm p(x_j | m) / sum_n f_jn p(x_j | n)`; the arg max segments the scan.

    Labels that share their Gaussians are distinguished only by f.

    Example:
        >>> import torch
        >>> tissue = Gaussians(torch.tensor([0.0, 4.0]), torch.ones(2), mixing_matrix([0, 1, 1]))
        >>> log_prior = torch.tensor([0.5, 0.4, 0.1]).log()[:, None]
        >>> posterior(torch.tensor([4.0]), log_prior, tissue)[:, 0]
        tensor([3.3535e-04, 7.9973e-01, 1.9993e-01])
    """
    return (log_prior + gaussians.log_density(x)).softmax(0)
