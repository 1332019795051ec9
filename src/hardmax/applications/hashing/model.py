"""The hash encoder, which maps images to binary codes: the codes of similar images differ in few bits."""

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

# Makes the objective from codes, partners and negatives: `InfoNCECodes`, or a partial of it.
Contrast = Callable[[Tensor, Tensor, Tensor], AbstractContrastedCodes]


@final
class HashEncoder(AbstractModel):
    r"""An encoder of images to codes of n bits (semantic hashing): $q(z \mid x)$, learned from pairs of similar images.

    The scores of a bit are standardised over the batch, $\text{scores} = g \, (h - \text{mean}) / \text{deviation}$;
    evaluation mode uses running means. Every bit is therefore one for about half of the images, so that no bit is
    wasted, and g sets the confidence of q. The code of an image is the arg max;
    `hardmax.applications.hashing.search` finds the nearest codes.

    Args:
        encoder: maps x `[B, *shape]` to `[B, n]`.
        space: the space of the n bits.
        gain: g, above 0; the confidence of q in a bit.
        estimator: how the encoder's gradient is estimated.

    Example:
        >>> import torch
        >>> from hardmax.applications.hashing import HashEncoder
        >>> model = HashEncoder.build(16, (1, 28, 28))
        >>> images = torch.rand(8, 1, 28, 28)
        >>> out = model(images, images.flip(-1))
        >>> (-out.value.sum()).backward()
        >>> model.eval().codes(images).shape
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
            bits: n, the number of bits.
            shape: shape of one image.
            architecture: "mlp" has two hidden layers, "conv" is convolutional.
            hidden: width of the hidden layers.
            gain: the confidence of q in a bit.
            estimator: how the encoder's gradient is estimated.

        Raises:
            ArgumentError: the architecture is unknown.
        """
        space = Binary(bits)
        if architecture == "mlp":
            encoder: nn.Module = MLPEncoder(shape, space, [hidden, hidden])
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
        """Channels, H and W of the images, as given to `build`.

        Raises:
            ArgumentError: the model was not created by `build`.
        """
        if self._config is None:
            raise ArgumentError("the shape of the images is unknown for a model with a network of your own")
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
        """Estimate the objective of the codes of pairs; minimise `-value.sum()`.

        Every value is that of the entire batch.

        Args:
            x: `[B, *shape]`, images.
            other: `[B, *shape]`, the partner of each image, such as a distorted copy.
            negative: `[B, B]`, symmetric mask of the pairs that are negatives of each other; None: all other pairs.
            contrast: the objective, `InfoNCECodes` or `TripletCodes`, or a partial of them.
            estimator: estimator for this call; None: that of the model.
            generator: generator of the noise; None: torch's global generator.
            noise: `[S * estimator.noises, 2 B, n]`, used instead of drawing noise.

        Returns:
            The estimate for the 2 B codes, those of x first.

        Raises:
            ShapeError: x and other have different shapes.
            ArgumentError: the baseline of the estimator uses other examples of the batch.
        """
        if x.shape != other.shape:
            raise ShapeError(f"x and other must be pairs, got {list(x.shape)} and {list(other.shape)}")
        count, estimator = len(x), estimator or self.estimator
        if estimator.couples_examples:
            # All examples have the same value, the batch's: subtracting their mean leaves zero.
            raise ArgumentError(
                f"{estimator} compares examples of a batch, but the objective of codes is one number for all of them; "
                f"use another estimator or baseline"
            )
        scores = self.scores(torch.cat([x, other]))
        if noise is None:
            noise = estimator.draw_noise(
                self.space, None, (2 * count,), generator, dtype=scores.dtype, device=scores.device
            )
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
