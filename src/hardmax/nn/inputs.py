"""What a decoder is fed with."""

import torch
from torch import Tensor

from hardmax.spaces import AbstractSpace


def decoder_input(z: Tensor, space: AbstractSpace) -> Tensor:
    """Return z as a vector that sums to the number of variables: `[R, *event] -> [R, D]`.

    One-hot z is only flattened. Bits become `[1 - z, z]` (D = 2n), so that a zero, too, has weights of its own.
    """
    return torch.cat([1 - z, z], -1) if _of_bits(space) else z.flatten(1)


def decoder_width(space: AbstractSpace) -> int:
    """Return D of `decoder_input`."""
    return decoder_input(torch.zeros(1, *space.event_shape), space).shape[-1]


def decoder_variables(space: AbstractSpace) -> Tensor:
    """Return which variable each entry of `decoder_input` belongs to, `[D]`: of each, one entry is 1 at a time."""
    if _of_bits(space):
        return torch.arange(space.event_shape[0]).repeat(2)
    return torch.arange(decoder_width(space)) // space.event_shape[-1]


def _of_bits(space: AbstractSpace) -> bool:
    return space.categories is None and len(space.event_shape) == 1
