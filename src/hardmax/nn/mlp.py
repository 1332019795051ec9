"""The paper's networks: pixels - hidden - scores, and z - hidden - pixels."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import final

from torch import Tensor, nn

from hardmax.nn.inputs import decoder_input, decoder_width
from hardmax.nn.outputs import encoder_output
from hardmax.spaces import AbstractSpace


def mlp(widths: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers of these widths with an activation between them, and none after the last.

    Example:
        >>> [layer.out_features for layer in mlp([784, 400, 200]) if isinstance(layer, nn.Linear)]
        [400, 200]
    """
    layers = [module for pair in pairwise(widths) for module in (nn.Linear(*pair), activation())]
    return nn.Sequential(*layers[:-1])


@final
class MLPEncoder(nn.Module):
    """`X -> FC(hidden) -> ReLU -> FC(scores)`, with more hidden layers on request.

    Args:
        shape: of one picture, (channels, H, W).
        space: what z may be.
        hidden: width of the hidden layers.
        layers: how many there are.

    Example:
        >>> import torch, hardmax as hm
        >>> MLPEncoder((1, 28, 28), hm.Binary(15))(torch.zeros(8, 1, 28, 28)).shape
        torch.Size([8, 15])
    """

    def __init__(self, shape: tuple[int, ...], space: AbstractSpace, hidden: int = 300, *, layers: int = 1) -> None:
        super().__init__()
        self.space = space
        self.layers = mlp([prod(shape), *[hidden] * layers, prod(space.score_shape)])

    def forward(self, x: Tensor) -> Tensor:
        """Return scores: `[B, *pixels] -> [B, *score]`."""
        return encoder_output(self.layers(x.flatten(1)), self.space)


@final
class MLPDecoder(nn.Module):
    """`z -> FC(hidden) -> ReLU -> FC(pixels)`, with more hidden layers on request; bits go in as `[1 - z, z]`.

    Args:
        shape: of one picture, (channels, H, W).
        space: what z may be.
        hidden: width of the hidden layers.
        layers: how many there are.

    Example:
        >>> import torch, hardmax as hm
        >>> MLPDecoder((1, 28, 28), hm.Binary(15))(torch.zeros(8, 15)).shape
        torch.Size([8, 1, 28, 28])
    """

    def __init__(self, shape: tuple[int, ...], space: AbstractSpace, hidden: int = 300, *, layers: int = 1) -> None:
        super().__init__()
        self.space, self.shape = space, shape
        self.layers = mlp([decoder_width(space), *[hidden] * layers, prod(shape)])

    def forward(self, z: Tensor) -> Tensor:
        """Return the parameters of the pixels: `[R, *event] -> [R, *shape]`."""
        return self.layers(decoder_input(z, self.space)).view(len(z), *self.shape)

    def two_layers(self) -> tuple[nn.Linear, nn.Linear] | None:
        """Return the linear layers if there are two and bits go in as `[1 - z, z]`, to flip single bits; else None."""
        first, *_, last = self.layers
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        if len(self.layers) > 3:
            return None
        bits = first.in_features == 2 * prod(self.space.event_shape)
        return (first, last) if bits else None
