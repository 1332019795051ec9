"""The codebook of a dVAE, and the networks between an image and a grid of vectors."""

import math
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember
from hardmax.nn.convolutional import (
    LONGEST_SIDE,
    count_deepest_channels,
    halve_sizes,
    make_downsampling,
    make_upsampling,
)

_JITTER = 1e-2  # noise on the entries of a vector, which are about 1: codes placed on the same point can separate


@final
class Codebook(nn.Module):
    r"""K codes, vectors $c_k$ that are learned, with scores that are highest for the code nearest to a vector.

    The scores of a vector e are $-s \, |e - c_k|^2$, without the term $-s \, |e|^2$, which is the same for all k. The
    arg max of the scores is the nearest code. Scores are linear in e: the codebook is the weight of a last linear layer
    of the encoder. The scale s is learned.

    Args:
        codes: K, the number of codes, at least 2.
        dimensions: d, the number of dimensions of a code.

    Example:
        >>> import torch
        >>> book = Codebook(128, 32)
        >>> scores = book.scores(torch.randn(5, 49, 32))
        >>> scores.shape, book.look_up(scores.softmax(-1)).shape
        (torch.Size([5, 49, 128]), torch.Size([5, 49, 32]))

    References:
        Takida et al., "SQ-VAE: variational Bayes on discrete representation with self-annealed stochastic
        quantization", 2022.
    """

    used: Tensor
    """`[K]`. Number of times that each code was the nearest since the last `revive`; the training task adds to it."""

    def __init__(self, codes: int, dimensions: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(codes, dimensions))
        self.log_scale = nn.Parameter(torch.tensor(-math.log(dimensions)))
        self.register_buffer("used", torch.zeros(codes, dtype=torch.float64))

    def scores(self, e: Float[Tensor, "*B n d"]) -> Float[Tensor, "*B n K"]:
        """Return the scores of each code for each vector."""
        return self.log_scale.exp() * (2 * e @ self.vectors.mT - self.vectors.square().sum(-1))

    def look_up(self, z: Float[Tensor, "*B n K"]) -> Float[Tensor, "*B n d"]:
        """Return the codes that one-hot z selects, or mixtures of codes for relaxed z."""
        return z @ self.vectors

    @torch.no_grad()
    def initialize(self, e: Float[Tensor, "*B d"], generator: torch.Generator | None = None) -> None:
        """Initialise the codes: place them on vectors of the encoder, before the first step.

        Also sets the scale s so that scores differ by about log K: q is neither uniform nor deterministic.
        """
        points = e.flatten(0, -2)
        self._move_codes(torch.ones(len(self.vectors), dtype=torch.bool, device=e.device), points, generator)
        distance = torch.cdist(points[:: max(1, len(points) // 1000)], self.vectors).square().mean()
        self.log_scale.fill_(math.log(2 * math.log(len(self.vectors)) / max(float(distance), 1e-6)))

    place = RenamedMember("initialize")

    @torch.no_grad()
    def revive(
        self, e: Float[Tensor, "*B d"], least: float, generator: torch.Generator | None = None
    ) -> Bool[Tensor, " K"]:
        """Move rarely used codes to vectors that are far from all other codes, and reset the counts.

        Args:
            e: `[*B, d]`, vectors of the encoder to choose from.
            least: a code is moved if its count is below `least` times the mean count.
            generator: random generator of the choice.

        Returns:
            `[K]`, a mask of the moved codes.

        References:
            Choice of the vectors: Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding", 2007.
        """
        dead = self.used < least * self.used.mean()
        self._move_codes(dead, e.flatten(0, -2), generator)
        self.used.zero_()
        return dead

    def _move_codes(self, which: Tensor, points: Tensor, generator: torch.Generator | None) -> None:
        """Place codes one by one on points, sampled in proportion to the squared distance to the nearest code."""
        kept = self.vectors[~which]
        nearest = torch.cdist(points, kept).square().amin(1) if len(kept) else torch.full_like(points[:, 0], torch.inf)
        for code in which.nonzero().flatten().tolist():
            # If there is no code yet, or every point is a code, draw uniformly.
            weights = nearest if 0 < nearest.sum() < torch.inf else torch.ones_like(nearest)
            chosen = points[torch.multinomial(weights, 1, generator=generator)]
            noise = torch.randn(chosen.shape, generator=generator, dtype=chosen.dtype, device=chosen.device)
            self.vectors[code] = (chosen + _JITTER * noise).squeeze(0)
            nearest = torch.minimum(nearest, (points - chosen).square().sum(1))


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
