"""Base classes of variational auto-encoders of images: a decoder, the likelihood of its pixels, a space and a prior."""

from abc import abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood
from hardmax.spaces import AbstractSpace, PairwiseBinary
from hardmax.spaces.registry import SPACES, load_space_class


def space_to_config(space: AbstractSpace) -> dict[str, Any]:
    """Return the name and the arguments of a space, for JSON.

    Raises:
        ArgumentError: the space is not part of hardmax.
    """
    names = [name for name, record in SPACES.items() if record.kind == type(space).__name__]
    if not names or not is_dataclass(space):
        raise ArgumentError(
            f"hardmax has no networks for {space}; create the model with your own networks, not by build"
        )
    # Not `vars`, which includes cached properties.
    return {"name": names[0], **{field.name: getattr(space, field.name) for field in fields(space)}}


def space_from_config(config: dict[str, Any]) -> AbstractSpace:
    """Return the space that `space_to_config` describes.

    Raises:
        KeyError, TypeError or ValueError: the configuration is invalid.
    """
    arguments = dict(config)
    kind = load_space_class(arguments.pop("name"))
    if kind is PairwiseBinary and arguments.get("edges") is None:
        raise ValueError("edges are missing")  # always stored: a complete graph of many bits does not fit into memory
    return kind(**arguments)


LikelihoodName = Literal["bernoulli", "gaussian"]
# Initial log-variance of Gaussian pixels, a standard deviation of 0.14: the decoder first learns to reconstruct, as if
# the weight of the KL were small, and the variance adapts from there. From 0, Adam would need thousands of steps.
_LOG_VARIANCE = -4.0


class AbstractPixels(AbstractModel):
    """Base class of models whose decoder returns the logits of Bernoulli pixels, or the means of Gaussian pixels."""

    decoder: nn.Module
    log_variance: nn.Parameter | None
    """Log-variance of Gaussian pixels; None for Bernoulli pixels."""

    @property
    def noise_variance(self) -> Tensor | float:
        """Variance of Gaussian pixels, without a gradient; 1 for Bernoulli pixels.

        Multiplied by this variance, `log p(x | .)` has the same gradient for the decoder's output in both cases: x
        minus the mean. A term that is added to a bound then needs only one weight, for any variance of the pixels.
        """
        return 1.0 if self.log_variance is None else self.log_variance.detach().exp()

    def likelihood(self, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective f of the decoder's input."""
        return self._likelihood(self.decoder, x)

    def _likelihood(self, decoder: nn.Module, x: Tensor) -> AbstractLikelihood:
        """Return `log p(x | .)` as an objective f of the input of this decoder."""
        if self.log_variance is None:
            return BernoulliLikelihood(decoder, x)
        return GaussianLikelihood(decoder, x, self.log_variance)

    @torch.no_grad()
    def _images(self, latent: Tensor) -> Tensor:
        """Return the mean image of each row of the decoder's input."""
        parameters = self.decoder(latent)
        return parameters.sigmoid() if self.log_variance is None else parameters


def make_log_variance(likelihood: LikelihoodName) -> nn.Parameter | None:
    """Return the log-variance of Gaussian pixels, a learned parameter; None for Bernoulli pixels.

    Raises:
        ArgumentError: an unknown likelihood.
    """
    if likelihood not in ("bernoulli", "gaussian"):
        raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
    return nn.Parameter(torch.full((), _LOG_VARIANCE)) if likelihood == "gaussian" else None


Architecture = Literal["mlp", "conv"]
PriorName = Literal["uniform", "learned"]

_EXACT_UP_TO = 2**16  # number of codes up to which bounds are exact; for more, they are estimated from samples


class AbstractVAE(AbstractPixels):
    """Base class of variational auto-encoders of images: an encoder scores the z of a space, a decoder returns pixels.

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
            raise ArgumentError(f"a learned prior may not satisfy the promise of {space}; use 'uniform'")
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
    def is_enumerable(self) -> bool:
        """Whether all z can be enumerated, so that `bounds` are exact in z."""
        return self.space.size <= _EXACT_UP_TO

    enumerable = RenamedMember("is_enumerable")

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
