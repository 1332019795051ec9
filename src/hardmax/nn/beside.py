"""Decoders that see part of a picture beside a latent: they draw what is missing."""

from math import prod
from typing import final

import torch
from torch import Tensor, nn

from hardmax.nn.convolutional import conv_pixels
from hardmax.nn.mlp import mlp


@final
class MLPBeside(nn.Module):
    """`[features, z] -> FC(hidden) -> ReLU -> FC(hidden) -> ReLU -> FC(pixels)`.

    Args:
        features: of the visible part.
        latent: dimensions of z.
        shape: of one picture, (channels, H, W).
        hidden: width of the hidden layers.

    Example:
        >>> import torch
        >>> decoder = MLPBeside(40, 8, (1, 28, 28))
        >>> decoder(torch.zeros(2, 40), torch.zeros(2, 8), torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(self, features: int, latent: int, shape: tuple[int, ...], hidden: int = 500) -> None:
        super().__init__()
        self.shape = shape
        self.layers = mlp([features + latent, hidden, hidden, prod(shape)])

    def forward(self, features: Tensor, z: Tensor, seen: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, features]`, `[R, latent]`, `[R, *shape] -> [R, *shape]`."""
        return self.layers(torch.cat([features, z], -1)).view(len(z), *self.shape)


@final
class ConvBeside(nn.Module):
    """`conv_pixels` of features and z to a canvas; two convolutions then look at it and at the visible part.

    What is drawn can so meet the edges of the hole, which features of the whole picture do not keep.

    Args:
        features: of the visible part.
        latent: dimensions of z.
        shape: of one picture, (channels, H, W).
        hidden: width of the first layer.
        canvas: channels that are drawn before the visible part is looked at.

    Example:
        >>> import torch
        >>> decoder = ConvBeside(40, 8, (3, 50, 64))
        >>> decoder(torch.zeros(2, 40), torch.zeros(2, 8), torch.zeros(2, 3, 50, 64)).shape
        torch.Size([2, 3, 50, 64])
    """

    def __init__(self, features: int, latent: int, shape: tuple[int, ...], hidden: int = 500, canvas: int = 16) -> None:
        super().__init__()
        self.canvas = conv_pixels(features + latent, (canvas, *shape[1:]), hidden)
        self.meet = nn.Sequential(
            nn.Conv2d(canvas + shape[0], canvas, 3, padding=1), nn.ReLU(), nn.Conv2d(canvas, shape[0], 3, padding=1)
        )

    def forward(self, features: Tensor, z: Tensor, seen: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, features]`, `[R, latent]`, `[R, *shape] -> [R, *shape]`."""
        canvas = self.canvas(torch.cat([features, z], -1)).relu()
        return self.meet(torch.cat([canvas, seen], 1))
