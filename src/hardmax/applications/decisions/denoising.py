"""Denoising of binary images: networks that predict the scores of a grid of interacting bits, and the pixel error."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import interpolate, softplus

from hardmax.errors import ArgumentError
from hardmax.spaces import AbstractSpace, PairwiseBinary, Perturbation

MOST_PIXELS = 2**16  # of an image: a saved configuration of a few bytes cannot ask for more
CHANNELS = 16  # of the convolutional networks, by default
_NEIGHBOURHOOD = 5  # height and width of what the linear network sees of the image
_OFFSET = -2.0  # couplings start at softplus(-2) = 0.13: the image is not yet smoothed


def build_pixel_grid(parameters: Mapping[str, Any], perturbation: Perturbation | None) -> PairwiseBinary:
    """Return the space of binary images in which neighbours attract each other; its noise is logistic, on the pixels.

    Raises:
        ArgumentError: the image is too large.
    """
    height, width = parameters["grid"]
    if not all(isinstance(size, int) for size in (height, width)) or height * width > MOST_PIXELS:
        raise ArgumentError(f"an image has at most {MOST_PIXELS:,} pixels, got {height} x {width}")
    return PairwiseBinary.grid(height, width, supermodular=True)


@final
class GridScores(nn.Module):
    r"""Scores of a grid of bits, from maps that a network predicts.

    The network maps images x, `[N, 1, H, W]`, to a map u, and with `has_couplings` to two more maps v, for the
    neighbours on the right and below: `[N, 3, H, W]`. The scores are those of

    $$ h(z) = \sum_i (u_i + 2 x_i - 1) z_i + \sum_{(i, j)} c_{ij} \, \mathbb{1}[z_i = z_j], \qquad
       c_{ij} = \operatorname{softplus}(v_{ij} - 2), $$

    up to a constant: couplings prefer neither zeros nor ones (`PairwiseBinary.reward_agreement`).

    The network learns what to change of the noisy image. This matters for losses that are not convex: on MNIST, from
    scores near zero, direct loss minimization towards better images ends at empty images (13.4 % of the pixels are
    wrong); from the noisy image it reaches 6.7 % in the same number of steps. With noise it ends at empty images from
    both, unless epsilon is large or other epochs come first.

    Args:
        network: maps `[N, 1, H, W]` to `[N, 1, H, W]`, or to `[N, 3, H, W]`.
        has_couplings: whether the network predicts couplings; else they are zero, and pixels are independent.
    """

    def __init__(self, network: nn.Module, *, has_couplings: bool) -> None:
        super().__init__()
        self.network = network
        self.has_couplings = has_couplings

    def forward(self, x: Float[Tensor, "N 1 H W"]) -> Float[Tensor, "N scores"]:
        """Return scores `[N, H W + H (W - 1) + (H - 1) W]`."""
        maps = self.network(x)
        unary = maps[:, 0] + 2 * x[:, 0] - 1
        if not self.has_couplings:
            height, width = x.shape[2:]
            edges = height * (width - 1) + (height - 1) * width
            return torch.cat([unary.flatten(1), unary.new_zeros(len(x), edges)], 1)
        right = softplus(maps[:, 1, :, :-1] + _OFFSET)
        below = softplus(maps[:, 2, :-1, :] + _OFFSET)
        return PairwiseBinary.reward_agreement(unary, right, below)


def make_linear_network(outputs: int, channels: int) -> nn.Module:
    """Return a linear function of the 5 x 5 pixels around each pixel; for one output, logistic regression."""
    return nn.Conv2d(1, outputs, _NEIGHBOURHOOD, padding=_NEIGHBOURHOOD // 2)


def make_conv_network(outputs: int, channels: int) -> nn.Module:
    """Return four layers of 3 x 3 convolutions, all at full resolution: a pixel depends on 9 x 9 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, outputs, 3, padding=1),
    )


@final
class UNet(nn.Module):
    """Convolutions at three resolutions, with skip connections: a pixel depends on almost the entire image.

    With half of the channels of `make_conv_network` at full and half resolution and three quarters at a quarter, it has
    about as many weights: 5,529 against 4,945 for 16 channels and one output.

    Args:
        outputs: number of maps that it returns.
        channels: number of channels of the convolutional network that it compares with, at least 4.

    References:
        Ronneberger, Fischer & Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015.
    """

    def __init__(self, outputs: int, channels: int) -> None:
        super().__init__()
        fine, coarse = channels // 2, 3 * channels // 4
        self.first = nn.Conv2d(1, fine, 3, padding=1)
        self.down_half = nn.Conv2d(fine, fine, 3, stride=2, padding=1)
        self.down_quarter = nn.Conv2d(fine, coarse, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(coarse, coarse, 3, padding=1)
        self.up_half = nn.Conv2d(coarse + fine, fine, 3, padding=1)
        self.up_full = nn.Conv2d(fine + fine, fine, 3, padding=1)
        self.last = nn.Conv2d(fine, outputs, 3, padding=1)

    def forward(self, x: Float[Tensor, "N 1 H W"]) -> Float[Tensor, "N outputs H W"]:
        """Return maps of the size of the images."""
        full = self.first(x).relu()
        half = self.down_half(full).relu()
        low = self.middle(self.down_quarter(half).relu()).relu()
        low = self.up_half(torch.cat([_enlarge(low, half), half], 1)).relu()
        return self.last(self.up_full(torch.cat([_enlarge(low, full), full], 1)).relu())


def _enlarge(maps: Tensor, like: Tensor) -> Tensor:
    return interpolate(maps, size=like.shape[2:], mode="nearest")


_MAKERS: dict[str, Callable[[int, int], nn.Module]] = {
    "linear": make_linear_network,
    "conv": make_conv_network,
    "u-net": UNet,
}
_COUPLED = "-couplings"


def _make_builder(name: str) -> Callable[[Sequence[int], Sequence[int], int], nn.Module]:
    has_couplings = name.endswith(_COUPLED)
    make_network = _MAKERS[name.removesuffix(_COUPLED)]

    def build_network(features: Sequence[int], scores: Sequence[int], hidden: int) -> nn.Module:
        if 0 < hidden < 4:
            raise ArgumentError(f"hidden must be at least 4 channels for images, got {hidden}")
        return GridScores(make_network(3 if has_couplings else 1, hidden or CHANNELS), has_couplings=has_couplings)

    return build_network


NETWORKS = {name: _make_builder(name) for base in ("conv", "u-net", "linear") for name in (base + _COUPLED, base)}
"""Functions that build a network, given the shapes of features and scores and the number of channels (0: 16)."""


def measure_pixels(
    z: Float[Tensor, "N ..."], costs: Float[Tensor, "N ..."], best: Float[Tensor, "N ..."], space: AbstractSpace
) -> dict[str, float]:
    """Return the share of wrong pixels as `regret`, and the share of images without one as `optimal`.

    Args:
        z: `[N, H * W]`, cleaned images.
        costs: not used; the other arguments are those of `measure_regret`.
        best: `[N, H * W]`, clean images.
        space: not used.

    Example:
        >>> import torch, hardmax as hm
        >>> clean = torch.zeros(2, 4)
        >>> z = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        >>> measure_pixels(z, clean, clean, hm.Binary(4))
        {'regret': 0.125, 'optimal': 0.5}
    """
    is_wrong = z != best.to(z.dtype)
    return {"regret": float(is_wrong.double().mean()), "optimal": float((~is_wrong.any(-1)).double().mean())}
