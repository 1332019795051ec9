"""The dVAE model, which encodes an image as a grid of tokens and decodes tokens to an image."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from hardmax._deprecation import RenamedMember
from hardmax.applications.tokens.networks import GridDecoder, GridEncoder
from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.estimators import AbstractEstimator, ReinMax
from hardmax.models.image_vae import AbstractVAE, LikelihoodName
from hardmax.nn.codebook import Codebook
from hardmax.nn.finite_scalar import FiniteScalarQuantizer, choose_levels
from hardmax.nn.quantization import Bypass, bypass_choice
from hardmax.objectives import Bounds, Elbo, elbo, importance_weighted_bound
from hardmax.objectives.elbo import Kl
from hardmax.spaces import Categorical
from hardmax.spaces.abstract import make_one_hot

CodebookName = Literal["gradient", "average", "linear", "finite"]


@dataclass(frozen=True)
class Quantized:
    r"""The result of `TokenVAE.quantize`: images with the nearest codes as tokens, and the losses of a VQ-VAE.

    Attributes:
        reconstruction: `[B]`. $\log p(x \mid z)$ for the nearest codes z; its gradient bypasses the arg max to the
            encoder.
        distance: `[B]`. Squared distance of the encoder's vectors to their codes, with a gradient for the codes only.
        commitment: `[B]`. The same value, with a gradient for the encoder only.
        z: `[B, n, K]`. The nearest codes, one-hot.
        e: `[B, n, d]`. The encoder's vectors, detached.
    """

    reconstruction: Float[Tensor, " B"]
    distance: Float[Tensor, " B"]
    commitment: Float[Tensor, " B"]
    z: Float[Tensor, "B n K"]
    e: Float[Tensor, "B n d"]


@final
class TokenVAE(AbstractVAE):
    r"""A dVAE (discrete VAE) of images: its latent is a grid of tokens, each the number of a code in a codebook.

    For each of the n positions of the grid, the encoder outputs a distribution over the K codes. The model is

    $$ p(x) = \sum_z K^{-n} \, p(x \mid C^T z), $$

    with $z \in \{1, \ldots, K\}^n$, written as one-hot rows, and the codebook C; the scores of $q(z_i = k \mid x)$ are
    $-s \, |e_i(x) - c_k|^2$. The bound is that of any discrete VAE,

    $$ \mathbb{E}_q[\log p(x \mid C^T z)] - \sum_i \mathrm{KL}(q(z_i \mid x) \,\|\, 1 / K), $$

    with both terms in nats per image: KL weight 1 needs no tuning if the variance of the pixels is learned, too.
    `quantize` trains the same networks as a VQ-VAE, with the nearest code instead of a sampled one.

    Args:
        encoder: maps x `[B, *shape]` to vectors `[B, n, d]`; each vector is then normalised to mean 0 and variance 1.
        pixels: maps codes `[R, n, d]` to the parameters of the pixels, `[R, *shape]`.
        codebook: K codes of d dimensions, `hm.nn.Codebook` or `hm.nn.FiniteScalarQuantizer`; the vectors of the latter
            are not normalised.
        grid: height and width of the grid, with n = height * width.
        estimator: how the gradient for scores is estimated; by default `ReinMax()`, the best in our measurements.
        likelihood: "gaussian" (means; one learned variance) or "bernoulli" (x in [0, 1]; logits).

    Example:
        >>> import torch
        >>> from hardmax.applications.tokens import TokenVAE
        >>> model = TokenVAE.build((1, 28, 28), codes=128)
        >>> x = torch.rand(8, 1, 28, 28)
        >>> out = model(x)
        >>> (-out.value.mean()).backward()
        >>> tokens = model.tokenize(x)
        >>> tokens.shape, model.detokenize(tokens).shape
        (torch.Size([8, 7, 7]), torch.Size([8, 1, 28, 28]))

    References:
        Ramesh et al., "Zero-shot text-to-image generation", 2021 (dVAE); van den Oord, Vinyals & Kavukcuoglu, "Neural
        discrete representation learning", 2017 (VQ-VAE); Rybkin, Daniilidis & Levine, "Simple and effective VAE
        training with calibrated decoders", 2021 (the variance).
    """

    kind = "token-vae"
    space: Categorical
    decoder: "TokenDecoder"  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        encoder: nn.Module,
        pixels: nn.Module,
        codebook: Codebook | FiniteScalarQuantizer,
        grid: tuple[int, int],
        estimator: AbstractEstimator | None = None,
        likelihood: LikelihoodName = "gaussian",
    ) -> None:
        super().__init__(Categorical(codebook.codes, grid[0] * grid[1]), "uniform", likelihood)
        self.encoder, self.grid = encoder, grid
        self.decoder = TokenDecoder(codebook, pixels)  # pyright: ignore[reportIncompatibleVariableOverride]
        self.estimator = estimator or ReinMax()

    @classmethod
    def build(
        cls,
        shape: tuple[int, ...],
        codes: int = 128,
        *,
        dimensions: int = 32,
        longest: int = 8,
        width: int = 32,
        codebook: CodebookName = "gradient",
        estimator: AbstractEstimator | None = None,
        likelihood: LikelihoodName = "gaussian",
    ) -> "TokenVAE":
        """Return a model with the built-in networks, for images of this shape (channels, H, W).

        Args:
            shape: shape of one image.
            codes: K, the number of codes.
            dimensions: d, the number of dimensions of a code.
            longest: longest side of the grid: the image is halved until no side is longer. 28 x 28 pixels become 7 x 7
                tokens, 64 x 64 become 8 x 8.
            width: number of channels of the networks.
            codebook: how the codes learn, as for `hm.nn.Codebook`; "finite" is `hm.nn.FiniteScalarQuantizer`, with as
                many dimensions as it needs for this number of codes.
            estimator: as for the class.
            likelihood: as for the class.

        Raises:
            ArgumentError: fewer than two codes, a dimension, side or width below 1, or an unknown codebook.
        """
        if codes < 2 or min(dimensions, longest, width) < 1:
            raise ArgumentError(
                f"a codebook needs at least 2 codes, and dimensions, longest and width of at least 1; got {codes=}, "
                f"{dimensions=}, {longest=}, {width=}"
            )
        levels = choose_levels(codes) if codebook == "finite" else None
        size = dimensions if levels is None else len(levels)
        encoder = GridEncoder(shape, size, longest, width)
        pixels = GridDecoder(shape, size, longest, width)
        learning = "gradient" if codebook == "finite" else codebook
        book = Codebook(codes, dimensions, learning=learning) if levels is None else FiniteScalarQuantizer(levels)
        model = cls(encoder, pixels, book, encoder.grid, estimator, likelihood)
        model._config = {
            "architecture": "grid",
            "shape": list(shape),
            "codes": codes,
            "dimensions": dimensions,
            "longest": longest,
            "width": width,
            "codebook": codebook,
            "likelihood": likelihood,
        }
        return model

    @property
    def codebook(self) -> Codebook | FiniteScalarQuantizer:
        """The codebook, which the decoder contains."""
        return self.decoder.codebook

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, H and W of an image."""
        with torch.no_grad():
            pixels = self.decode(self.space.argmax(next(self.parameters()).new_zeros(1, *self.space.score_shape)))
        channels, height, width = pixels.shape[1:]
        return channels, height, width

    @property
    def fingerprint(self) -> str:
        """A hash of the weights; a token file stores it to identify the model that computed the tokens."""
        digest = hashlib.sha256()
        for name, weight in [*self.named_parameters(), *self._named_codes()]:
            digest.update(name.encode() + weight.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def _named_codes(self) -> list[tuple[str, Tensor]]:
        """Return the codes that are not parameters."""
        learning = getattr(self.codebook, "learning", "gradient")
        return [] if learning == "gradient" else [("decoder.codebook.vectors", self.codebook.get_buffer("vectors"))]

    def encode(self, x: Tensor) -> Tensor:
        """Return the encoder's vectors of images, before quantization: `[B, *shape] -> [B, n, d]`."""
        e = self.encoder(x)
        if isinstance(self.codebook, FiniteScalarQuantizer):  # it bounds each entry by itself
            return e
        # With a fixed norm, vectors cannot drift away from the codes, and the scale s keeps its meaning.
        return layer_norm(e, e.shape[-1:])

    vectors = RenamedMember("encode")

    def scores(self, x: Tensor) -> Tensor:
        """Return the scores of the codes at each position: `[B, *shape] -> [B, n, K]`."""
        return self.codebook.scores(self.encode(x))

    def forward(
        self,
        x: Tensor,
        *,
        scores: Tensor | None = None,
        estimator: AbstractEstimator | None = None,
        kl: Kl = "auto",
        kl_weight: float = 1.0,
        samples: int | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
        chunk_size: int | None = None,
        validate: bool = True,
    ) -> Elbo:
        """Estimate the bound of x `[B, *shape]`; minimise `-value.mean()`.

        Args:
            x: the images.
            scores: `[B, n, K]`, the scores of x if they are already computed.
            estimator: estimator for this call; None: that of the model.
            kl: as for `hardmax.elbo`, like all arguments below.
            kl_weight: weight of the KL; 1 is the bound.
            samples: S, the number of z to draw.
            generator: generator of the noise.
            noise: `[S, B, n, K]`, used instead of drawing noise.
            chunk_size: maximum number of z decoded per image in one call.
            validate: check values for NaN and inf.
        """
        return elbo(
            self.likelihood(x),
            self.scores(x) if scores is None else scores,
            self.space,
            self.estimator if estimator is None else estimator,
            kl=kl,
            kl_weight=kl_weight,
            samples=samples,
            generator=generator,
            noise=noise,
            chunk_size=chunk_size,
            validate=validate,
        )

    def quantize(self, x: Tensor, bypass: Bypass = "nearest") -> Quantized:
        """Quantize images x `[B, *shape]` to their nearest codes, and return the losses of a VQ-VAE.

        To train a VQ-VAE, minimise the mean of `-reconstruction + distance + 0.25 commitment`. The gradient of the
        reconstruction with respect to a code is used as that of the vector which the code replaces (straight-through),
        or rotated (`bypass="rotate"`). The codebook learns only from its distance to the vectors.
        """
        e = self.encode(x)
        if isinstance(self.codebook, Codebook):
            codes, indices = self.codebook(e)
            quantized = bypass_choice(e, codes, bypass)
        else:
            out = self.codebook(e)
            codes = e  # finite scalar quantization has no distances to learn from
            quantized, indices = out.quantized, out.indices
        distance, commitment = (codes - e.detach()).square(), (codes.detach() - e).square()
        return Quantized(
            self._likelihood(self.decoder.pixels, x)(quantized[None])[0],
            distance.sum((1, 2)),
            commitment.sum((1, 2)),
            make_one_hot(indices[..., None], self.space.k, e.dtype),
            e.detach(),
        )

    quantized = RenamedMember("quantize")

    @torch.no_grad()
    def bounds(self, x: Tensor, *, samples: int = 1, generator: torch.Generator | None = None) -> Bounds:
        r"""Return the bound and $\log p(x)$ of images `[B, *shape]`, estimated from samples; the KL is exact."""
        return importance_weighted_bound(
            self.likelihood(x), self.scores(x), self.space, samples=samples, generator=generator, chunk_size=10
        )

    @torch.no_grad()
    def token_bounds(self, x: Tensor) -> Bounds:
        r"""Return the bounds of images `[B, *shape]` if q is the single point of their tokens; its KL is $n \log K$."""
        reconstruction = self.likelihood(x)(self.predict(x)[None])[0]
        kl = torch.full_like(reconstruction, self.space.log_size)
        return Bounds(reconstruction - kl, reconstruction - kl, reconstruction, kl)

    @torch.no_grad()
    def tokenize(self, x: Tensor) -> Int64[Tensor, "B h w"]:
        """Return the most probable code at each position: `[B, *shape] -> [B, h, w]`, integers below K."""
        return self.scores(x).argmax(-1).unflatten(1, self.grid)

    def detokenize(self, tokens: Int64[Tensor, "B h w"]) -> Tensor:
        """Return the mean image of tokens: `[B, h, w] -> [B, *shape]`.

        Raises:
            ShapeError: the tokens are not grids of this model.
            DtypeError: the tokens are not integers.
            ArgumentError: a token is below 0, or K or more.
        """
        if tokens.dim() != 3 or tuple(tokens.shape[1:]) != self.grid:
            raise ShapeError(f"tokens have shape {list(tokens.shape)}, expected [B, {self.grid[0]}, {self.grid[1]}]")
        if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise DtypeError(f"tokens must be whole numbers, got {tokens.dtype}")
        if len(tokens) and not (int(tokens.min()) >= 0 and int(tokens.max()) < self.space.k):
            raise ArgumentError(
                f"tokens must be from 0 to {self.space.k - 1}, got {int(tokens.min())} to {int(tokens.max())}; do "
                f"they belong to another model?"
            )
        return self.decode(
            make_one_hot(tokens.flatten(1)[..., None].long(), self.space.k, next(self.parameters()).dtype)
        )

    def decode(self, z: Tensor) -> Tensor:
        """Return the mean image of each z: `[R, n, K] -> [R, *shape]`."""
        return self._images(z)

    def sample(self, count: int, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw z from the uniform prior; return the mean images `[count, *shape]` and z `[count, n, K]`.

        The tokens of a real image are far from independent: `TokenPrior` learns their joint distribution.
        """
        z = self.draw_prior(count, generator)
        return self.decode(z), z

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "TokenVAE":
        return cls.build(
            tuple(config["shape"]),
            config["codes"],
            dimensions=config["dimensions"],
            longest=config["longest"],
            width=config["width"],
            codebook=config.get("codebook", "gradient"),  # models of earlier versions have no other
            likelihood=config["likelihood"],
        )


@final
class TokenDecoder(nn.Module):
    """The decoder of a `TokenVAE`: looks up codes in the codebook and decodes them, `[R, n, K] -> [R, *shape]`."""

    def __init__(self, codebook: Codebook | FiniteScalarQuantizer, pixels: nn.Module) -> None:
        super().__init__()
        self.codebook, self.pixels = codebook, pixels

    def forward(self, z: Tensor) -> Tensor:
        """Return the parameters of the pixels."""
        return self.pixels(self.codebook.look_up(z))
