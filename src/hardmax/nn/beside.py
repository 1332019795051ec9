"""Decoders that see part of a picture beside a latent: they draw what is missing."""

from math import prod
from typing import final

import torch
from torch import Tensor, nn

from hardmax.nn.convolutional import deepest_channels, doublings, halved_sizes, halvings, spread_out
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
    """A U-Net of the visible part, at whose bottom features and z are spread out; what is drawn meets what is there.

    At every size the visible part is looked at again, so that lines go on and colours fit at the edges of the hole,
    which features of the whole picture do not keep.

    Args:
        features: of the visible part.
        latent: dimensions of z.
        shape: of one picture, (channels, H, W).
        hidden: width of the first layer.
        width: channels after the first convolution, and of the canvas before the last two.

    Example:
        >>> import torch
        >>> decoder = ConvBeside(40, 8, (3, 50, 64))
        >>> decoder(torch.zeros(2, 40), torch.zeros(2, 8), torch.zeros(2, 3, 50, 64)).shape
        torch.Size([2, 3, 50, 64])

    References:
        Ronneberger, Fischer & Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015.
    """

    def __init__(self, features: int, latent: int, shape: tuple[int, ...], hidden: int = 500, width: int = 32) -> None:
        super().__init__()
        canvas, sizes = width // 2, halved_sizes(shape)
        drawn = (canvas, *shape[1:])
        self.first = spread_out(features + latent, hidden, deepest_channels(drawn, sizes, width), sizes[-1])
        self.glances = nn.ModuleList(conv for conv in halvings(shape, sizes, width) if isinstance(conv, nn.Conv2d))
        self.steps = doublings(drawn, sizes, width, beside=2)
        self.meet = nn.Sequential(
            nn.Conv2d(canvas + shape[0], canvas, 3, padding=1), nn.ReLU(), nn.Conv2d(canvas, shape[0], 3, padding=1)
        )

    def forward(self, features: Tensor, z: Tensor, seen: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, features]`, `[R, latent]`, `[R, *shape] -> [R, *shape]`."""
        looks = [seen]
        for glance in self.glances:
            looks.append(glance(looks[-1]).relu())
        drawn = self.first(torch.cat([features, z], -1))
        for step, look in zip(self.steps, reversed(looks[1:]), strict=True):
            drawn = step(torch.cat([drawn, look], 1))
        return self.meet(torch.cat([drawn.relu(), seen], 1))
