"""The networks of a mixed VAE: a trunk, two heads, a decoder."""

from math import prod

from torch import nn

from hardmax.errors import ArgumentError
from hardmax.models.vae import Architecture
from hardmax.nn import GaussianHead, ScoreHead, conv_pixels, conv_trunk, leaky, mlp
from hardmax.objectives import AbstractJoin


def mixed_networks(
    architecture: Architecture, join: AbstractJoin, shape: tuple[int, ...], hidden: int
) -> tuple[nn.Module, nn.Module, nn.Module, nn.Module]:
    """Return a trunk, a head of scores, one of Gaussians and a decoder, for pictures of this shape (channels, H, W).

    "mlp" is the paper's, with hidden = 400: the trunk is X - 400 - 200, the head of scores 200 - 100 - scores, that of
    the Gaussians 200 - 100 (for each) - 66 - 2 c, the decoder 400 - X. "conv" has convolutions in trunk and decoder.

    Raises:
        ArgumentError: an unknown architecture.
    """
    if architecture == "mlp":
        features = max(hidden // 2, 1)
        trunk = nn.Sequential(nn.Flatten(), *mlp([prod(shape), hidden, features], leaky))
        decoder = nn.Sequential(*mlp([join.width, hidden, prod(shape)]), nn.Unflatten(-1, shape))
    elif architecture == "conv":
        features = hidden
        trunk, decoder = conv_trunk(shape, hidden), conv_pixels(join.width, shape, hidden)
    else:
        raise ArgumentError(f"architecture must be 'mlp' or 'conv', got {architecture!r}")
    # The paper's widths, but no layer narrower than what comes out of it.
    out = 2 * join.c
    gaussians = GaussianHead(features, join.rows, join.c, hidden=max(100, out), shared=max(66, out))
    return trunk, ScoreHead(features, join.space), gaussians, decoder
