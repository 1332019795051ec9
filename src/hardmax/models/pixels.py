"""What models of pictures share: a decoder, and the likelihood of its pixels."""

from typing import Literal

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood

LikelihoodName = Literal["bernoulli", "gaussian"]
_LOG_VARIANCE = -4.0  # of Gaussian pixels at the start; from 0, Adam would take thousands of steps to there


class AbstractPixels(AbstractModel):
    """A model whose decoder gives the logits of Bernoulli pixels, or the means of Gaussian ones."""

    decoder: nn.Module
    log_variance: nn.Parameter | None
    """Of Gaussian pixels; None where they are Bernoulli."""

    @property
    def noise_variance(self) -> Tensor | float:
        """Of Gaussian pixels, without a gradient; 1 where they are Bernoulli.

        Times this, `log p(x | .)` has gradients for the decoder's output of the same size in both cases: x less the
        mean. Terms that are added to a bound can then have one weight, however finely pixels are drawn.
        """
        return 1.0 if self.log_variance is None else self.log_variance.detach().exp()

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


def learned_variance(likelihood: LikelihoodName) -> nn.Parameter | None:
    """Return the logarithm of the pixels' variance, to be learned; None where they are Bernoulli.

    Raises:
        ArgumentError: an unknown likelihood.
    """
    if likelihood not in ("bernoulli", "gaussian"):
        raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
    return nn.Parameter(torch.full((), _LOG_VARIANCE)) if likelihood == "gaussian" else None
