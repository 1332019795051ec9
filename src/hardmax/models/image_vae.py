"""Base classes of variational auto-encoders of images: a decoder, the likelihood of its pixels, a space and a prior."""

from abc import abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood
from hardmax.spaces import AbstractSpace, PairwiseBinary
from hardmax.spaces.registry import SPACES, load_space_class


def space_to_config(space: AbstractSpace) -> dict[str, Any]:
    """Return the name and the arguments of a space; `vars` would also include its cached properties.

    Raises:
        ArgumentError: a space that is not part of hardmax.
    """
    names = [name for name, record in SPACES.items() if record.kind == type(space).__name__]
    if not names or not is_dataclass(space):
        raise ArgumentError(f"no network of ours serves {space}; make the model with your own networks, not by build")
    return {"name": names[0], **{field.name: getattr(space, field.name) for field in fields(space)}}


def space_from_config(config: dict[str, Any]) -> AbstractSpace:
    """Return the space that `space_to_config` describes; raises KeyError or TypeError for an invalid configuration."""
    arguments = dict(config)
    return load_space_class(arguments.pop("name"))(**arguments)


LikelihoodName = Literal["bernoulli", "gaussian"]
# Initial log-variance of Gaussian pixels, an error of 0.14: the decoder first learns to reconstruct, as if the KL's
# weight were small, and the variance adapts from there. From 0, Adam would take thousands of steps to get there.
_LOG_VARIANCE = -4.0


class AbstractPixels(AbstractModel):
    """A model whose decoder gives the logits of Bernoulli pixels, or the means of Gaussian ones."""

    decoder: nn.Module
    log_variance: nn.Parameter | None
    """Log-variance of Gaussian pixels; None for Bernoulli pixels."""

    @property
    def noise_variance(self) -> Tensor | float:
        """Variance of Gaussian pixels, without a gradient; 1 for Bernoulli pixels.

        Times this variance, `log p(x | .)` has the same gradient for the decoder's output in both cases: x minus the
        mean. Terms that are added to a bound can then have one weight, for any variance of the pixels.
        """
        return 1.0 if self.log_variance is None else self.log_variance.detach().exp()

    def likelihood(self, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective of the decoder's input."""
        return self._likelihood(self.decoder, x)

    def _likelihood(self, decoder: nn.Module, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective of the input of this decoder."""
        if self.log_variance is None:
            return BernoulliLikelihood(decoder, x)
        return GaussianLikelihood(decoder, x, self.log_variance)

    @torch.no_grad()
    def _pictures(self, latent: Tensor) -> Tensor:
        """Return the mean image of each row of the decoder's input."""
        parameters = self.decoder(latent)
        return parameters.sigmoid() if self.log_variance is None else parameters


def make_log_variance(likelihood: LikelihoodName) -> nn.Parameter | None:
    """Return the logarithm of the pixels' variance, a learned parameter; None for Bernoulli pixels.

    Raises:
        ArgumentError: an unknown likelihood.
    """
    if likelihood not in ("bernoulli", "gaussian"):
        raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
    return nn.Parameter(torch.full((), _LOG_VARIANCE)) if likelihood == "gaussian" else None


Architecture = Literal["mlp", "conv"]
PriorName = Literal["uniform", "learned"]

_EXACT_UP_TO = 2**16  # codes; for more, bounds are sampled


class AbstractVAE(AbstractPixels):
    """Base class of models of images with an encoder that scores the z of a space, and a decoder to pixels.

    Args:
        space: the space of z.
        prior: "uniform", or "learned" scores of p(z).
        likelihood: "bernoulli" (x in [0, 1]; the decoder gives logits) or "gaussian" (means; one learned variance).
    """

    def __init__(self, space: AbstractSpace, prior: PriorName, likelihood: LikelihoodName) -> None:
        super().__init__()
        if prior not in ("uniform", "learned"):
            raise ArgumentError(f"prior must be 'uniform' or 'learned', got {prior!r}")
        if prior == "learned" and not (space.offers("log_prob") and space.offers("draw")):
            raise ArgumentError(
                f"a learned prior needs exact probabilities, which {space} does not offer; use 'uniform'"
            )
        if prior == "learned" and isinstance(space, PairwiseBinary) and space.supermodular:
            raise ArgumentError(f"a learned prior may not keep the promise of {space}; use 'uniform'")
        self.space = space
        self.prior = nn.Parameter(torch.zeros(space.score_shape)) if prior == "learned" else None
        self.log_variance = make_log_variance(likelihood)

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return the scores of z for images: `[B, *shape] -> [B, *score]`."""

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the encoder's best z for each image: `[B, *shape] -> [B, *event]`."""
        return self.space.argmax(self.scores(x))

    @property
    def enumerable(self) -> bool:
        """Whether all z can be enumerated, so that `bounds` are exact in z."""
        return self.space.size <= _EXACT_UP_TO

    @torch.no_grad()
    def draw_prior(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw z from the prior, `[count, *event]`."""
        parameter = next(self.parameters())
        scores = parameter.new_zeros(self.space.score_shape) if self.prior is None else self.prior
        if self.space.offers("draw"):
            return self.space.sample(scores, count, generator=generator)
        # The prior is uniform, and so is perturb-and-MAP with scores of zero.
        noise = self.space.noise((count,), generator=generator, dtype=scores.dtype, device=scores.device)
        return self.space.argmax(self.space.perturb(scores, noise))
