"""The discrete variational auto-encoder, as a module."""

from collections.abc import Sequence
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.models.image_vae import (
    AbstractVAE,
    Architecture,
    LikelihoodName,
    PriorName,
    space_from_config,
    space_to_config,
)
from hardmax.nn import ConvDecoder, ConvEncoder, MLPDecoder, MLPEncoder
from hardmax.nn.mlp import Activation
from hardmax.objectives import (
    Bounds,
    Elbo,
    elbo,
    exact_bounds,
    greedy_bound,
    importance_weighted_bound,
    perturb_and_map_bound,
)
from hardmax.objectives.elbo import Kl
from hardmax.spaces import AbstractSpace

_ARCHITECTURES = ("mlp", "conv")


@final
class DiscreteVAE(AbstractVAE):
    r"""A variational auto-encoder of images whose latent z is discrete, in any space.

    $$ p(x) = \sum_z p(z) \, p(x \mid z) $$

    The encoder is $q(z \mid x)$.

    Args:
        encoder: maps x `[B, *shape]` to scores `[B, *score]`.
        decoder: maps z `[R, *event]` to the parameters of the pixels, `[R, *shape]`.
        space: the space of z.
        estimator: how the encoder's gradient is estimated; "auto" as for `hardmax.elbo`.
        prior: "uniform", or "learned" scores of p(z).
        likelihood: "bernoulli" (x in [0, 1]; the decoder gives logits) or "gaussian" (means; one learned variance).

    Example:
        >>> import torch, hardmax as hm
        >>> model = hm.DiscreteVAE.build(hm.Categorical(10), (1, 28, 28))
        >>> out = model(torch.rand(8, 1, 28, 28).round())
        >>> (-out.value.mean()).backward()
        >>> model.sample(4)[0].shape
        torch.Size([4, 1, 28, 28])

    References:
        Lorberbom et al., 2019, section 3 and 5.1.
    """

    kind = "discrete-vae"

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        space: AbstractSpace,
        estimator: AbstractEstimator | Literal["auto"] = "auto",
        prior: PriorName = "uniform",
        likelihood: LikelihoodName = "bernoulli",
    ) -> None:
        super().__init__(space, prior, likelihood)
        self.encoder, self.decoder = encoder, decoder
        self.estimator: AbstractEstimator | Literal["auto"] = estimator

    @classmethod
    def build(
        cls,
        space: AbstractSpace,
        shape: tuple[int, ...],
        *,
        architecture: Architecture = "mlp",
        hidden: int = 300,
        encoder_layers: int = 1,
        decoder_layers: int = 1,
        widths: Sequence[int] = (),
        activation: Activation = "relu",
        estimator: AbstractEstimator | Literal["auto"] = "auto",
        prior: PriorName = "uniform",
        likelihood: LikelihoodName = "bernoulli",
    ) -> "DiscreteVAE":
        """Build a model with the library's networks, for images of this shape (channels, H, W).

        Args:
            space: the space of z.
            shape: shape of one image.
            architecture: "mlp" (fully connected) or "conv" (convolutional).
            hidden: width of the hidden layers.
            encoder_layers: number of hidden layers of the encoder; like all arguments up to `activation`, for "mlp".
            decoder_layers: number of hidden layers of the decoder.
            widths: widths of the hidden layers of the encoder, which the decoder has in reverse order; instead of the
                three arguments before.
            activation: "relu", or "leaky-relu" with slope 0.3.
            estimator: how the gradient for scores is estimated; "auto" chooses by the space.
            prior: "uniform" or "learned".
            likelihood: "bernoulli" or "gaussian".

        Raises:
            ArgumentError: an unknown architecture, or a space that these networks do not support; more than one
                hidden layer, or another activation, for convolutional networks.
        """
        if architecture not in _ARCHITECTURES:
            raise ArgumentError(f"architecture must be one of {list(_ARCHITECTURES)}, got {architecture!r}")
        space_config = space_to_config(space)
        if architecture == "mlp":
            encoder = MLPEncoder(shape, space, widths or [hidden] * encoder_layers, activation=activation)
            decoder = MLPDecoder(shape, space, widths[::-1] or [hidden] * decoder_layers, activation=activation)
        elif (encoder_layers, decoder_layers, tuple(widths), activation) != (1, 1, (), "relu"):
            raise ArgumentError(
                f"encoder_layers, decoder_layers, widths and activation are for the architecture 'mlp', not for "
                f"{architecture!r}"
            )
        else:
            encoder, decoder = ConvEncoder(shape, space, hidden), ConvDecoder(shape, space, hidden)
        model = cls(encoder, decoder, space, estimator, prior, likelihood)
        model._config = {
            "space": space_config,
            "shape": list(shape),
            "architecture": architecture,
            "hidden": hidden,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "widths": list(widths),
            "activation": activation,
            "prior": prior,
            "likelihood": likelihood,
        }
        return model

    def forward(
        self,
        x: Tensor,
        *,
        estimator: AbstractEstimator | Literal["auto"] | None = None,
        kl: Kl = "auto",
        samples: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
        chunk_size: int | None = None,
        validate: bool = True,
    ) -> Elbo:
        """Estimate the evidence lower bound of x `[B, *shape]`; minimise `-value.mean()`.

        `estimator` replaces the estimator of the model in this call only.
        """
        return elbo(
            self.likelihood(x),
            self.encoder(x),
            self.space,
            self.estimator if estimator is None else estimator,
            prior=self.prior,
            kl=kl,
            samples=samples,
            generator=generator,
            noise=noise,
            chunk_size=chunk_size,
            validate=validate,
        )

    def scores(self, x: Tensor) -> Tensor:
        """Return the encoder's scores: `[B, *shape] -> [B, *score]`."""
        return self.encoder(x)

    @torch.no_grad()
    def bounds(self, x: Tensor, *, samples: int = 100, generator: torch.Generator | None = None) -> Bounds:
        r"""Return the bound and $\log p(x)$ of x `[B, *shape]`: exact where z can be enumerated, else from samples.

        $q(z \mid x)$ is the Gibbs distribution of the scores where it can be sampled; for too many interacting bits it
        is perturb-and-MAP.
        """
        likelihood, scores = self.likelihood(x), self.encoder(x)
        if self.is_enumerable:
            return exact_bounds(likelihood, scores, self.space, prior=self.prior)
        if not self.space.offers("draw"):
            return self.perturb_and_map_bounds(x, samples=samples, generator=generator)
        return importance_weighted_bound(
            likelihood, scores, self.space, samples=samples, prior=self.prior, generator=generator, chunk_size=10
        )

    @torch.no_grad()
    def perturb_and_map_bounds(
        self, x: Tensor, *, samples: int = 100, generator: torch.Generator | None = None
    ) -> Bounds:
        r"""Return the bounds of x where $q(z \mid x)$ is perturb-and-MAP, from samples; for any number of bits."""
        return perturb_and_map_bound(
            self.likelihood(x),
            self.encoder(x),
            self.space,
            samples=samples,
            prior=self.prior,
            generator=generator,
            chunk_size=10,
        )

    @torch.no_grad()
    def greedy_bound(self, x: Tensor) -> Tensor:
        """Return the bound `[B]` of the encoder's best z after greedy changes of single variables.

        Report it in addition to `bounds`, never instead of them.
        """
        return greedy_bound(self.likelihood(x), self.encoder(x), self.space, prior=self.prior, chunk_size=64)[0]

    refined = RenamedMember("greedy_bound")

    def decode(self, z: Tensor) -> Tensor:
        """Return the mean image of each z: `[R, *event] -> [R, *shape]`."""
        return self._images(z)

    def sample(self, count: int, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw z from the prior; return their mean images `[count, *shape]` and z `[count, *event]`."""
        z = self.draw_prior(count, generator)
        return self.decode(z), z

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "DiscreteVAE":
        return cls.build(
            space_from_config(config["space"]),
            tuple(config["shape"]),
            architecture=config["architecture"],
            hidden=config["hidden"],
            encoder_layers=config.get("encoder_layers", 1),
            decoder_layers=config.get("decoder_layers", 1),
            widths=config.get("widths", ()),
            activation=config.get("activation", "relu"),
            prior=config["prior"],
            likelihood=config["likelihood"],
        )
