"""What variational auto-encoders of images share: a decoder, the likelihood of its pixels, a space and a prior."""

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
    """Return a space's name and what it was made with; `vars` would also give what it has computed since.

    Raises:
        ArgumentError: a space that is not ours.
    """
    names = [name for name, record in SPACES.items() if record.kind == type(space).__name__]
    if not names or not is_dataclass(space):
        raise ArgumentError(f"no network of ours serves {space}; make the model with your own networks, not by build")
    return {"name": names[0], **{field.name: getattr(space, field.name) for field in fields(space)}}


def space_from_config(config: dict[str, Any]) -> AbstractSpace:
    """Return the space that `space_to_config` describes; KeyError or TypeError where it describes none."""
    arguments = dict(config)
    return load_space_class(arguments.pop("name"))(**arguments)


LikelihoodName = Literal["bernoulli", "gaussian"]
# Log-variance of Gaussian pixels at the start, an error of 0.14: the decoder begins by drawing, as if the KL's weight
# were small, and the variance finds its own place from there. From 0, Adam would take thousands of steps to there.
_LOG_VARIANCE = -4.0


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


def make_log_variance(likelihood: LikelihoodName) -> nn.Parameter | None:
    """Return the logarithm of the pixels' variance, to be learned; None where they are Bernoulli.

    Raises:
        ArgumentError: an unknown likelihood.
    """
    if likelihood not in ("bernoulli", "gaussian"):
        raise ArgumentError(f"likelihood must be 'bernoulli' or 'gaussian', got {likelihood!r}")
    return nn.Parameter(torch.full((), _LOG_VARIANCE)) if likelihood == "gaussian" else None


Architecture = Literal["mlp", "conv"]
PriorName = Literal["uniform", "learned"]

_EXACT_UP_TO = 2**16  # codes; beyond, bounds are sampled


class AbstractVAE(AbstractPixels):
    """A model of pictures with an encoder that scores the z of a space, and a decoder to pixels.

    Args:
        space: what z may be.
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
        """Return the scores of z for pictures: `[B, *shape] -> [B, *score]`."""

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the encoder's best z for each picture: `[B, *shape] -> [B, *event]`."""
        return self.space.argmax(self.scores(x))

    @property
    def enumerable(self) -> bool:
        """Whether z can be gone through, so that `bounds` are exact in it."""
        return self.space.size <= _EXACT_UP_TO

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
