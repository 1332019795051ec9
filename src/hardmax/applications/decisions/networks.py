"""The network of maps: images of terrain in, one negative score for each cell out."""

from collections.abc import Sequence
from typing import final

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardmax.data.terrain import PIXELS
from hardmax.errors import ArgumentError

LEAST_COST = 0.5
"""Smallest predicted cost of a cell. It sets the scale of costs: decisions do not depend on it, nor do losses with
multiplicative noise, which would otherwise be smallest where all costs are zero."""
_CHANNELS = 32


@final
class MapNetwork(nn.Module):
    r"""A convolutional network from images to scores of cells, $-(\mathrm{softplus}(a) + 0.5)$ for its output a.

    Three convolutions of stride 2 lead from 8 x 8 pixels to one cell, one more looks at the neighbours of a cell. With
    the default number of channels there are about 25,000 weights.

    Args:
        channels: number of channels.
    """

    def __init__(self, channels: int = _CHANNELS) -> None:
        super().__init__()
        half = max(1, channels // 2)
        self.layers = nn.Sequential(
            nn.Conv2d(3, half, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(half, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 1, 1),
        )

    def forward(self, x: Shaped[Tensor, "N 3 H W"]) -> Float[Tensor, "N h w"]:
        """Return the scores of images, whose values are from 0 to 255."""
        pixels = x.to(next(self.parameters()).dtype) / 127.5 - 1
        return -softplus(self.layers(pixels)[:, 0]) - LEAST_COST


def build_map_network(features: Sequence[int], scores: Sequence[int], hidden: int) -> MapNetwork:
    """Return the network of maps; `hidden` is the number of its channels, 0: 32.

    Raises:
        ArgumentError: the features are not RGB images of 8 x 8 pixels for each score.
    """
    expected = [3, *(PIXELS * size for size in scores)]
    if list(features) != expected:
        raise ArgumentError(
            f"maps of {' x '.join(map(str, scores))} cells are images of shape {expected}, got {list(features)}"
        )
    return MapNetwork(hidden or _CHANNELS)
