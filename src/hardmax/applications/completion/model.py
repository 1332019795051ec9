"""The completion model, as a module: it completes images with hidden pixels in several ways."""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax._deprecation import RenamedMember
from hardmax.applications.completion.networks import CompletionNetworks, make_networks
from hardmax.applications.completion.objective import (
    RULES,
    Form,
    GaussianMixture,
    MixtureKl,
    Rule,
    chosen_kl,
    estimated_kl,
    max_operation_loss,
    sampled_kl,
)
from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator
from hardmax.models.image_vae import Architecture, LikelihoodName, make_log_variance
from hardmax.models.pretrained import AbstractModel
from hardmax.objectives import Bounds, gaussian_kl, gaussian_sample
from hardmax.objectives.likelihoods import pixel_log_prob


@final
@dataclass(frozen=True)
class VisibleEncoding:
    """The encoding of the visible part of images.

    Attributes:
        pixels: `[B, *shape]`. The images, with hidden pixels replaced by a constant.
        features: `[B, H]`. Their features.
        mixture: the prior of z, the latent of the hidden part.
    """

    pixels: Float[Tensor, "B channels height width"]
    features: Float[Tensor, "B H"]
    mixture: GaussianMixture


@final
@dataclass(frozen=True)
class Posterior:
    """The posterior of the latent of the hidden part, given complete images.

    Attributes:
        mean: `[B, c]`. The mean of the Gaussian.
        log_variance: `[B, c]`. Its log-variance.
        scores: `[B, k]`. The encoder's scores of components.
    """

    mean: Float[Tensor, "B c"]
    log_variance: Float[Tensor, "B c"]
    scores: Float[Tensor, "B k"]


@final
@dataclass(frozen=True)
class Completions:
    """Completions of images.

    Attributes:
        images: `[S, B, *shape]`. Visible pixels are unchanged, hidden pixels are the mean of p(pixel | z).
        component: `[S, B]`. The component that each completion was sampled from.
        weight: `[S, B]`. The weight of that component.
    """

    images: Float[Tensor, "S B channels height width"]
    component: Int64[Tensor, "S B"]
    weight: Float[Tensor, "S B"]


@final
@dataclass(frozen=True)
class CompletionBound:
    """An estimate of the lower bound of log p(hidden | visible), `value = reconstruction - kl`.

    Attributes:
        value: `[B]`. The bound; has the gradient.
        reconstruction: `[B]`. log p of the hidden pixels given z, detached.
        kl: `[B]`. The information in z, detached; at least the divergence from the mixture.
        component: `[B, k]`. The chosen component, one-hot; for "mixture" the responsibilities.
    """

    value: Float[Tensor, "B"]
    reconstruction: Float[Tensor, "B"]
    kl: Float[Tensor, "B"]
    component: Float[Tensor, "B k"]


Choice = Literal["responsibility", "distance", "fair", "encoder", "mixture"]


@final
class CompletionModel(AbstractModel):
    r"""A model that completes images with hidden pixels, in several ways.

    $$ p(\text{hidden} \mid \text{visible}) = \int p(\text{hidden} \mid z, \text{visible}) \sum_j w_j N_j(z) \, dz $$

    A trunk encodes the visible part; heads on its features give the weights and the Gaussians of a mixture over z, the
    latent of the hidden part. For training, a second trunk encodes the complete image and gives the Gaussian q(z). The
    decoder reconstructs the hidden pixels from z, the features and the visible part. The model is trained by the
    evidence lower bound

    $$ \mathbb{E}_q[\log p(\text{hidden} \mid z, \text{visible})] - \mathrm{KL}(q \,\|\, \sum_j w_j N_j), $$

    whose KL can be computed in these ways:

    - `"responsibility"`, `"distance"`, `"fair"`: a max operation chooses the component that learns, `chosen_kl`;
    - `"encoder"`: an encoder chooses it, and any estimator trains the choice, `estimated_kl`;
    - `"mixture"`: no component is chosen, all learn in proportion to their responsibility, `sampled_kl`.

    With one component it is a conditional VAE with a learned prior, with none a conditional VAE with a standard normal
    prior, and without a latent a deterministic network.

    Args:
        networks: see `CompletionNetworks`.
        latent: c, the number of dimensions of z.
        likelihood: "bernoulli" (x in [0, 1]) or "gaussian" (one learned variance).
        fill: the value of hidden pixels in the input of the first trunk. -1 distinguishes them from black, which is
            necessary if masks differ between images. If the mask is always the same, 0 trains much faster: hundreds
            of constant inputs act as one bias with hundreds of times its learning rate.

    Example:
        >>> import torch
        >>> from hardmax.applications.completion import CompletionModel
        >>> from hardmax.applications.completion.masks import draw_masks
        >>> model = CompletionModel.build((1, 28, 28), components=4, latent=10, hidden=40)
        >>> x, hidden = torch.rand(8, 1, 28, 28), draw_masks("centre", 8, (28, 28))
        >>> (-model(x, hidden).value.mean()).backward()
        >>> completed = model.complete(x, hidden, count=10)
        >>> completed.images.shape, bool((completed.images == x)[(~hidden).expand(10, 8, 1, 28, 28)].all())
        (torch.Size([10, 8, 1, 28, 28]), True)

    References:
        Sohn, Lee & Yan, "Learning structured output representation using deep conditional generative models", 2015;
        the notes on the back-propagate-max-operation loss of pluralistic image completion, corrected.
    """

    kind = "completion"

    def __init__(
        self, networks: CompletionNetworks, latent: int, likelihood: LikelihoodName = "bernoulli", fill: float = -1.0
    ) -> None:
        super().__init__()
        self.visible, self.decoder = networks.visible, networks.decoder
        self.whole, self.posterior = networks.whole, networks.posterior
        self.weights, self.components, self.chooser = networks.weights, networks.components, networks.chooser
        self.latent, self.fill = latent, fill
        self.log_variance = make_log_variance(likelihood)

    @classmethod
    def build(
        cls,
        shape: tuple[int, ...],
        *,
        components: int = 8,
        latent: int = 50,
        hidden: int = 500,
        architecture: Architecture = "mlp",
        likelihood: LikelihoodName = "bernoulli",
        fill: float = -1.0,
    ) -> "CompletionModel":
        """Build a model with the library's networks, for images of this shape (channels, H, W).

        Args:
            shape: shape of one image.
            components: k, the number of components; 0 is a standard normal that does not depend on the image.
            latent: c, the number of dimensions of z; 0 is a deterministic network.
            hidden: width of the layers.
            architecture: "mlp" or "conv".
            likelihood: as above.
            fill: as above.

        Raises:
            ArgumentError: an unknown architecture, or components without a latent.
        """
        networks = make_networks(architecture, shape, components, latent, hidden)
        model = cls(networks, latent, likelihood, fill)
        model._config = {
            "shape": list(shape),
            "components": components,
            "latent": latent,
            "hidden": hidden,
            "architecture": architecture,
            "likelihood": likelihood,
            "fill": fill,
        }
        return model

    def encode_visible(
        self, x: Float[Tensor, "B channels height width"], hidden: Bool[Tensor, "..."]
    ) -> VisibleEncoding:
        """Encode the visible part of images.

        Args:
            x: `[B, *shape]`; its hidden pixels are not used.
            hidden: `[B, 1, H, W]`, True where hidden.

        Raises:
            ShapeError: the masks do not fit the images.
        """
        if hidden.shape != (len(x), 1, *x.shape[-2:]):
            raise ShapeError(
                f"hidden has shape {list(hidden.shape)}, but images {list(x.shape)} need "
                f"{[len(x), 1, *x.shape[-2:]]}: one mask for each, the same for all channels"
            )
        pixels = x.where(~hidden, self.fill)
        features = self.visible(pixels)
        if self.weights is None or self.components is None:
            zeros = features.new_zeros(len(x), 1, self.latent)
            return VisibleEncoding(pixels, features, GaussianMixture(features.new_zeros(len(x), 1), zeros, zeros))
        mixture = GaussianMixture(self.weights(features), *self.components(features))
        return VisibleEncoding(pixels, features, mixture)

    look = RenamedMember("encode_visible")

    def encode(self, x: Float[Tensor, "B channels height width"], visible: VisibleEncoding) -> Posterior:
        """Return the posterior of the latent of the hidden part, given complete images `[B, *shape]`."""
        if self.whole is None or self.posterior is None:
            empty = visible.features.new_zeros(len(x), 0)
            return Posterior(empty, empty, visible.mixture.scores)
        both = torch.cat([self.whole(x), visible.features], -1)
        mean, log_variance = self.posterior(both).chunk(2, -1)
        scores = visible.mixture.responsibility(mean.detach(), log_variance.detach()).detach()
        return Posterior(mean, log_variance, scores if self.chooser is None else scores + self.chooser(both))

    def forward(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        *,
        choice: Choice = "mixture",
        estimator: AbstractEstimator | None = None,
        beta: float = 1.0,
        noise: Tensor | None = None,
        component_noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> CompletionBound:
        """Estimate the lower bound of log p(hidden | visible) with one sample of z; minimise `-value.mean()`.

        Args:
            x: `[B, *shape]`, complete images.
            hidden: `[B, 1, H, W]`, True where hidden.
            choice: how the component is chosen, see above.
            estimator: the estimator of the gradient for the choice "encoder".
            beta: weight of the KL in `value`, below 1 during warm-up.
            noise: `[1, B, c]`, standard normal; None draws it.
            component_noise: `[S, B, k]`, the noise of the choice "encoder"; None draws it.
            generator: the source of the noise, that of z first; None is torch's global generator.

        Raises:
            ArgumentError: an unknown choice, or "encoder" without an estimator.
        """
        visible = self.encode_visible(x, hidden)
        q = self.encode(x, visible)
        z = self._sample(q, noise, generator)
        divergence = self._compute_kl(choice, q, visible.mixture, z, estimator, component_noise, generator)
        reconstruction, kl = self.log_likelihood(x, hidden, visible, z)[0], divergence.value
        return CompletionBound(reconstruction - beta * kl, reconstruction.detach(), kl.detach(), divergence.component)

    def _compute_kl(
        self,
        choice: Choice,
        q: Posterior,
        mixture: GaussianMixture,
        z: Tensor,
        estimator: AbstractEstimator | None,
        noise: Tensor | None,
        generator: torch.Generator | None,
    ) -> MixtureKl:
        gaussian = (q.mean, q.log_variance, mixture)
        if choice in RULES:
            return chosen_kl(*gaussian, choice)
        if choice == "mixture":
            return sampled_kl(*gaussian, z)
        if choice != "encoder":
            choices = ", ".join(map(repr, (*RULES, "encoder", "mixture")))
            raise ArgumentError(f"choice must be one of {choices}, got {choice!r}")
        if estimator is None:
            raise ArgumentError("choice 'encoder' needs an estimator of its gradient, such as hardmax.Direct()")
        return estimated_kl(*gaussian, q.scores, estimator, noise=noise, generator=generator, validate=False)

    def max_operation_loss(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        *,
        form: Form = "corrected",
        rule: Rule = "responsibility",
        noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "B"]:
        r"""Return the loss of the notes on pluralistic completion, corrected or with the published formula.

        With $L(z) = -\log p(\text{hidden} \mid z, \text{visible})$, it is the sum over two paths. For the complete
        image, $L(z) + \mathrm{KL}(q \,\|\, N(0, I))$ with z from q. For the visible part,
        $L(z_j) - \log w_j + \mathrm{BM}_j$, with $z_j$ from the chosen component j and BM the function
        `max_operation_loss`. The notes do not specify what keeps q from shrinking to a point, where BM is infinite:
        here it is the KL from the standard normal, as in every VAE.

        Args:
            x: `[B, *shape]`, complete images.
            hidden: `[B, 1, H, W]`, True where hidden.
            form: "corrected", or "published", which does not train.
            rule: the rule of the max operation.
            noise: `[1, B, c]`, standard normal, for both paths; None draws it.
            generator: the source of the noise; None is torch's global generator.
        """
        visible = self.encode_visible(x, hidden)
        q, mixture = self.encode(x, visible), visible.mixture
        divergence = chosen_kl(q.mean.detach(), q.log_variance.detach(), mixture, rule)
        chosen = Posterior(*mixture.select_component(divergence.component), q.scores)
        samples = [self._sample(gaussian, noise, generator) for gaussian in (q, chosen)]
        paths = [self.log_likelihood(x, hidden, visible, z)[0] for z in samples]
        frequency = -(divergence.component * mixture.log_weights).sum(-1)
        distance = max_operation_loss(q.mean, q.log_variance, mixture, rule, form)
        return gaussian_kl(q.mean, q.log_variance) - sum(paths) + frequency + distance

    max_operation = RenamedMember("max_operation_loss")

    @torch.no_grad()
    def bounds(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        *,
        samples: int = 10,
        generator: torch.Generator | None = None,
    ) -> Bounds:
        r"""Return the bound and log p(hidden | visible), from S samples of q and with the exact mixture.

        `elbo` is the mean over samples of $\log p(\text{hidden}, z \mid \text{visible}) - \log q(z)$, which Pyro's
        tutorial reports. `log_likelihood` is the logarithm of the mean of its exponential; its mean is a lower bound of
        log p(hidden | visible) that rises to it with S.

        Args:
            x: `[B, *shape]`, complete images.
            hidden: `[B, 1, H, W]`, True where hidden.
            samples: S, the number of samples.
            generator: the source of the samples; None is torch's global generator.

        References:
            Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
        """
        visible = self.encode_visible(x, hidden)
        q = self.encode(x, visible)
        reconstructions, divergences = [], []
        for _ in range(samples):  # one sample at a time: the decoder's batch is not S times as large
            z = self._sample(q, None, generator)
            reconstructions.append(self.log_likelihood(x, hidden, visible, z)[0])
            divergences.append(sampled_kl(q.mean, q.log_variance, visible.mixture, z).value)
        reconstruction, kl = torch.stack(reconstructions), torch.stack(divergences)
        weights = reconstruction - kl
        return Bounds(weights.mean(0), weights.logsumexp(0) - math.log(samples), reconstruction.mean(0), kl.mean(0))

    def log_likelihood(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        visible: VisibleEncoding,
        z: Float[Tensor, "S B c"],
    ) -> Float[Tensor, "S B"]:
        r"""Return $\log p(\text{hidden pixels} \mid z, \text{visible part})$ of every sample and image."""
        values = pixel_log_prob(self._decode(visible, z), x, self.log_variance)
        return values.where(hidden, 0.0).flatten(2).sum(-1)

    @torch.no_grad()
    def complete(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        *,
        count: int = 8,
        component: int | None = None,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Completions:
        """Complete images in several ways; the completions cover the components in proportion to their weights.

        Args:
            x: `[B, *shape]`; its hidden pixels are not used.
            hidden: `[B, 1, H, W]`, True where hidden.
            count: S, the number of completions of each image.
            component: the component to sample from; None: each in proportion to its weight, rounded down or up.
            temperature: factor of the standard deviations of the components. 1 gives the model's distribution; with
                less, samples are nearer to the mean of each component.
            generator: the source of the samples; None is torch's global generator.

        Raises:
            ArgumentError: an unknown component, or the temperature is not above 0.
        """
        if not temperature > 0:
            raise ArgumentError(f"temperature must be above 0, got {temperature}")
        visible = self.encode_visible(x, hidden)
        mixture = visible.mixture.apply_temperature(temperature)
        if component is None:
            z, chosen = mixture.systematic_sample(count, generator=generator)
            number = chosen.argmax(-1)
        else:
            k = mixture.scores.shape[-1]
            if not 0 <= component < k:
                raise ArgumentError(f"component must be from 0 to {k - 1}, got {component}")
            number = torch.full((count, len(x)), component, device=x.device)
            gaussian = (mixture.mean[:, component], mixture.log_variance[:, component])
            z = gaussian_sample(*gaussian, count, generator=generator)
        weight = mixture.log_weights.exp().expand(count, -1, -1).gather(-1, number[..., None]).squeeze(-1)
        return Completions(self.decode(x, hidden, visible, z), number, weight)

    def decode(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        visible: VisibleEncoding,
        z: Float[Tensor, "S B c"],
    ) -> Float[Tensor, "S B channels height width"]:
        """Return images completed from latents: hidden pixels are the mean given z, visible pixels those of x."""
        parameters = self._decode(visible, z)
        return x.where(~hidden, parameters.sigmoid() if self.log_variance is None else parameters.clamp(0, 1))

    def _sample(self, q: Posterior, noise: Tensor | None, generator: torch.Generator | None) -> Tensor:
        """Return a sample of q, `[1, B, c]`."""
        if noise is None:
            return gaussian_sample(q.mean, q.log_variance, generator=generator)
        return q.mean + noise * (q.log_variance / 2).exp()

    def _decode(self, visible: VisibleEncoding, z: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[S, B, c] -> [S, B, *shape]`."""
        features, pixels = (t.expand(len(z), *t.shape).flatten(0, 1) for t in (visible.features, visible.pixels))
        return self.decoder(features, z.flatten(0, 1), pixels).unflatten(0, z.shape[:2])

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "CompletionModel":
        return cls.build(
            tuple(config["shape"]),
            components=config["components"],
            latent=config["latent"],
            hidden=config["hidden"],
            architecture=config["architecture"],
            likelihood=config["likelihood"],
            fill=config["fill"],
        )
