"""The codebook of a dVAE, and the networks between an image and a grid of vectors."""

import math
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hardmax.nn.convolutional import LONGEST, count_deepest_channels, halve_sizes, make_downsampling, make_upsampling

_JITTER = 1e-2  # of a vector's entries, which are about 1: codes that are placed on the same point can separate


@final
class Codebook(nn.Module):
    r"""K vectors $c_k$; the scores of a vector e are $-s \, |e - c_k|^2$, without $-s \, |e|^2$, the same for all k.

    The arg max of the scores is the nearest code. They are linear in e, so this is a last layer of an encoder, with
    the codebook as its weights. The scale s is learned.

    Args:
        codes: K, at least 2.
        dimensions: of a vector.

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
    """`[K]`. How often each code was the nearest since the last `revive`; the training loop adds to it."""

    def __init__(self, codes: int, dimensions: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(codes, dimensions))
        self.log_scale = nn.Parameter(torch.tensor(-math.log(dimensions)))
        self.register_buffer("used", torch.zeros(codes, dtype=torch.float64))

    def scores(self, e: Float[Tensor, "*B n d"]) -> Float[Tensor, "*B n K"]:
        """Return the scores of each code for each vector."""
        return self.log_scale.exp() * (2 * e @ self.vectors.mT - self.vectors.square().sum(-1))

    def look_up(self, z: Float[Tensor, "*B n K"]) -> Float[Tensor, "*B n d"]:
        """Return the codes that one-hot z select, or mixtures of codes for relaxed z."""
        return z @ self.vectors

    @torch.no_grad()
    def place(self, e: Float[Tensor, "*B d"], generator: torch.Generator | None = None) -> None:
        """Initialise the codes on vectors of the encoder, before the first step.

        Sets the scale so that scores differ by about log K: neither uniform nor deterministic.
        """
        points = e.flatten(0, -2)
        self._move(torch.ones(len(self.vectors), dtype=torch.bool, device=e.device), points, generator)
        distance = torch.cdist(points[:: max(1, len(points) // 1000)], self.vectors).square().mean()
        self.log_scale.fill_(math.log(2 * math.log(len(self.vectors)) / max(float(distance), 1e-6)))

    @torch.no_grad()
    def revive(
        self, e: Float[Tensor, "*B d"], least: float, generator: torch.Generator | None = None
    ) -> Bool[Tensor, " K"]:
        """Move rarely used codes to vectors that are far from all others, and reset the counts.

        Args:
            e: vectors to choose from.
            least: codes that were used less than `least` times the mean are moved.
            generator: of the choice.

        Returns:
            A mask of the moved codes.

        References:
            The choice: Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding", 2007.
        """
        dead = self.used < least * self.used.mean()
        self._move(dead, e.flatten(0, -2), generator)
        self.used.zero_()
        return dead

    def _move(self, which: Tensor, points: Tensor, generator: torch.Generator | None) -> None:
        """Place codes one by one on points, drawn proportionally to the squared distance to the nearest code."""
        kept = self.vectors[~which]
        near = torch.cdist(points, kept).square().amin(1) if len(kept) else torch.full_like(points[:, 0], torch.inf)
        for code in which.nonzero().flatten().tolist():
            # If there is no code yet, or every point is a code, draw uniformly.
            chance = near if 0 < near.sum() < torch.inf else torch.ones_like(near)
            chosen = points[torch.multinomial(chance, 1, generator=generator)]
            noise = torch.randn(chosen.shape, generator=generator, dtype=chosen.dtype, device=chosen.device)
            self.vectors[code] = (chosen + _JITTER * noise).squeeze(0)
            near = torch.minimum(near, (points - chosen).square().sum(1))


_BLOCKS = 1


@final
class GridEncoder(nn.Module):
    """Downsample an image until no side exceeds `longest`, and return one vector per grid position.

    Args:
        shape: of one image, (channels, H, W).
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
        sizes = halve_sizes(shape, longest)
        channels = count_deepest_channels(shape, sizes, width)
        self.grid = sizes[-1]
        self.layers = nn.Sequential(
            *make_downsampling(shape, sizes, width),
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
        shape: of one image, (channels, H, W).
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
        sizes = halve_sizes(shape, longest)
        channels = count_deepest_channels(shape, sizes, width)
        self.grid = sizes[-1]
        self.layers = nn.Sequential(
            nn.Conv2d(dimensions, channels, 3, padding=1),
            *(_Residual(channels) for _ in range(_BLOCKS)),
            *make_upsampling(shape, sizes, width),
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, n, dimensions] -> [R, *shape]`."""
        return self.layers(vectors.mT.unflatten(2, self.grid))


@final
class _Residual(nn.Module):
    """Residual block: `x + convolution(x)`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, channels, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)
