"""Fully connected encoders and decoders, those of the paper; and how every network handles z and scores.

The paper is Lorberbom et al., "Direct optimization through arg max for discrete variational auto-encoder", 2019.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardmax.nn.linear import Linear
from hardmax.spaces import AbstractSpace, PairwiseBinary


def make_decoder_input(z: Tensor, space: AbstractSpace) -> Tensor:
    """Return z as a vector for a decoder, whose entries sum to the number of variables: `[R, *event] -> [R, D]`.

    One-hot z is only flattened. Bits become `[1 - z, z]` (D = 2n), so that a zero has its own weights, too.
    """
    return torch.cat([1 - z, z], -1) if _has_bits(space) else z.flatten(1)


def count_decoder_inputs(space: AbstractSpace) -> int:
    """Return D, the number of entries that `make_decoder_input` returns for each z."""
    return make_decoder_input(torch.zeros(1, *space.event_shape), space).shape[-1]


def index_decoder_variables(space: AbstractSpace) -> Tensor:
    """Return the variable that each entry of `make_decoder_input` belongs to, `[D]`.

    Exactly one entry of each variable is 1.
    """
    if _has_bits(space):
        return torch.arange(space.event_shape[0]).repeat(2)
    return torch.arange(count_decoder_inputs(space)) // space.event_shape[-1]


def _has_bits(space: AbstractSpace) -> bool:
    return space.categories is None and len(space.event_shape) == 1


# softplus(-3) = 0.05. At the start, the 14 neighbours of one of 15 bits together have about the influence of its score.
# Plain softplus starts at 0.69, and the neighbours add up to 9.7: every bit is one for every image, and no flip of a
# single bit is ever an improvement.
_OFFSET = -3.0


def convert_to_scores(raw: Tensor, space: AbstractSpace) -> Tensor:
    """Convert the output of the last layer to scores: `[B, D] -> [B, *score]`.

    The numbers are unchanged, except couplings that must not be negative. These pass through softplus, after an offset
    is added that the layer's bias can learn to change.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = convert_to_scores(torch.zeros(8, 120), hm.PairwiseBinary(15, supermodular=True))
        >>> round(scores[0, 0].item(), 3), round(scores[0, -1].item(), 3)
        (0.0, 0.049)
    """
    if isinstance(space, PairwiseBinary) and space.supermodular:
        return torch.cat([raw[:, : space.n], softplus(raw[:, space.n :] + _OFFSET)], -1)
    return raw.view(len(raw), *space.score_shape)


Activation = Literal["relu", "leaky-relu"]
ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky-relu": lambda: nn.LeakyReLU(0.3),  # the slope of DisARM, ARMS, double control variates and RODEO
}


def build_mlp(widths: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers of these widths, with an activation after each layer except the last.

    Example:
        >>> [layer.out_features for layer in build_mlp([784, 400, 200]) if isinstance(layer, nn.Linear)]
        [400, 200]
    """
    layers = [module for pair in pairwise(widths) for module in (Linear(*pair), activation())]
    return nn.Sequential(*layers[:-1])


def _list_widths(hidden: int | Sequence[int]) -> Sequence[int]:
    return [hidden] if isinstance(hidden, int) else hidden


@final
class MLPEncoder(nn.Module):
    """`X -> FC(hidden) -> ReLU -> FC(scores)`, with optional further hidden layers.

    Args:
        shape: shape of one image, (channels, H, W).
        space: the space of z.
        hidden: width of the hidden layer, or widths of several, from the image to z.
        activation: "relu", or "leaky-relu" with slope 0.3.

    Example:
        >>> import torch, hardmax as hm
        >>> MLPEncoder((1, 28, 28), hm.Binary(15))(torch.zeros(8, 1, 28, 28)).shape
        torch.Size([8, 15])
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        space: AbstractSpace,
        hidden: int | Sequence[int] = 300,
        *,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.space = space
        widths = [prod(shape), *_list_widths(hidden), prod(space.score_shape)]
        self.layers = build_mlp(widths, ACTIVATIONS[activation])

    def forward(self, x: Tensor) -> Tensor:
        """Return scores: `[B, *pixels] -> [B, *score]`."""
        return convert_to_scores(self.layers(x.flatten(1)), self.space)


@final
class MLPDecoder(nn.Module):
    """`z -> FC(hidden) -> ReLU -> FC(pixels)`, with optional further hidden layers; the input for bits is `[1 - z, z]`.

    Args:
        shape: shape of one image, (channels, H, W).
        space: the space of z.
        hidden: width of the hidden layer, or widths of several, from z to the image.
        activation: "relu", or "leaky-relu" with slope 0.3.

    Example:
        >>> import torch, hardmax as hm
        >>> MLPDecoder((1, 28, 28), hm.Binary(15))(torch.zeros(8, 15)).shape
        torch.Size([8, 1, 28, 28])
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        space: AbstractSpace,
        hidden: int | Sequence[int] = 300,
        *,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        self.space, self.shape = space, shape
        widths = [count_decoder_inputs(space), *_list_widths(hidden), prod(shape)]
        self.layers = build_mlp(widths, ACTIVATIONS[activation])

    def forward(self, z: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, *event] -> [R, *shape]`."""
        return self.layers(make_decoder_input(z, self.space)).view(len(z), *self.shape)

    @property
    def takes_both(self) -> bool:
        """Whether the input of the first layer is `[1 - z, z]`, as for bits, instead of z."""
        return _has_bits(self.space)
