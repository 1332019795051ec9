"""An encoder of images to codes of bits, such that similar images have near codes."""

from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hardmax.applications.hashing.objective import AbstractContrastedCodes, InfoNCECodes
from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator, ReinMax
from hardmax.expectations import expectation
from hardmax.models.image_vae import Architecture
from hardmax.models.pretrained import AbstractModel
from hardmax.nn import ConvEncoder, MLPEncoder
from hardmax.spaces import Binary
from hardmax.types import Estimate

# From codes, partners and negatives to an objective: `InfoNCECodes`, or a partial of it.
Contrast = Callable[[Tensor, Tensor, Tensor], AbstractContrastedCodes]


@final
class HashEncoder(AbstractModel):
    r"""Semantic hashing: `q(z | x)` over codes of n bits, learned from pairs of similar images.

    The scores of a bit are standardised over the batch, $\text{scores} = g \, (h - \text{mean}) / \text{deviation}$,
    with running means in evaluation mode: every bit is one for about half of the images, so that none is wasted, and
    g sets the confidence of q. The code of an image is the arg max, and `hardmax.applications.hashing.search` finds
    the nearest of many.

    Args:
        encoder: maps x `[B, *shape]` to `[B, n]`.
        space: the bits.
        gain: g, above 0; confidence of q in a bit.
        estimator: how the encoder's gradient is estimated.

    Example:
        >>> import torch
        >>> from hardmax.applications.hashing import HashEncoder
        >>> model = HashEncoder.build(16, (1, 28, 28))
        >>> pictures = torch.rand(8, 1, 28, 28)
        >>> out = model(pictures, pictures.flip(-1))
        >>> (-out.value.sum()).backward()
        >>> model.eval().codes(pictures).shape
        torch.Size([8, 16])

    References:
        Salakhutdinov & Hinton, "Semantic hashing", 2009; Chen et al., 2020 (pairs from distortions).
    """

    kind = "hash-encoder"

    def __init__(
        self, encoder: nn.Module, space: Binary, gain: float = 6.0, estimator: AbstractEstimator | None = None
    ) -> None:
        super().__init__()
        if not gain > 0:
            raise ArgumentError(f"gain must be positive, got {gain}")
        self.encoder, self.space, self.gain = encoder, space, gain
        self.estimator = estimator or ReinMax()
        self.standard = nn.BatchNorm1d(space.n, affine=False)

    @classmethod
    def build(
        cls,
        bits: int,
        shape: tuple[int, ...],
        *,
        architecture: Architecture = "mlp",
        hidden: int = 500,
        gain: float = 6.0,
        estimator: AbstractEstimator | None = None,
    ) -> "HashEncoder":
        """Return a model with one of the built-in networks, for images of this shape (channels, H, W).

        Args:
            bits: n.
            shape: of one image.
            architecture: "mlp" has two hidden layers, "conv" is convolutional.
            hidden: width of the hidden layers.
            gain: confidence of q in a bit.
            estimator: how the encoder's gradient is estimated.

        Raises:
            ArgumentError: an unknown architecture.
        """
        space = Binary(bits)
        if architecture == "mlp":
            encoder: nn.Module = MLPEncoder(shape, space, hidden, layers=2)
        elif architecture == "conv":
            encoder = ConvEncoder(shape, space, hidden)
        else:
            raise ArgumentError(f"architecture must be 'mlp' or 'conv', got {architecture!r}")
        model = cls(encoder, space, gain, estimator)
        model._config = {
            "bits": bits,
            "shape": list(shape),
            "architecture": architecture,
            "hidden": hidden,
            "gain": gain,
        }
        return model

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, H and W of the images that `build` was called for.

        Raises:
            ArgumentError: the model was not created by `build`.
        """
        if self._config is None:
            raise ArgumentError("a model with a network of your own does not know the shape of its pictures")
        channels, height, width = self._config["shape"]
        return channels, height, width

    def scores(self, x: Float[Tensor, "B ..."]) -> Float[Tensor, "B n"]:
        """Return the scores of the bits; in training mode standardised over the batch x."""
        return self.gain * self.standard(self.encoder(x))

    @torch.no_grad()
    def codes(self, x: Float[Tensor, "B ..."]) -> Float[Tensor, "B n"]:
        """Return the most probable bits of each image; call `eval()` first."""
        return self.space.argmax(self.scores(x))

    def forward(
        self,
        x: Float[Tensor, "B ..."],
        other: Float[Tensor, "B ..."],
        *,
        negative: Bool[Tensor, "B B"] | None = None,
        contrast: Contrast = InfoNCECodes,
        estimator: AbstractEstimator | None = None,
        generator: torch.Generator | None = None,
        noise: Float[Tensor, "S M n"] | None = None,
    ) -> Estimate:
        """Estimate the objective of the codes of pairs: minimise `-value.sum()`; each value is that of the whole batch.

        Args:
            x: images.
            other: the partner of each, such as a distorted copy.
            negative: symmetric mask of pairs that are negatives of each other; None: all other pairs.
            contrast: the objective, `InfoNCECodes` or `TripletCodes`, or a partial of them.
            estimator: for this call.
            generator: of the noise; None is torch's global generator.
            noise: `[S * estimator.noises, 2 B, n]`, instead of drawing it.

        Returns:
            The estimate for the 2 B codes, x first.

        Raises:
            ShapeError: x and other have different shapes.
            ArgumentError: an estimator whose baseline uses other examples of the batch.
        """
        if x.shape != other.shape:
            raise ShapeError(f"x and other must be pairs, got {list(x.shape)} and {list(other.shape)}")
        count, estimator = len(x), estimator or self.estimator
        if estimator.couples_examples:
            # All examples have the same value, the batch's: subtracting their mean leaves zero.
            raise ArgumentError(
                f"{estimator} compares examples of a batch, and what codes are worth is one number for all of them; "
                f"use another estimator or baseline"
            )
        scores = self.scores(torch.cat([x, other]))
        if noise is None:
            shape = (estimator.default_samples * estimator.noises, 2 * count)
            noise = self.space.noise(shape, generator=generator, dtype=scores.dtype, device=scores.device)
        if negative is None:
            negative = ~torch.eye(count, dtype=torch.bool, device=x.device)
        codes = self.space.argmax(self.space.perturb(scores.detach(), noise[0]))
        partner = torch.arange(2 * count, device=x.device).roll(count)
        f = contrast(codes, partner, negative.repeat(2, 2))
        return expectation(f, scores, self.space, estimator, noise=noise)

    @classmethod
    def _from_config(cls, config: dict[str, Any]) -> "HashEncoder":
        return cls.build(
            config["bits"],
            tuple(config["shape"]),
            architecture=config["architecture"],
            hidden=config["hidden"],
            gain=config["gain"],
        )
