"""The variational auto-encoder with a Gaussian latent variable, a baseline."""

from math import prod
from typing import Any, final

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.models.image_vae import AbstractPixels, Architecture, LikelihoodName, make_log_variance
from hardmax.nn import build_conv_decoder, build_conv_trunk, build_mlp
from hardmax.nn.linear import Linear
from hardmax.objectives import Bounds, Elbo, gaussian_bounds, gaussian_elbo
from hardmax.objectives.gaussian import Form


@final
class GaussianVAE(AbstractPixels):
    r"""A variational auto-encoder with a Gaussian latent variable z, as a baseline for comparison.

    $$ p(x) = \int p(z) \, p(x \mid z) \, dz $$

    with $p(z) = \mathcal{N}(0, I)$ and an encoder $q(z \mid x) = \mathcal{N}(\mathrm{mean}(x), \mathrm{variance}(x))$.
    z needs no arg max and no estimator: its samples are reparameterised and carry the gradient.

    Args:
        encoder: maps x `[B, *shape]` to `[B, 2 D]`, the means first, then the logarithms of the variances.
        decoder: maps z `[R, D]` to the parameters of the pixels, `[R, *shape]`.
        latents: D, the dimension of z.
        likelihood: "bernoulli" (x in [0, 1]; the decoder returns logits) or "gaussian" (means; one learned variance).

    Example:
        >>> import torch, hardmax as hm
        >>> model = hm.GaussianVAE.build(20, (1, 28, 28))
        >>> out = model(torch.rand(8, 1, 28, 28).round())
        >>> (-out.value.mean()).backward()
        >>> model.sample(4)[0].shape
        torch.Size([4, 1, 28, 28])

    References:
        Kingma & Welling, "Auto-encoding variational Bayes", 2014.
    """

    kind = "gaussian-vae"

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, latents: int, likelihood: LikelihoodName = "bernoulli"
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.latents = encoder, decoder, latents
        self.log_variance = make_log_variance(likelihood)

    @classmethod
    def build(
        cls,
        latents: int,
        shape: tuple[int, ...],
        *,
        architecture: Architecture = "mlp",
        hidden: int = 300,
        likelihood: LikelihoodName = "bernoulli",
    ) -> "GaussianVAE":
        """Create a model with the networks of hardmax, for images of this shape (channels, H, W).

        Raises:
            ArgumentError: an unknown architecture or likelihood, or latents < 1.
        """
        if latents < 1:
            raise ArgumentError(f"latents must be at least 1, got {latents}")
        if architecture == "mlp":
            encoder = nn.Sequential(nn.Flatten(), *build_mlp([prod(shape), hidden, 2 * latents]))
            decoder = nn.Sequential(*build_mlp([latents, hidden, prod(shape)]), nn.Unflatten(-1, shape))
        elif architecture == "conv":
            encoder = build_conv_trunk(shape, hidden).append(Linear(hidden, 2 * latents))
            decoder = build_conv_decoder(latents, shape, hidden)
        else:
            raise ArgumentError(f"architecture must be 'mlp' or 'conv', got {architecture!r}")
        model = cls(encoder, decoder, latents, likelihood)
        model._config = {
            "latents": latents,
            "shape": list(shape),
            "architecture": architecture,
            "hidden": hidden,
            "likelihood": likelihood,
        }
        return model

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return mean and log-variance of $q(z \mid x)$: `[B, *shape] -> [B, D]` twice."""
        mean, log_variance = self.encoder(x).chunk(2, -1)
        return mean, log_variance

    def forward(
        self,
        x: Tensor,
        *,
        form: Form = "prior-contrastive",
        samples: int = 1,
        generator: torch.Generator | None = None,
        validate: bool = True,
    ) -> Elbo:
        """Estimate the bound of x `[B, *shape]`, as `hardmax.gaussian_elbo`; minimise `-value.mean()`."""
        return gaussian_elbo(
            self.likelihood(x), *self.encode(x), form=form, samples=samples, generator=generator, validate=validate
        )

    @torch.no_grad()
    def bounds(self, x: Tensor, *, samples: int = 100, generator: torch.Generator | None = None) -> Bounds:
        r"""Return the bound and $\log p(x)$ of x `[B, *shape]`, from samples."""
        return gaussian_bounds(self.likelihood(x), *self.encode(x), samples=samples, generator=generator)

    def decode(self, z: Tensor) -> Tensor:
        """Return the mean image of each z: `[R, D] -> [R, *shape]`."""
        return self._images(z)

    def sample(self, count: int, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw z from the prior; return their mean images `[count, *shape]` and z `[count, D]`."""
        like = next(self.parameters())
        z = torch.randn(count, self.latents, generator=generator, dtype=like.dtype, device=like.device)
        return self.decode(z), z

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "GaussianVAE":
        return cls.build(
            config["latents"],
            tuple(config["shape"]),
            architecture=config["architecture"],
            hidden=config["hidden"],
            likelihood=config["likelihood"],
        )
