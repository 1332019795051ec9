"""Structured spaces whose partition function can be computed."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.random import gumbel
from hardmax.spaces.abstract import AbstractSpace

NEVER = -1e30
"""Log-weight of what cannot be: finite, so that no derivative of a sum of such is NaN."""


class AbstractGibbs(AbstractSpace):
    """A space that can sum over its members: `log Z = log sum_z exp <scores, statistics(z)>`.

    Different scores may belong to the same q. Those with `log Z = 0`, the *normalised* scores s~, give

        log q(z) = <s~, statistics(z)>,    H(q) = -<s~, marginals>,    KL(q || p) = <s~ - t~, marginals>

    and let large scores cancel part by part. All is plain torch, so gradients of any order follow; half precision
    is computed in float32.
    """

    @abstractmethod
    def log_partition(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return log Z: `[*B, *score] -> [*B]`, differentiable; its gradient is `marginals`."""

    @abstractmethod
    def _normalise(self, scores: Tensor) -> Tensor:
        """Return the normalised scores of the same q, in the dtype of these: `[*B, *score]`."""

    @abstractmethod
    def _moments(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normalised scores and the marginals, in the dtype of scores: `[*B, *score]` each."""

    def noise(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "..."]:
        """Draw Gumbel noise, independent for every score."""
        return gumbel((*shape, *self.score_shape), generator=generator, dtype=dtype, device=device)

    def log_prob(self, scores: Float[Tensor, "..."], z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return `<scores, statistics(z)> - log Z`."""
        self.batch_shape(scores)
        normalised = self._normalise(widened(scores))
        return self.dot(normalised, self.statistics(z.to(normalised.dtype))).to(scores.dtype)

    def entropy(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return `log Z - <scores, marginals>`, in nats."""
        self.batch_shape(scores)
        normalised, marginals = self._moments(widened(scores))
        return -self.dot(normalised, marginals).to(scores.dtype)

    def kl(self, scores: Float[Tensor, "..."], prior: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
        """Return `KL(q || p)`; p is given by its scores, or uniform over the members."""
        self.batch_shape(scores)
        normalised, marginals = self._moments(widened(scores))
        if prior is None:
            return (self.dot(normalised, marginals) + self.log_size).to(scores.dtype)
        self.batch_shape(prior)
        return self.dot(normalised - self._normalise(widened(prior)), marginals).to(scores.dtype)

    def marginals(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return `E_q[statistics(z)]`."""
        self.batch_shape(scores)
        return self._moments(widened(scores))[1].to(scores.dtype)


def widened(scores: Tensor) -> Tensor:
    """Return scores in float32 or wider."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def log_add(first: Tensor, second: Tensor) -> Tensor:
    """Return `log(exp(first) + exp(second))`; unlike `torch.logaddexp`, with second derivatives at any distance."""
    return torch.stack(torch.broadcast_tensors(first, second)).logsumexp(0)


def log_uniform(noise: Tensor) -> Tensor:
    """Return the logarithm of uniform numbers from Gumbel noise: its CDF is `exp(-exp(-g))`."""
    return -(-widened(noise)).exp()
