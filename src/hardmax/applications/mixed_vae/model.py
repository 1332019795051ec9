"""The mixed VAE, as a module: a variational auto-encoder with a discrete and a continuous latent."""

from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember
from hardmax.applications.mixed_vae.joins import AbstractJoin, GaussianRows, SharedGaussian
from hardmax.applications.mixed_vae.networks import Architecture, make_networks
from hardmax.applications.mixed_vae.objective import (
    MixedObjective,
    exact_mixed_bounds,
    mixed_elbo,
    sampled_mixed_bounds,
)
from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator
from hardmax.models.image_vae import (
    AbstractVAE,
    LikelihoodName,
    PriorName,
    space_from_config,
    space_to_config,
)
from hardmax.objectives import Bounds, Elbo
from hardmax.objectives.elbo import Kl, log_prior
from hardmax.spaces import AbstractSpace


@final
@dataclass(frozen=True)
class Encoding:
    """The encoder's output for a batch: scores of the discrete latent, and Gaussians of the continuous one.

    It is computed once and used in several terms of a loss. A slice of it is the output for a part of the batch.

    Attributes:
        scores: `[B, *score]`.
        mean: `[B, rows, c]`.
        log_variance: `[B, rows, c]`.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import MixedVAE
        >>> model = MixedVAE.build(hm.Categorical(10), (1, 28, 28))
        >>> encoded = model.encode(torch.zeros(8, 1, 28, 28))
        >>> encoded.scores.shape, encoded[:5].mean.shape
        (torch.Size([8, 10]), torch.Size([5, 10, 20]))
    """

    scores: Float[Tensor, "B ..."]
    mean: Float[Tensor, "B N c"]
    log_variance: Float[Tensor, "B N c"]

    def __getitem__(self, part: slice) -> "Encoding":
        return Encoding(self.scores[part], self.mean[part], self.log_variance[part])


JoinName = Literal["rows", "beside"]

_JOINS: dict[str, type[AbstractJoin]] = {"rows": GaussianRows, "beside": SharedGaussian}
_CHUNK_SIZE = 4  # number of z_d that `bounds` decodes at a time for all images of a batch


@final
class MixedVAE(AbstractVAE):
    r"""A variational auto-encoder of images with a discrete latent z_d, in any space, and a Gaussian latent z_c.

    $$ p(x) = \sum_{z_d} p(z_d) \int p(z_c) \, p(x \mid z_d, z_c) \, dz_c, \qquad p(z_c) = N(0, I) $$

    The encoder is $q(z_d \mid x) \, q(z_c \mid x, z_d)$. A trunk encodes the image, one head scores z_d, another head
    gives the Gaussians, and a decoder reconstructs the image from both latents. A join combines the latents:
    `GaussianRows` (as in the paper: a Gaussian for each category, of which only the chosen one is used) or
    `SharedGaussian` (one Gaussian, for attributes that are turned on and off).

    A label is a known z_d. `labelled_bound` is the bound given the label; a loss of the scores trains the encoder to
    predict the label:

    - `hardmax.fenchel_young_loss(scores, label, space) / epsilon`: through the arg max, with $z(\epsilon)$ = label;
    - `-space.log_prob(scores, label)`: cross-entropy, the mean of the loss above at epsilon = 1;
    - `-hardmax.expectation(lambda z: -loss(z, label), scores, space, hardmax.Direct(epsilon)).value`: any other loss.

    Args:
        trunk: maps x `[B, *shape]` to features `[B, H]`.
        discrete: maps features to scores of z_d, `[B, *score]`.
        continuous: maps features to mean and log-variance of z_c, each `[B, rows, c]`.
        decoder: maps `[R, join.width]` to the parameters of the pixels, `[R, *shape]`.
        join: how the latents are combined; it also has the space of z_d.
        estimator: how the gradient for scores is estimated; "auto" as for `mixed_elbo`.
        prior: "uniform", or "learned" scores of p(z_d).
        likelihood: "bernoulli" (x in [0, 1]; the decoder gives logits) or "gaussian" (means; one learned variance).

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.mixed_vae import MixedVAE
        >>> model = MixedVAE.build(hm.Categorical(10), (1, 28, 28))
        >>> x, label = torch.rand(8, 1, 28, 28).round(), torch.eye(10)[:3]  # the first three are labelled
        >>> encoded = model.encode(x)
        >>> bound = model(x[3:], encoded=encoded[3:]).value.mean()
        >>> labelled_bound = model.labelled_bound(x[:3], label, encoded=encoded[:3]).mean()
        >>> label_loss = hm.fenchel_young_loss(encoded[:3].scores, label, model.space).mean()
        >>> (label_loss - bound - labelled_bound).backward()
        >>> images, z_d, z_c = model.sample(4)
        >>> images.shape, z_d.shape, z_c.shape
        (torch.Size([4, 1, 28, 28]), torch.Size([4, 10]), torch.Size([4, 10, 20]))

    References:
        Lorberbom et al., 2019, sections 4.2 and 5.3; Kingma, Mohamed, Rezende & Welling, "Semi-supervised learning with
        deep generative models", 2014.
    """

    kind = "mixed-vae"

    def __init__(
        self,
        trunk: nn.Module,
        discrete: nn.Module,
        continuous: nn.Module,
        decoder: nn.Module,
        join: AbstractJoin,
        estimator: AbstractEstimator | Literal["auto"] = "auto",
        prior: PriorName = "uniform",
        likelihood: LikelihoodName = "bernoulli",
    ) -> None:
        super().__init__(join.space, prior, likelihood)
        self.trunk, self.discrete, self.continuous, self.decoder = trunk, discrete, continuous, decoder
        self.join = join
        self.estimator: AbstractEstimator | Literal["auto"] = estimator

    @classmethod
    def build(
        cls,
        space: AbstractSpace,
        shape: tuple[int, ...],
        *,
        architecture: Architecture = "mlp",
        join: JoinName = "rows",
        continuous: int = 20,
        hidden: int = 400,
        estimator: AbstractEstimator | Literal["auto"] = "auto",
        prior: PriorName = "uniform",
        likelihood: LikelihoodName = "bernoulli",
    ) -> "MixedVAE":
        """Build a model with the library's networks, for images of this shape (channels, H, W).

        Args:
            space: the space of z_d.
            shape: shape of one image.
            architecture: "mlp", the paper's networks; "conv"; or "conv-classifier", "mlp" with another q(z_d | x).
            join: "rows" (`GaussianRows`) or "beside" (`SharedGaussian`).
            continuous: c, the number of dimensions of each Gaussian.
            hidden: width of the first layers.
            estimator: as above.
            prior: as above.
            likelihood: as above.

        Raises:
            ArgumentError: an unknown architecture or join, or a space that these networks do not support.
        """
        if join not in _JOINS:
            raise ArgumentError(f"join must be one of {list(_JOINS)}, got {join!r}")
        space_config, joined = space_to_config(space), _JOINS[join](space, continuous)
        networks = make_networks(architecture, joined, shape, hidden)
        model = cls(*networks, joined, estimator, prior, likelihood)
        model._config = {
            "space": space_config,
            "shape": list(shape),
            "architecture": architecture,
            "join": join,
            "continuous": continuous,
            "hidden": hidden,
            "prior": prior,
            "likelihood": likelihood,
        }
        return model

    def scores(self, x: Tensor) -> Tensor:
        """Return the scores of z_d only: `[B, *shape] -> [B, *score]`."""
        return self.discrete(self.trunk(x))

    def encode(self, x: Tensor) -> Encoding:
        """Return the scores and the Gaussians of images `[B, *shape]`."""
        h = self.trunk(x)
        return Encoding(self.discrete(h), *self.continuous(h))

    def forward(
        self,
        x: Tensor,
        *,
        encoded: Encoding | None = None,
        estimator: AbstractEstimator | Literal["auto"] | None = None,
        kl: Kl = "auto",
        samples: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
        continuous_noise: Tensor | None = None,
        chunk_size: int | None = None,
        validate: bool = True,
    ) -> Elbo:
        """Estimate the bound of x `[B, *shape]`; minimise `-value.mean()`.

        Args:
            x: the images to reconstruct.
            encoded: the encoder's output for them, or for another version of them, such as grey images; None encodes x.
            estimator: the estimator in this call; None is that of the model.
            kl: as for `mixed_elbo`.
            samples: S, the number of samples of z_d; z_c is sampled once.
            generator: the source of all noise; the noise of z_c is drawn first.
            noise: `[S, B, *score]`, the noise of z_d; None draws it.
            continuous_noise: `[B, rows, c]`, the noise of z_c; None draws it.
            chunk_size: maximum number of z_d that are decoded for each image at a time.
            validate: check values for NaN and inf.
        """
        encoded = self.encode(x) if encoded is None else encoded
        return mixed_elbo(
            self._make_objective(x, encoded, continuous_noise, generator),
            encoded.scores,
            self.estimator if estimator is None else estimator,
            prior=self.prior,
            kl=kl,
            samples=samples,
            generator=generator,
            noise=noise,
            chunk_size=chunk_size,
            validate=validate,
        )

    def labelled_bound(
        self,
        x: Tensor,
        z_d: Tensor,
        *,
        encoded: Encoding | None = None,
        generator: torch.Generator | None = None,
        continuous_noise: Tensor | None = None,
    ) -> Tensor:
        r"""Return the lower bound `[B]` of $\log p(x, z_d)$ for a known z_d.

        It is $f(z_d) + \log p(z_d)$, with f as in `MixedObjective`. It does not depend on the scores.

        Args:
            x: `[B, *shape]`.
            z_d: `[B, *event]`, the label of each image.
            encoded: as for `forward`.
            generator: the source of the noise of z_c.
            continuous_noise: `[B, rows, c]`, the noise of z_c; None draws it.

        Raises:
            ShapeError: z_d does not have one value for each image.
        """
        shape = (len(x), *self.space.event_shape)
        if tuple(z_d.shape) != shape:
            raise ShapeError(
                f"z_d has shape {list(z_d.shape)}, but {len(x)} images and {self.space} need {list(shape)}; pass a z "
                f"for each image, such as space.enumerate()[category], not its number"
            )
        encoded = self.encode(x) if encoded is None else encoded
        z_d = z_d.to(encoded.mean.dtype)
        values = self._make_objective(x, encoded, continuous_noise, generator)(z_d[None])
        return values[0] + log_prior(self.prior, self.space, z_d)

    labelled = RenamedMember("labelled_bound")

    def _make_objective(
        self, x: Tensor, encoded: Encoding, noise: Tensor | None, generator: torch.Generator | None
    ) -> MixedObjective:
        return MixedObjective(
            self.likelihood(x), self.join, encoded.mean, encoded.log_variance, noise=noise, generator=generator
        )

    @torch.no_grad()
    def bounds(
        self,
        x: Tensor,
        *,
        encoded: Encoding | None = None,
        samples: int = 100,
        generator: torch.Generator | None = None,
    ) -> Bounds:
        r"""Return the bound and $\log p(x)$ of x `[B, *shape]`: exact in z_d if it is enumerable; z_c is sampled."""
        encoded = self.encode(x) if encoded is None else encoded
        arguments = (self.likelihood(x), self.join, encoded.scores, encoded.mean, encoded.log_variance)
        if self.is_enumerable:
            return exact_mixed_bounds(
                *arguments, samples=samples, prior=self.prior, generator=generator, chunk_size=_CHUNK_SIZE
            )
        return sampled_mixed_bounds(*arguments, samples=samples, prior=self.prior, generator=generator)

    def decode(self, z_d: Tensor, z_c: Tensor) -> Tensor:
        """Return the mean image given both latents: `[R, *event]` and `[R, rows, c] -> [R, *shape]`.

        Raises:
            ShapeError: the shapes of the latents do not fit the model, or the numbers of z_d and z_c differ.
        """
        shapes = (len(z_d), *self.space.event_shape), (len(z_d), self.join.rows, self.join.c)
        if (tuple(z_d.shape), tuple(z_c.shape)) != shapes:
            raise ShapeError(
                f"z_d and z_c have shapes {list(z_d.shape)} and {list(z_c.shape)}, but {self.join} needs "
                f"[R, {', '.join(map(str, shapes[0][1:]))}] and [R, {self.join.rows}, {self.join.c}]"
            )
        return self._images(self.join.join(z_d.to(z_c.dtype), z_c))

    def sample(
        self,
        count: int,
        *,
        z_d: Tensor | None = None,
        z_c: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Generate images; latents that are not given are drawn from the prior.

        The same z_c with different z_d shows what z_d means: another category in the same style, an attribute turned
        on. For this purpose, rows that are never used together share one draw (`AbstractJoin.sample_prior`).

        Args:
            count: the number of samples.
            z_d: `[count, *event]`; None draws them.
            z_c: `[count, rows, c]`; None draws them.
            generator: the source of the draws, z_d first; None is torch's global generator.

        Returns:
            Mean images `[count, *shape]`, z_d `[count, *event]` and z_c `[count, rows, c]`.
        """
        z_d = self.draw_prior(count, generator) if z_d is None else z_d
        if z_c is None:
            parameter = next(self.parameters())
            z_c = self.join.sample_prior(count, generator=generator, dtype=parameter.dtype, device=parameter.device)
        return self.decode(z_d, z_c), z_d, z_c

    @torch.no_grad()
    def edit(self, x: Tensor, z_d: Tensor) -> Tensor:
        """Return images x `[B, *shape]`, reconstructed with another z_d `[B, *event]`: `[B, *shape]`.

        The Gaussians are at their means given x and that z_d; with `SharedGaussian` they do not depend on z_d. To
        change some properties of the image and keep the others, start from the encoder's own z_d, `predict(x)`.
        """
        return self.decode(z_d, self.encode(x).mean)

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "MixedVAE":
        return cls.build(
            space_from_config(config["space"]),
            tuple(config["shape"]),
            architecture=config["architecture"],
            join=config["join"],
            continuous=config["continuous"],
            hidden=config["hidden"],
            prior=config["prior"],
            likelihood=config["likelihood"],
        )
