"""Convolutional networks for larger pictures: halved until no side is longer than eight, and doubled again."""

from math import ceil, prod
from typing import final

from torch import Tensor, nn

from hardmax.nn.inputs import decoder_input, decoder_width
from hardmax.nn.outputs import encoder_output
from hardmax.spaces import AbstractSpace

_SMALLEST = 8


def _sizes(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the sizes from the picture down to the smallest."""
    sizes = [(shape[-2], shape[-1])]
    while max(sizes[-1]) > _SMALLEST:
        sizes.append((ceil(sizes[-1][0] / 2), ceil(sizes[-1][1] / 2)))
    return sizes


@final
class ConvEncoder(nn.Module):
    """Strided 3x3 convolutions that halve the picture and double the channels, then one linear layer to scores.

    Args:
        shape: of one picture, (channels, H, W).
        space: what z may be.
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
        sizes = _sizes(shape)
        layers, channels = [], shape[0]
        for level in range(len(sizes) - 1):
            layers += [nn.Conv2d(channels, width * 2**level, 3, stride=2, padding=1), nn.ReLU()]
            channels = width * 2**level
        self.layers = nn.Sequential(
            *layers,
            nn.Flatten(),
            nn.Linear(channels * prod(sizes[-1]), hidden),
            nn.ReLU(),
            nn.Linear(hidden, prod(space.score_shape)),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return scores: `[B, *shape] -> [B, *score]`."""
        return encoder_output(self.layers(x), self.space)


@final
class ConvDecoder(nn.Module):
    """The mirror image of `ConvEncoder`: transposed convolutions, each result cut to the size it came from.

    Args:
        shape: of one picture, (channels, H, W).
        space: what z may be.
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
        self.sizes = _sizes(shape)[::-1]
        channels = [width * 2**level for level in reversed(range(len(self.sizes) - 1))]
        first = channels[0] if channels else shape[0]
        self.first = nn.Sequential(
            nn.Linear(decoder_width(space), hidden),
            nn.ReLU(),
            nn.Linear(hidden, first * prod(self.sizes[0])),
            nn.Unflatten(1, (first, *self.sizes[0])),
        )
        after = [*channels[1:], shape[0]] if channels else []
        self.steps = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 4, stride=2, padding=1) for a, b in zip(channels, after, strict=True)
        )

    def forward(self, z: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, *event] -> [R, *shape]`."""
        x = self.first(decoder_input(z, self.space))
        for step, (height, width) in zip(self.steps, self.sizes[1:], strict=True):
            x = step(x.relu())[..., :height, :width]
        return x
