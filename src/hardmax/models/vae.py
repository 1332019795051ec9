"""What VAEs with a discrete latent share: a space, a prior, and the likelihood of pixels."""

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood
from hardmax.spaces import AbstractSpace, PairwiseBinary

Architecture = Literal["mlp", "conv"]
PriorName = Literal["uniform", "learned"]
LikelihoodName = Literal["bernoulli", "gaussian"]

_EXACT_UP_TO = 2**16  # codes; beyond, bounds are sampled


class AbstractVAE(AbstractModel):
    """A model of pictures with an encoder that scores the z of a space, and a decoder to pixels.

    Args:
        space: what z may be.
        prior: "uniform", or "learned" scores of p(z).
        likelihood: "bernoulli" (x in [0, 1]; the decoder gives logits) or "gaussian" (means; one learned variance).
    """

    decoder: nn.Module

    def __init__(self, space: AbstractSpace, prior: PriorName, likelihood: LikelihoodName) -> None:
        super().__init__()
        if prior not in ("uniform", "learned"):
            raise ArgumentError(f"prior must be 'uniform' or 'learned', got {prior!r}")
        if likelihood not in ("bernoulli", "gaussian"):
            raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
        if prior == "learned" and not (space.offers("log_prob") and space.offers("draw")):
            raise ArgumentError(
                f"a learned prior needs exact probabilities, which {space} does not offer; use 'uniform'"
            )
        if prior == "learned" and isinstance(space, PairwiseBinary) and space.supermodular:
            raise ArgumentError(f"a learned prior may not keep the promise of {space}; use 'uniform'")
        self.space = space
        self.prior = nn.Parameter(torch.zeros(space.score_shape)) if prior == "learned" else None
        self.log_variance = nn.Parameter(torch.zeros(())) if likelihood == "gaussian" else None

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return the scores of z for pictures: `[B, *shape] -> [B, *score]`."""

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the encoder's best z for each picture: `[B, *shape] -> [B, *event]`."""
        return self.space.argmax(self.scores(x))

    def likelihood(self, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective of what the decoder is fed with."""
        return self._likelihood(self.decoder, x)

    def _likelihood(self, decoder: nn.Module, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective of what this decoder is fed with."""
        if self.log_variance is None:
            return BernoulliLikelihood(decoder, x)
        return GaussianLikelihood(decoder, x, self.log_variance)

    @property
    def enumerable(self) -> bool:
        """Whether z can be gone through, so that `bounds` are exact in it."""
        return self.space.size <= _EXACT_UP_TO

    @torch.no_grad()
    def _pictures(self, latent: Tensor) -> Tensor:
        """Return the mean picture of each row that the decoder is fed with."""
        parameters = self.decoder(latent)
        return parameters.sigmoid() if self.log_variance is None else parameters

    @torch.no_grad()
    def draw_prior(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw z from the prior, `[count, *event]`."""
        parameter = next(self.parameters())
        scores = parameter.new_zeros(self.space.score_shape) if self.prior is None else self.prior
        if self.space.offers("draw"):
            return self.space.sample(scores, count, generator=generator)
        # The prior is uniform, and with scores of zero perturb-and-MAP is so too.
        noise = self.space.noise((count,), generator=generator, dtype=scores.dtype, device=scores.device)
        return self.space.argmax(self.space.perturb(scores, noise))
