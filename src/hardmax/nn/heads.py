"""Heads on the features of a trunk: scores of a discrete latent, Gaussians of a continuous one."""

import math
from functools import partial
from math import prod
from typing import final

import torch
from torch import Tensor, nn

from hardmax.nn.mlp import encoder_output, mlp
from hardmax.spaces import AbstractSpace

# Deviation: the paper has ReLU. With it, a unit that is off for every image never recovers.
leaky = partial(nn.LeakyReLU, 0.2)


@final
class ScoreHead(nn.Module):
    """`h -> FC(hidden) -> LeakyReLU -> FC(scores)`.

    Args:
        inputs: number of features.
        space: the space of z.
        hidden: width of the hidden layer.

    Example:
        >>> import torch, hardmax as hm
        >>> ScoreHead(200, hm.Categorical(10))(torch.zeros(8, 200)).shape
        torch.Size([8, 10])
    """

    def __init__(self, inputs: int, space: AbstractSpace, hidden: int = 100) -> None:
        super().__init__()
        self.space = space
        self.layers = mlp([inputs, hidden, prod(space.score_shape)], leaky)

    def forward(self, h: Tensor) -> Tensor:
        """Return scores: `[B, inputs] -> [B, *score]`."""
        return encoder_output(self.layers(h), self.space)


@final
class GaussianHead(nn.Module):
    """`h -> rows x FC(hidden) -> LeakyReLU -> FC(shared) -> LeakyReLU -> FC(2 c)`: several Gaussians at once.

    The first layer computes a separate vector for every Gaussian; the last two layers are shared by all of them.

    Args:
        inputs: number of features.
        rows: number of Gaussians.
        c: dimensions of each.
        hidden: width of the first layer.
        shared: width of the shared hidden layer.

    Example:
        >>> import torch
        >>> mean, log_variance = GaussianHead(200, rows=10, c=20)(torch.zeros(8, 200))
        >>> mean.shape, log_variance.shape
        (torch.Size([8, 10, 20]), torch.Size([8, 10, 20]))

    References:
        Lorberbom et al., 2019, section 5.3.
    """

    def __init__(self, inputs: int, rows: int, c: int, hidden: int = 100, shared: int = 66) -> None:
        super().__init__()
        self.own = nn.Sequential(nn.Linear(inputs, rows * hidden), nn.Unflatten(-1, (rows, hidden)), leaky())
        # Deviation: the paper has no activation between these two, which makes them one.
        self.shared = mlp([hidden, shared, 2 * c], leaky)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance: `[B, inputs] -> [B, rows, c]` twice."""
        mean, log_variance = self.shared(self.own(h)).chunk(2, -1)
        return mean, log_variance


@final
class ComponentHead(nn.Module):
    """`GaussianHead` with a learned offset of every mean: components of a mixture that start apart.

    Components that start at the same point share every example and stay together: the first step apart never pays.

    Args:
        inputs: number of features.
        components: k, the number of components.
        c: dimensions of each.
        hidden: as for `GaussianHead`.
        apart: approximate initial distance of the offsets from zero, independent of c.

    Example:
        >>> import torch
        >>> mean, log_variance = ComponentHead(200, components=8, c=20)(torch.zeros(5, 200))
        >>> mean.shape, bool(mean[0, 0].dist(mean[0, 1]) > 1)
        (torch.Size([5, 8, 20]), True)
    """

    def __init__(self, inputs: int, components: int, c: int, hidden: int = 100, apart: float = 2.0) -> None:
        super().__init__()
        self.gaussians = GaussianHead(inputs, components, c, hidden, hidden)
        self.offset = nn.Parameter(apart / math.sqrt(c) * torch.randn(components, c))

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log-variances: `[B, inputs] -> [B, components, c]` twice."""
        mean, log_variance = self.gaussians(h)
        return mean + self.offset, log_variance
