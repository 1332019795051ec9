"""What models of pictures share: a decoder, and the likelihood of its pixels."""

from typing import Literal

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood

LikelihoodName = Literal["bernoulli", "gaussian"]


class AbstractPixels(AbstractModel):
    """A model whose decoder gives the logits of Bernoulli pixels, or the means of Gaussian ones."""

    decoder: nn.Module
    log_variance: nn.Parameter | None
    """Of Gaussian pixels; None where they are Bernoulli."""

    def likelihood(self, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective of what the decoder is fed with."""
        return self._likelihood(self.decoder, x)

    def _likelihood(self, decoder: nn.Module, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective of what this decoder is fed with."""
        if self.log_variance is None:
            return BernoulliLikelihood(decoder, x)
        return GaussianLikelihood(decoder, x, self.log_variance)

    @torch.no_grad()
    def _pictures(self, latent: Tensor) -> Tensor:
        """Return the mean picture of each row that the decoder is fed with."""
        parameters = self.decoder(latent)
        return parameters.sigmoid() if self.log_variance is None else parameters


def learned_variance(likelihood: LikelihoodName, start: float = 0.0) -> nn.Parameter | None:
    """Return the logarithm of the pixels' variance, to be learned from a start; None where they are Bernoulli.

    Raises:
        ArgumentError: an unknown likelihood.
    """
    if likelihood not in ("bernoulli", "gaussian"):
        raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
    return nn.Parameter(torch.full((), start)) if likelihood == "gaussian" else None
