"""Output layers of an encoder: scores of a discrete latent variable, Gaussians of a continuous one."""

import math
from math import prod
from typing import final

import torch
from torch import Tensor, nn

from hardmax.nn.linear import Linear
from hardmax.nn.mlp import build_mlp, convert_to_scores
from hardmax.spaces import AbstractSpace


def build_leaky_relu() -> nn.LeakyReLU:
    """Return a leaky ReLU with slope 0.2 for negative inputs."""
    # Deviation: the paper has ReLU. With it, a unit that is off for every image never recovers.
    return nn.LeakyReLU(0.2)


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
        self.layers = build_mlp([inputs, hidden, prod(space.score_shape)], build_leaky_relu)

    def forward(self, h: Tensor) -> Tensor:
        """Return scores: `[B, inputs] -> [B, *score]`."""
        return convert_to_scores(self.layers(h), self.space)


@final
class GaussianHead(nn.Module):
    """`h -> rows x FC(hidden) -> LeakyReLU -> FC(shared) -> LeakyReLU -> FC(2 c)`: several Gaussians at once.

    The first layer computes a separate vector for each Gaussian; all Gaussians share the last two layers.

    Args:
        inputs: number of features.
        rows: number of Gaussians.
        c: number of dimensions of each Gaussian.
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
        self.own = nn.Sequential(Linear(inputs, rows * hidden), nn.Unflatten(-1, (rows, hidden)), build_leaky_relu())
        # Deviation: the paper has no activation between these two, which makes them one.
        self.shared = build_mlp([hidden, shared, 2 * c], build_leaky_relu)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance: `[B, inputs] -> [B, rows, c]` twice."""
        mean, log_variance = self.shared(self.own(h)).chunk(2, -1)
        return mean, log_variance


@final
class ComponentHead(nn.Module):
    """`GaussianHead` with a learned offset of each mean, so that the components of a mixture start far apart.

    Components that start at the same point share every example and never separate: a small first step of one of them
    does not lower the loss.

    Args:
        inputs: number of features.
        components: k, the number of components.
        c: number of dimensions of each component.
        hidden: width of both hidden layers of the `GaussianHead`.
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
