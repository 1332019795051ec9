"""The networks of a dVAE, between an image and a grid of vectors."""

from typing import final

from torch import Tensor, nn

from hardmax._deprecation import load_renamed
from hardmax.nn.convolutional import (
    LONGEST_SIDE,
    count_deepest_channels,
    halve_sizes,
    make_downsampling,
    make_upsampling,
)

__getattr__ = load_renamed(__name__, {"Codebook": "hardmax.nn.codebook:Codebook"})

_BLOCKS = 1  # residual blocks of a network


@final
class GridEncoder(nn.Module):
    """A convolutional encoder: halves an image until no side exceeds `longest`; returns one vector per grid position.

    Args:
        shape: shape of one image, (channels, H, W).
        dimensions: number of dimensions of a vector.
        longest: longest side of the grid.
        width: number of channels after the first convolution.

    Example:
        >>> import torch
        >>> encoder = GridEncoder((1, 28, 28), 32)
        >>> encoder.grid, encoder(torch.zeros(5, 1, 28, 28)).shape
        ((7, 7), torch.Size([5, 49, 32]))
    """

    def __init__(self, shape: tuple[int, ...], dimensions: int, longest: int = LONGEST_SIDE, width: int = 32) -> None:
        super().__init__()
        sizes = halve_sizes(shape, longest)
        channels = count_deepest_channels(shape, sizes, width)
        self.grid = sizes[-1]
        self.layers = nn.Sequential(
            *make_downsampling(shape, sizes, width),
            *(_ResidualBlock(channels) for _ in range(_BLOCKS)),
            nn.ReLU(),
            nn.Conv2d(channels, dimensions, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors, in row-major order of the grid: `[B, *shape] -> [B, n, dimensions]`."""
        return self.layers(x).flatten(2).mT


@final
class GridDecoder(nn.Module):
    """A convolutional decoder of a grid of vectors to an image, the reverse of `GridEncoder`.

    Args:
        shape: shape of one image, (channels, H, W).
        dimensions: number of dimensions of a vector.
        longest: longest side of the grid.
        width: number of channels before the last convolution.

    Example:
        >>> import torch
        >>> GridDecoder((1, 28, 28), 32)(torch.zeros(5, 49, 32)).shape
        torch.Size([5, 1, 28, 28])
    """

    def __init__(self, shape: tuple[int, ...], dimensions: int, longest: int = LONGEST_SIDE, width: int = 32) -> None:
        super().__init__()
        sizes = halve_sizes(shape, longest)
        channels = count_deepest_channels(shape, sizes, width)
        self.grid = sizes[-1]
        self.layers = nn.Sequential(
            nn.Conv2d(dimensions, channels, 3, padding=1),
            *(_ResidualBlock(channels) for _ in range(_BLOCKS)),
            *make_upsampling(shape, sizes, width),
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, n, dimensions] -> [R, *shape]`."""
        return self.layers(vectors.mT.unflatten(2, self.grid))


@final
class _ResidualBlock(nn.Module):
    """Residual block: `x + convolution(x)`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, channels, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)
