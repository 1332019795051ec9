"""The networks of a completion model: two trunks, their heads, and decoders whose input includes the visible pixels."""

from dataclasses import dataclass
from math import prod
from typing import final

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError
from hardmax.models.image_vae import Architecture
from hardmax.nn import ComponentHead, ScoreHead, build_conv_trunk, build_mlp
from hardmax.nn.convolutional import (
    count_deepest_channels,
    halve_sizes,
    make_downsampling,
    make_grid_layers,
    make_upsampling,
)
from hardmax.nn.linear import Linear
from hardmax.spaces import Categorical


@final
class MLPCompletionDecoder(nn.Module):
    """A decoder with two hidden layers: `[features, z] -> FC(hidden) -> ReLU -> FC(hidden) -> ReLU -> FC(pixels)`.

    Args:
        features: number of features of the visible part.
        latent: number of dimensions of z.
        shape: shape of one image, (channels, H, W).
        hidden: width of the hidden layers.

    Example:
        >>> import torch
        >>> decoder = MLPCompletionDecoder(40, 8, (1, 28, 28))
        >>> decoder(torch.zeros(2, 40), torch.zeros(2, 8), torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(self, features: int, latent: int, shape: tuple[int, ...], hidden: int = 500) -> None:
        super().__init__()
        self.shape = shape
        self.layers = build_mlp([features + latent, hidden, hidden, prod(shape)])

    def forward(self, features: Tensor, z: Tensor, visible: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, features]`, `[R, latent]`, `[R, *shape] -> [R, *shape]`."""
        return self.layers(torch.cat([features, z], -1)).view(len(z), *self.shape)


@final
class UNetCompletionDecoder(nn.Module):
    """A U-Net of the visible part; features and z enter at the bottom, the visible pixels again in the last layers.

    Skip connections from the visible part at every size continue lines and match colours at the edges of the hole,
    which features of the entire image do not preserve.

    Args:
        features: number of features of the visible part.
        latent: number of dimensions of z.
        shape: shape of one image, (channels, H, W).
        hidden: width of the first layer.
        width: number of channels after the first convolution, and of the canvas before the last two.

    Example:
        >>> import torch
        >>> decoder = UNetCompletionDecoder(40, 8, (3, 50, 64))
        >>> decoder(torch.zeros(2, 40), torch.zeros(2, 8), torch.zeros(2, 3, 50, 64)).shape
        torch.Size([2, 3, 50, 64])

    References:
        Ronneberger, Fischer & Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015.
    """

    def __init__(self, features: int, latent: int, shape: tuple[int, ...], hidden: int = 500, width: int = 32) -> None:
        super().__init__()
        canvas, sizes = width // 2, halve_sizes(shape)
        canvas_shape = (canvas, *shape[1:])
        self.first = make_grid_layers(
            features + latent, hidden, count_deepest_channels(canvas_shape, sizes, width), sizes[-1]
        )
        self.glances = nn.ModuleList(
            conv for conv in make_downsampling(shape, sizes, width) if isinstance(conv, nn.Conv2d)
        )
        self.steps = make_upsampling(canvas_shape, sizes, width, grids=2)
        self.meet = nn.Sequential(
            nn.Conv2d(canvas + shape[0], canvas, 3, padding=1), nn.ReLU(), nn.Conv2d(canvas, shape[0], 3, padding=1)
        )

    def forward(self, features: Tensor, z: Tensor, visible: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, features]`, `[R, latent]`, `[R, *shape] -> [R, *shape]`."""
        skips = [visible]
        for glance in self.glances:
            skips.append(glance(skips[-1]).relu())
        canvas = self.first(torch.cat([features, z], -1))
        for step, skip in zip(self.steps, reversed(skips[1:]), strict=True):
            canvas = step(torch.cat([canvas, skip], 1))
        return self.meet(torch.cat([canvas.relu(), visible], 1))


@dataclass(frozen=True)
class CompletionNetworks:
    """The networks of a `CompletionModel`.

    Attributes:
        visible: maps images `[B, *shape]`, without their hidden part, to features `[B, H]`, $z_m$ of the notes.
        decoder: maps features `[R, H]`, z `[R, c]` and the visible part `[R, *shape]` to pixels `[R, *shape]`.
        whole: maps complete images `[B, *shape]` to features `[B, H]`; None if there is no latent.
        posterior: maps both features `[B, 2 H]` to mean and log-variance of z, `[B, 2 c]`; None if there is no latent.
        weights: maps features `[B, H]` to scores of components `[B, k]`; None if the prior is a standard normal.
        components: maps features `[B, H]` to their means and log-variances `[B, k, c]`; None if `weights` is.
        chooser: maps both features `[B, 2 H]` to the encoder's own scores of components `[B, k]`; None if `weights` is.
    """

    visible: nn.Module
    decoder: nn.Module
    whole: nn.Module | None = None
    posterior: nn.Module | None = None
    weights: nn.Module | None = None
    components: nn.Module | None = None
    chooser: nn.Module | None = None


def make_networks(
    architecture: Architecture, shape: tuple[int, ...], components: int, latent: int, hidden: int
) -> CompletionNetworks:
    """Build the library's networks for images of this shape (channels, H, W).

    "mlp" has two hidden layers in each trunk and in the decoder; "conv" has convolutions instead.

    Raises:
        ArgumentError: an unknown architecture, or components without a latent.
    """
    if components < 0 or latent < 0 or (components and not latent):
        raise ArgumentError(
            f"components and latent must not be negative, and components need a latent, got {components} and "
            f"{latent}; for a network without a latent set both to 0"
        )
    if architecture == "mlp":
        decoder = MLPCompletionDecoder(hidden, latent, shape, hidden)
    elif architecture == "conv":
        decoder = UNetCompletionDecoder(hidden, latent, shape, hidden)
    else:
        raise ArgumentError(f"architecture must be 'mlp' or 'conv', got {architecture!r}")
    visible = _make_trunk(architecture, shape, hidden)
    if not latent:
        return CompletionNetworks(visible, decoder)
    width = max(100, 2 * latent)
    whole, posterior = _make_trunk(architecture, shape, hidden), Linear(2 * hidden, 2 * latent)
    if not components:
        return CompletionNetworks(visible, decoder, whole, posterior)
    space = Categorical(components)
    return CompletionNetworks(
        visible,
        decoder,
        whole,
        posterior,
        weights=ScoreHead(hidden, space),
        components=ComponentHead(hidden, components, latent, width),
        chooser=ScoreHead(2 * hidden, space),
    )


def _make_trunk(architecture: Architecture, shape: tuple[int, ...], hidden: int) -> nn.Module:
    if architecture == "conv":
        return build_conv_trunk(shape, hidden)
    return nn.Sequential(nn.Flatten(), *build_mlp([prod(shape), hidden, hidden]), nn.ReLU())
