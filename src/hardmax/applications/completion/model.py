"""A model that completes images in many ways: a mixture of Gaussians over the latent of the hidden pixels."""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

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
class Visible:
    """The encoding of the visible part of pictures.

    Attributes:
        seen: `[B, *shape]`. The pictures, without their hidden pixels.
        features: `[B, H]`.
        mixture: of z, the latent of the hidden part.
    """

    seen: Float[Tensor, "B channels height width"]
    features: Float[Tensor, "B H"]
    mixture: GaussianMixture


@final
@dataclass(frozen=True)
class Posterior:
    """The posterior of the latent of the hidden part, given whole pictures.

    Attributes:
        mean: `[B, c]`.
        log_variance: `[B, c]`.
        scores: `[B, k]`. The encoder's scores of components.
    """

    mean: Float[Tensor, "B c"]
    log_variance: Float[Tensor, "B c"]
    scores: Float[Tensor, "B k"]


@final
@dataclass(frozen=True)
class Completed:
    """Completions of pictures.

    Attributes:
        pictures: `[S, B, *shape]`. Visible pixels are as they were, hidden ones the mean of p(pixel | z).
        component: `[S, B]`. The component that each was drawn from.
        weight: `[S, B]`. The weight of that component.
    """

    pictures: Float[Tensor, "S B channels height width"]
    component: Int64[Tensor, "S B"]
    weight: Float[Tensor, "S B"]


@final
@dataclass(frozen=True)
class CompletionBound:
    """An estimate of the bound of log p(hidden | visible), `value = reconstruction - kl`.

    Attributes:
        value: `[B]`. Carries the gradient.
        reconstruction: `[B]`. log p of the hidden pixels given z, detached.
        kl: `[B]`. The information in z, detached; at least the divergence from the mixture.
        component: `[B, k]`. The chosen component, one-hot; with "mixture" the responsibilities.
    """

    value: Float[Tensor, "B"]
    reconstruction: Float[Tensor, "B"]
    kl: Float[Tensor, "B"]
    component: Float[Tensor, "B k"]


Choice = Literal["responsibility", "distance", "fair", "encoder", "mixture"]


@final
class CompletionModel(AbstractModel):
    r"""Complete a picture in many ways: `p(hidden | visible) = int p(hidden | z, visible) sum_j w_j N_j(z) dz`.

    A trunk encodes the visible part; heads on its features give the weights and the Gaussians of a mixture over z,
    the latent of the hidden part. A second trunk encodes the whole picture, and gives the Gaussian q(z) to learn
    from. The decoder draws the hidden pixels from z, the features and the visible part. It is trained by the evidence
    lower bound

    `E_q[log p(hidden | z, visible)] - KL(q || sum_j w_j N_j)`

    in whose divergence the component is chosen:

    - `"responsibility"`, `"distance"`, `"fair"`: a max operation picks the component that learns, `chosen_kl`;
    - `"encoder"`: an encoder chooses, and any estimator trains the choice, `estimated_kl`;
    - `"mixture"`: nothing is chosen, all components learn by responsibility, `sampled_kl`.

    One component is the conditional VAE with a learned prior, none the one with a standard normal prior, and no latent
    at all a deterministic network.

    Args:
        networks: see `CompletionNetworks`.
        latent: c, dimensions of z.
        likelihood: "bernoulli" (x in [0, 1]) or "gaussian" (one learned variance).
        fill: the value of hidden pixels for the first trunk. -1 distinguishes them from black, which masks that
            differ from picture to picture need. Where the mask is always the same, 0 trains much faster: hundreds of
            inputs that never change are one bias with hundreds of times its learning rate.

    Example:
        >>> import torch
        >>> from hardmax.applications.completion import CompletionModel
        >>> from hardmax.applications.completion.masks import draw_masks
        >>> model = CompletionModel.build((1, 28, 28), components=4, latent=10, hidden=40)
        >>> x, hidden = torch.rand(8, 1, 28, 28), draw_masks("centre", 8, (28, 28))
        >>> (-model(x, hidden).value.mean()).backward()
        >>> completed = model.complete(x, hidden, count=10)
        >>> completed.pictures.shape, bool((completed.pictures == x)[(~hidden).expand(10, 8, 1, 28, 28)].all())
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
        """Build a model with the library's networks, for pictures of this shape (channels, H, W).

        Args:
            shape: of one picture.
            components: k; 0 is a standard normal that does not depend on the picture.
            latent: c, dimensions of z; 0 is a deterministic network.
            hidden: width of the layers.
            architecture: "mlp" or "conv".
            likelihood: as above.
            fill: as above.

        Raises:
            ArgumentError: an unknown architecture, or components of no latent.
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

    def look(self, x: Float[Tensor, "B channels height width"], hidden: Bool[Tensor, "..."]) -> Visible:
        """Encode the visible part.

        Args:
            x: `[B, *shape]`; its hidden pixels are not used.
            hidden: `[B, 1, H, W]`, True where hidden.

        Raises:
            ShapeError: a mask that does not fit.
        """
        if hidden.shape != (len(x), 1, *x.shape[-2:]):
            raise ShapeError(
                f"hidden has shape {list(hidden.shape)}, but pictures {list(x.shape)} need "
                f"{[len(x), 1, *x.shape[-2:]]}: one mask for each, the same for all channels"
            )
        seen = x.where(~hidden, self.fill)
        features = self.visible(seen)
        if self.weights is None or self.components is None:
            zeros = features.new_zeros(len(x), 1, self.latent)
            return Visible(seen, features, GaussianMixture(features.new_zeros(len(x), 1), zeros, zeros))
        return Visible(seen, features, GaussianMixture(self.weights(features), *self.components(features)))

    def encode(self, x: Float[Tensor, "B channels height width"], visible: Visible) -> Posterior:
        """Return the posterior of the latent of the hidden part, given whole pictures `[B, *shape]`."""
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
        """Estimate the bound of log p(hidden | visible) with one sample of z; minimise `-value.mean()`.

        Args:
            x: `[B, *shape]`, whole pictures.
            hidden: `[B, 1, H, W]`, True where hidden.
            choice: how the component is chosen, see above.
            estimator: of the gradient for the choice of "encoder".
            beta: weight of the divergence in `value`, below 1 while it is warmed up.
            noise: `[1, B, c]`, standard normal, instead of drawing it.
            component_noise: `[S, B, k]`, of the choice of "encoder", instead of drawing it.
            generator: where the noise comes from, that of z first; None is torch's global generator.

        Raises:
            ArgumentError: an unknown choice, or "encoder" without an estimator.
        """
        visible = self.look(x, hidden)
        q = self.encode(x, visible)
        z = self._draw(q, noise, generator)
        divergence = self._divergence(choice, q, visible.mixture, z, estimator, component_noise, generator)
        reconstruction = self.log_likelihood(x, hidden, visible, z)[0]
        return CompletionBound(
            reconstruction - beta * divergence.value,
            reconstruction.detach(),
            divergence.value.detach(),
            divergence.component,
        )

    def _divergence(
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

    def max_operation(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        *,
        form: Form = "corrected",
        rule: Rule = "responsibility",
        noise: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "B"]:
        r"""Return the document's loss, two paths and the max operation, corrected or with its published formula.

        `-log p(hidden | z, visible) + KL(q || N(0, I))` on the path of the whole picture, z from q; on that of the
        visible part `-log p(hidden | z_j, visible) - log w_j + BM_j`, z_j from the component j that the max operation
        picks, BM as in `max_operation_loss`. The document does not specify what keeps q from shrinking to a point,
        at which BM is infinite: here the standard normal does, as in every VAE.

        Args:
            x: `[B, *shape]`, whole pictures.
            hidden: `[B, 1, H, W]`, True where hidden.
            form: "corrected", or "published", which does not train.
            rule: of the max operation.
            noise: `[1, B, c]`, standard normal, of both paths, instead of drawing it.
            generator: where the noise comes from; None is torch's global generator.
        """
        visible = self.look(x, hidden)
        q, mixture = self.encode(x, visible), visible.mixture
        divergence = chosen_kl(q.mean.detach(), q.log_variance.detach(), mixture, rule)
        z_whole = self._draw(q, noise, generator)
        picked = Posterior(*mixture.pick(divergence.component), q.scores)
        paths = [self.log_likelihood(x, hidden, visible, z)[0] for z in (z_whole, self._draw(picked, noise, generator))]
        frequency = -(divergence.component * mixture.log_weights).sum(-1)
        pulled = max_operation_loss(q.mean, q.log_variance, mixture, rule, form)
        return gaussian_kl(q.mean, q.log_variance) - sum(paths) + frequency + pulled

    @torch.no_grad()
    def bounds(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        *,
        samples: int = 10,
        generator: torch.Generator | None = None,
    ) -> Bounds:
        r"""Return the bound and log p(hidden | visible), from S samples of q and the whole mixture.

        `elbo` is the mean over samples of `log p(hidden | z, visible) + log p(z | visible) - log q(z)`, which Pyro's
        tutorial reports; `log_likelihood` the logarithm of the mean of its exponential, in the mean a lower bound of
        log p(hidden | visible) that rises to it with S.

        Args:
            x: `[B, *shape]`, whole pictures.
            hidden: `[B, 1, H, W]`, True where hidden.
            samples: S.
            generator: where the samples come from.

        References:
            Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
        """
        visible = self.look(x, hidden)
        q = self.encode(x, visible)
        reconstructions, divergences = [], []
        for _ in range(samples):  # one by one: a decoder's batch need not be S times as large
            z = self._draw(q, None, generator)
            reconstructions.append(self.log_likelihood(x, hidden, visible, z)[0])
            divergences.append(sampled_kl(q.mean, q.log_variance, visible.mixture, z).value)
        reconstruction, kl = torch.stack(reconstructions), torch.stack(divergences)
        weights = reconstruction - kl
        return Bounds(weights.mean(0), weights.logsumexp(0) - math.log(samples), reconstruction.mean(0), kl.mean(0))

    def log_likelihood(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        visible: Visible,
        z: Float[Tensor, "S B c"],
    ) -> Float[Tensor, "S B"]:
        """Return log p(hidden pixels | z, visible part) of every sample and picture."""
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
    ) -> Completed:
        """Complete pictures in several ways, which cover the components by their weights.

        Args:
            x: `[B, *shape]`; its hidden pixels are not used.
            hidden: `[B, 1, H, W]`, True where hidden.
            count: S, completions of each.
            component: to draw all of them from; None: each in proportion to its weight, rounded down or up.
            temperature: factor of the components' standard deviations: 1 samples the model's distribution, less samples
                nearer to the middle of each component.
            generator: where the draws come from; None is torch's global generator.

        Raises:
            ArgumentError: an unknown component, or the temperature is not above 0.
        """
        if not temperature > 0:
            raise ArgumentError(f"temperature must be above 0, got {temperature}")
        visible = self.look(x, hidden)
        mixture = visible.mixture.narrowed(temperature)
        if component is None:
            z, chosen = mixture.systematic_sample(count, generator=generator)
            number = chosen.argmax(-1)
        else:
            k = mixture.scores.shape[-1]
            if not 0 <= component < k:
                raise ArgumentError(f"component must be from 0 to {k - 1}, got {component}")
            number = torch.full((count, len(x)), component, device=x.device)
            z = gaussian_sample(
                mixture.mean[:, component], mixture.log_variance[:, component], count, generator=generator
            )
        weight = mixture.log_weights.exp().expand(count, -1, -1).gather(-1, number[..., None]).squeeze(-1)
        return Completed(self.decode(x, hidden, visible, z), number, weight)

    def decode(
        self,
        x: Float[Tensor, "B channels height width"],
        hidden: Bool[Tensor, "..."],
        visible: Visible,
        z: Float[Tensor, "S B c"],
    ) -> Float[Tensor, "S B channels height width"]:
        """Return pictures completed from latents: the mean of hidden pixels, visible ones as they are in x."""
        parameters = self._decode(visible, z)
        return x.where(~hidden, parameters.sigmoid() if self.log_variance is None else parameters.clamp(0, 1))

    def _draw(self, q: Posterior, noise: Tensor | None, generator: torch.Generator | None) -> Tensor:
        """Return a sample of q, `[1, B, c]`."""
        if noise is None:
            return gaussian_sample(q.mean, q.log_variance, generator=generator)
        return q.mean + noise * (q.log_variance / 2).exp()

    def _decode(self, visible: Visible, z: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[S, B, c] -> [S, B, *shape]`."""
        features, seen = (t.expand(len(z), *t.shape).flatten(0, 1) for t in (visible.features, visible.seen))
        return self.decoder(features, z.flatten(0, 1), seen).unflatten(0, z.shape[:2])

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
