"""Encoders and decoders of label maps, linear and convolutional, for slices and volumes.

An encoder maps log-ratios `[B, M, *coarse]` to the mean and log-variance of z, each `[B, L]`; a decoder maps z `[R, L]`
to logits `[R, M, *coarse]`.
"""

from math import ceil, prod
from typing import final

import torch
from torch import Tensor, nn

_SMALLEST = 4
_CONVOLUTIONS = {2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@final
class LinearEncoder(nn.Module):
    """An encoder that is linear in the features: `mean = A P(features - centre) + a`, one log-variance per latent.

    The projection P is fixed, set by principal components (see `initialize_with_pca`), and has one row per latent. The
    remaining parameters are few and well scaled, unlike a free matrix of a hundred thousand columns.

    Args:
        labels: M, the number of labels.
        coarse: size of the features.
        latents: L, the number of latents.

    Example:
        >>> import torch
        >>> mean, log_variance = LinearEncoder(3, (4, 5), 2)(torch.zeros(7, 3, 4, 5))
        >>> mean.shape, log_variance.shape
        (torch.Size([7, 2]), torch.Size([7, 2]))
    """

    centre: Tensor
    projection: Tensor

    def __init__(self, labels: int, coarse: tuple[int, ...], latents: int) -> None:
        super().__init__()
        size = labels * prod(coarse)
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("projection", torch.zeros(latents, size))
        self.map = nn.Linear(latents, latents)
        self.log_variance = nn.Parameter(torch.zeros(latents))
        nn.init.eye_(self.map.weight)
        nn.init.zeros_(self.map.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance: `[B, M, *coarse] -> [B, L]` twice."""
        mean = self.map((features.flatten(1) - self.centre) @ self.projection.T)
        return mean, self.log_variance.expand_as(mean)


@final
class LinearDecoder(nn.Module):
    """A decoder whose logits are linear in z: `z W + b`.

    Args:
        labels: M, the number of labels.
        coarse: size of the logits.
        latents: L, the number of latents.

    Example:
        >>> import torch
        >>> LinearDecoder(3, (4, 5), 2)(torch.zeros(7, 2)).shape
        torch.Size([7, 3, 4, 5])
    """

    def __init__(self, labels: int, coarse: tuple[int, ...], latents: int) -> None:
        super().__init__()
        self.shape = (labels, *coarse)
        self.weight = nn.Parameter(torch.zeros(latents, prod(self.shape)))
        self.bias = nn.Parameter(torch.zeros(prod(self.shape)))

    def forward(self, z: Tensor) -> Tensor:
        """Return logits: `[R, L] -> [R, M, *coarse]`."""
        return (z @ self.weight + self.bias).view(-1, *self.shape)


def halve_sizes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the sizes of a grid, repeatedly halved until no side is longer than four.

    Example:
        >>> halve_sizes((20, 24, 20))
        [(20, 24, 20), (10, 12, 10), (5, 6, 5), (3, 3, 3)]
    """
    sizes = [tuple(shape)]
    while max(sizes[-1]) > _SMALLEST:
        sizes.append(tuple(ceil(side / 2) for side in sizes[-1]))
    return sizes


@final
class ConvEncoder(nn.Module):
    """An encoder of strided convolutions that halve the grid and double the channels, then one linear layer.

    It encodes label maps (M channels) and scans (see `image_encoder`).

    Args:
        channels: channels of the input.
        shape: shape of its grid, 2-D or 3-D.
        latents: L, the number of latents.
        width: channels after the first convolution.

    Example:
        >>> import torch
        >>> mean, log_variance = ConvEncoder(3, (8, 9, 8), 2)(torch.zeros(7, 3, 8, 9, 8))
        >>> mean.shape
        torch.Size([7, 2])
    """

    def __init__(self, channels: int, shape: tuple[int, ...], latents: int, width: int = 16) -> None:
        super().__init__()
        grids, layers = halve_sizes(shape), []
        convolution = _CONVOLUTIONS[len(shape)]
        for level in range(len(grids) - 1):
            after = width * 2 ** min(level, 2)
            layers += [convolution(channels, after, 3, stride=2, padding=1), nn.GroupNorm(1, after), nn.SiLU()]
            channels = after
        last = nn.Linear(channels * prod(grids[-1]), 2 * latents)
        nn.init.normal_(last.weight, std=0.01)  # q starts near the prior: the KL of a random network would dominate
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*layers, nn.Flatten(), last)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance: `[B, channels, *shape] -> [B, L]` twice."""
        mean, log_variance = self.layers(x).chunk(2, dim=1)
        return mean, log_variance


@final
class ConvDecoder(nn.Module):
    """A decoder that mirrors `ConvEncoder`: a linear layer, then transposed convolutions that double the grid.

    Args:
        labels: M, the number of labels.
        coarse: size of the logits, 2-D or 3-D.
        latents: L, the number of latents.
        width: channels before the last convolution.

    Example:
        >>> import torch
        >>> ConvDecoder(3, (8, 9, 8), 2)(torch.zeros(7, 2)).shape
        torch.Size([7, 3, 8, 9, 8])
    """

    def __init__(self, labels: int, coarse: tuple[int, ...], latents: int, width: int = 16) -> None:
        super().__init__()
        self.grids = halve_sizes(coarse)[::-1]
        widths = [width * 2 ** min(level, 2) for level in reversed(range(len(self.grids) - 1))]
        first = widths[0] if widths else labels
        self.first = nn.Sequential(
            nn.Linear(latents, first * prod(self.grids[0])), nn.Unflatten(1, (first, *self.grids[0]))
        )
        transposed = _TRANSPOSED[len(coarse)]
        pairs = zip(widths, [*widths[1:], labels] if widths else [], strict=True)
        steps = [transposed(a, b, 4, stride=2, padding=1) for a, b in pairs]
        for last in steps[-1:]:
            nn.init.normal_(last.weight, std=0.01)  # initially close to the location prior
            nn.init.zeros_(last.bias)
        self.steps = nn.ModuleList(steps)

    def forward(self, z: Tensor) -> Tensor:
        """Return logits: `[R, L] -> [R, M, *coarse]`."""
        x = self.first(z)
        for step, grid in zip(self.steps, self.grids[1:], strict=True):
            x = step(nn.functional.silu(x))[(..., *(slice(side) for side in grid))]
        return x
