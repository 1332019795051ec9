"""Three scores of a voxel's intensity under f, each with its fit of the Gaussians: three ways to train q(z | x).

| | score of a voxel | its mean over draws |
|---|---|---|
| `ExactLikelihood` | `log sum_m f_jm p(x_j | m)` | itself |
| `JensenBound` | `sum_m f_jm log p(x_j | m)` | itself, never above the exact one |
| `SampledSegmentation` | `log p(x_j | s_j)`, s_j drawn from f_j | Jensen's bound |

Each comes with the M-step of its own objective, so that the steps of the Gaussians and of q raise the same objective.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.applications.segmentation.tissues.em import fit_gaussians, label_e_step, m_step
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, jensen_bound, log_likelihood
from hardmax.applications.segmentation.tissues.initialization import deviation_floor, fit_from_starts, start_from_prior
from hardmax.estimators import AbstractSampler, GumbelSoftmax
from hardmax.expectations import sample
from hardmax.spaces import Categorical

_DRAW = GumbelSoftmax(tau=0.5, hard=True)


class AbstractVoxelScore(ABC):
    """A score of every voxel, and the Gaussians that raise it."""

    def __call__(
        self, x: Float[Tensor, "*S"], log_prior: Float[Tensor, "M *S"], gaussians: Gaussians
    ) -> Float[Tensor, "*S"]:
        """Return the score of every voxel.

        Args:
            x: `[*S]`, intensities.
            log_prior: `[M, *S]`, `log f`, normalised over labels.
            gaussians: Gaussians of this scan.
        """
        return self._score(x, log_prior, gaussians)

    @torch.no_grad()
    def fit(
        self,
        x: Float[Tensor, " N"],
        prior: Float[Tensor, "M N"],
        mixing: Float[Tensor, "M K"],
        before: Gaussians | None = None,
    ) -> Gaussians:
        """Fit the Gaussians for a given f: a few rounds from given Gaussians, or from scratch.

        Args:
            x: `[N]`, intensities.
            prior: `[M, N]`, f.
            mixing: `[M, K]`, the Gaussians of each label.
            before: initial Gaussians; None means from scratch.
        """
        return self._fit(x, prior, mixing, before)

    @abstractmethod
    def _score(self, x: Tensor, log_prior: Tensor, gaussians: Gaussians) -> Tensor: ...

    @abstractmethod
    def _fit(self, x: Tensor, prior: Tensor, mixing: Tensor, before: Gaussians | None) -> Gaussians: ...


@final
@dataclass(frozen=True)
class ExactLikelihood(AbstractVoxelScore):
    """The exact log-likelihood, with rounds of EM.

    Args:
        rounds: rounds of EM from given Gaussians; from scratch, there are several starts with more rounds. The random
            starts have a fixed seed: the same scan gives the same Gaussians.
    """

    rounds: int = 3

    def _score(self, x: Tensor, log_prior: Tensor, gaussians: Gaussians) -> Tensor:
        """Return `log sum_m f_jm p(x_j | m)`."""
        return log_likelihood(x, log_prior, gaussians)

    def _fit(self, x: Tensor, prior: Tensor, mixing: Tensor, before: Gaussians | None) -> Gaussians:
        """Return the Gaussians after EM."""
        floor = deviation_floor(x)
        if before is None:
            return fit_from_starts(x, prior, mixing, floor=floor, generator=torch.Generator().manual_seed(0)).gaussians
        return fit_gaussians(x, prior, before, floor=floor, rounds=self.rounds).gaussians


@final
@dataclass(frozen=True)
class JensenBound(AbstractVoxelScore):
    """Jensen's bound of the log-likelihood, with its M-step, which assigns voxels to labels in proportion to f.

    It favours an f that is certain where the labels look different, and wide Gaussians where f is not certain. On
    phantoms and on scans it segments less well than the exact likelihood, which costs no more.
    """

    def _score(self, x: Tensor, log_prior: Tensor, gaussians: Gaussians) -> Tensor:
        """Return `sum_m f_jm log p(x_j | m)`."""
        return jensen_bound(x, log_prior, gaussians)

    def _fit(self, x: Tensor, prior: Tensor, mixing: Tensor, before: Gaussians | None) -> Gaussians:
        """Return the Gaussians after one round of its EM."""
        start = start_from_prior(x, prior, mixing) if before is None else before
        return m_step(x, label_e_step(x, prior, start), start, floor=deviation_floor(x))


@final
@dataclass(frozen=True)
class SampledSegmentation(AbstractVoxelScore):
    r"""The score of a hard segmentation drawn from f, with a gradient through the draw: `sum_m s_jm log p(x_j | m)`.

    This puts a discrete segmentation inside the auto-encoder. Its mean over s is Jensen's bound, so it estimates that
    bound, never the exact likelihood. Bias of the gradient: none with `StraightThrough()`, since the score is linear in
    s (here its gradient is even free of noise); with `GumbelSoftmax(hard=True)` that of the relaxation, which falls
    with tau. Variance of the value: one draw per voxel, summed over many voxels.

    Args:
        estimator: a sample-style estimator of the library.
        generator: source of the noise; None means torch's global generator.

    Example:
        >>> import torch
        >>> from hardmax.applications.segmentation.tissues.gaussians import mixing_matrix
        >>> tissue = Gaussians(torch.tensor([0.0, 4.0]), torch.ones(2), mixing_matrix([0, 1]))
        >>> scores = torch.zeros(2, 5, requires_grad=True)
        >>> SampledSegmentation()(torch.rand(5), scores.log_softmax(0), tissue).sum().backward()
        >>> scores.grad.shape
        torch.Size([2, 5])

    References:
        Jang, Gu & Poole, "Categorical reparameterization with Gumbel-softmax", 2017.
    """

    estimator: AbstractSampler = _DRAW
    generator: torch.Generator | None = None

    def _score(self, x: Tensor, log_prior: Tensor, gaussians: Gaussians) -> Tensor:
        """Return the score of one draw at every voxel."""
        scores = log_prior.movedim(0, -1)
        s = sample(scores, Categorical(len(log_prior)), self.estimator, generator=self.generator)
        return (s * gaussians.log_density(x).movedim(0, -1)).sum(-1)

    def _fit(self, x: Tensor, prior: Tensor, mixing: Tensor, before: Gaussians | None) -> Gaussians:
        """Return the Gaussians that raise the mean over draws, Jensen's bound."""
        return JensenBound().fit(x, prior, mixing, before)
