"""Convolutional encoders and decoders for larger images.

The encoder halves the image until no side is longer than eight pixels; the decoder reverses these steps.
"""

from collections import OrderedDict
from math import ceil, prod
from typing import final

from torch import Tensor, nn

from hardmax.nn.mlp import convert_to_scores, count_decoder_inputs, make_decoder_input
from hardmax.spaces import AbstractSpace

LONGEST_SIDE = 8
"""Longest side of the smallest feature map."""


def halve_sizes(shape: tuple[int, ...], longest: int = LONGEST_SIDE) -> list[tuple[int, int]]:
    """Return the sizes of the feature maps, from the image down to the first without a side longer than `longest`.

    Example:
        >>> halve_sizes((1, 28, 28))
        [(28, 28), (14, 14), (7, 7)]
    """
    sizes = [(shape[-2], shape[-1])]
    while max(sizes[-1]) > longest:
        sizes.append((ceil(sizes[-1][0] / 2), ceil(sizes[-1][1] / 2)))
    return sizes


def count_deepest_channels(shape: tuple[int, ...], sizes: list[tuple[int, int]], width: int) -> int:
    """Return the number of channels at the last size: `width` at the second size, doubled at each further one."""
    return width * 2 ** (len(sizes) - 2) if len(sizes) > 1 else shape[0]


def make_downsampling(shape: tuple[int, ...], sizes: list[tuple[int, int]], width: int) -> list[nn.Module]:
    """Return strided 3x3 convolutions from one size to the next, each with a ReLU."""
    layers, channels = [], shape[0]
    for level in range(len(sizes) - 1):
        layers += [nn.Conv2d(channels, width * 2**level, 3, stride=2, padding=1), nn.ReLU()]
        channels = width * 2**level
    return layers


def make_upsampling(shape: tuple[int, ...], sizes: list[tuple[int, int]], width: int, grids: int = 1) -> nn.Sequential:
    """Return transposed convolutions from the last size back to the first, each with a ReLU before it.

    The input of each is `grids` concatenated feature maps. With 2, these are the output of the step before and the
    feature map of the same size from `make_downsampling`.
    """
    sizes = sizes[::-1]
    channels = [width * 2**level for level in reversed(range(len(sizes) - 1))]
    after = [*channels[1:], shape[0]] if channels else []
    before = [grids * count for count in channels]
    return nn.Sequential(*(_Upsample(*step) for step in zip(before, after, sizes[1:], strict=True)))


def build_conv_trunk(shape: tuple[int, ...], hidden: int, width: int = 32) -> nn.Sequential:
    """Return strided 3x3 convolutions that halve the image and double the channels, then one linear layer.

    Args:
        shape: shape of one image, (channels, H, W).
        hidden: number of output features, after a ReLU: `[B, *shape] -> [B, hidden]`.
        width: channels after the first convolution.

    Example:
        >>> import torch
        >>> build_conv_trunk((3, 50, 64), 40)(torch.zeros(2, 3, 50, 64)).shape
        torch.Size([2, 40])
    """
    sizes = halve_sizes(shape)
    features = count_deepest_channels(shape, sizes, width) * prod(sizes[-1])
    return nn.Sequential(*make_downsampling(shape, sizes, width), nn.Flatten(), nn.Linear(features, hidden), nn.ReLU())


def build_conv_decoder(inputs: int, shape: tuple[int, ...], hidden: int, width: int = 32) -> nn.Sequential:
    """Return layers from a vector to an image, the mirror image of `build_conv_trunk`.

    Two linear layers, then transposed convolutions.

    Args:
        inputs: size of the input vectors, `[R, inputs] -> [R, *shape]`.
        shape: shape of one image, (channels, H, W).
        hidden: width of the first layer.
        width: channels before the last convolution.

    Example:
        >>> import torch
        >>> build_conv_decoder(20, (3, 50, 64), 40)(torch.zeros(2, 20)).shape
        torch.Size([2, 3, 50, 64])
    """
    sizes = halve_sizes(shape)
    first = count_deepest_channels(shape, sizes, width)
    return nn.Sequential(
        OrderedDict(
            first=make_grid_layers(inputs, hidden, first, sizes[-1]), steps=make_upsampling(shape, sizes, width)
        )
    )


def make_grid_layers(inputs: int, hidden: int, channels: int, size: tuple[int, int]) -> nn.Sequential:
    """Return two linear layers from a vector to a grid: `[R, inputs] -> [R, channels, *size]`."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, channels * prod(size)),
        nn.Unflatten(1, (channels, *size)),
    )


@final
class _Upsample(nn.ConvTranspose2d):
    """A ReLU and a transposed convolution, whose output is cropped to the size before halving."""

    def __init__(self, inputs: int, outputs: int, size: tuple[int, int]) -> None:
        super().__init__(inputs, outputs, 4, stride=2, padding=1)
        self._size = size

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the grid at its size before halving: `[R, inputs, h, w] -> [R, outputs, *size]`."""
        height, width = self._size
        return super().forward(x.relu())[..., :height, :width]


@final
class ConvEncoder(nn.Module):
    """A convolutional encoder: `build_conv_trunk`, then one linear layer to scores.

    Args:
        shape: shape of one image, (channels, H, W).
        space: the space of z.
        hidden: width of the layer before the scores.
        width: channels after the first convolution.

    Example:
        >>> import torch, hardmax as hm
        >>> ConvEncoder((3, 50, 64), hm.Categorical(8, 4))(torch.zeros(2, 3, 50, 64)).shape
        torch.Size([2, 4, 8])
    """

    def __init__(self, shape: tuple[int, ...], space: AbstractSpace, hidden: int = 300, width: int = 32) -> None:
        super().__init__()
        self.space = space
        self.layers = build_conv_trunk(shape, hidden, width).append(nn.Linear(hidden, prod(space.score_shape)))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores: `[B, *shape] -> [B, *score]`."""
        return convert_to_scores(self.layers(x), self.space)


@final
class ConvDecoder(nn.Module):
    """A convolutional decoder, the mirror image of `ConvEncoder`: `build_conv_decoder`, applied to z.

    Args:
        shape: shape of one image, (channels, H, W).
        space: the space of z.
        hidden: width of the first layer.
        width: channels before the last convolution.

    Example:
        >>> import torch, hardmax as hm
        >>> ConvDecoder((3, 50, 64), hm.Binary(20))(torch.zeros(2, 20)).shape
        torch.Size([2, 3, 50, 64])
    """

    def __init__(self, shape: tuple[int, ...], space: AbstractSpace, hidden: int = 300, width: int = 32) -> None:
        super().__init__()
        self.space = space
        self.first, self.steps = build_conv_decoder(count_decoder_inputs(space), shape, hidden, width)

    def forward(self, z: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, *event] -> [R, *shape]`."""
        return self.steps(self.first(make_decoder_input(z, self.space)))
