"""Networks between a picture and a grid of vectors, each of which sees a part of the picture."""

from typing import final

from torch import Tensor, nn

from hardmax.nn.convolutional import LONGEST, deepest_channels, doublings, halved_sizes, halvings

_BLOCKS = 1


@final
class GridEncoder(nn.Module):
    """Halve a picture until no side is longer than `longest`, look around, and give every place a vector.

    Args:
        shape: of one picture, (channels, H, W).
        dimensions: of a vector.
        longest: side of the grid.
        width: channels after the first convolution.

    Example:
        >>> import torch
        >>> encoder = GridEncoder((1, 28, 28), 32)
        >>> encoder.grid, encoder(torch.zeros(5, 1, 28, 28)).shape
        ((7, 7), torch.Size([5, 49, 32]))
    """

    def __init__(self, shape: tuple[int, ...], dimensions: int, longest: int = LONGEST, width: int = 32) -> None:
        super().__init__()
        sizes = halved_sizes(shape, longest)
        channels = deepest_channels(shape, sizes, width)
        self.grid = sizes[-1]
        self.layers = nn.Sequential(
            *halvings(shape, sizes, width),
            *(_Residual(channels) for _ in range(_BLOCKS)),
            nn.ReLU(),
            nn.Conv2d(channels, dimensions, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return vectors, row by row of the grid: `[B, *shape] -> [B, n, dimensions]`."""
        return self.layers(x).flatten(2).mT


@final
class GridDecoder(nn.Module):
    """The mirror image of `GridEncoder`.

    Args:
        shape: of one picture, (channels, H, W).
        dimensions: of a vector.
        longest: side of the grid.
        width: channels before the last convolution.

    Example:
        >>> import torch
        >>> GridDecoder((1, 28, 28), 32)(torch.zeros(5, 49, 32)).shape
        torch.Size([5, 1, 28, 28])
    """

    def __init__(self, shape: tuple[int, ...], dimensions: int, longest: int = LONGEST, width: int = 32) -> None:
        super().__init__()
        sizes = halved_sizes(shape, longest)
        channels = deepest_channels(shape, sizes, width)
        self.grid = sizes[-1]
        self.layers = nn.Sequential(
            nn.Conv2d(dimensions, channels, 3, padding=1),
            *(_Residual(channels) for _ in range(_BLOCKS)),
            *doublings(shape, sizes, width),
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, n, dimensions] -> [R, *shape]`."""
        return self.layers(vectors.mT.unflatten(2, self.grid))


@final
class _Residual(nn.Module):
    """`x + what is around it`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, channels, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)
