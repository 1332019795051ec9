"""Grey pictures as RGB, and RGB pictures as grey."""

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.errors import ArgumentError

_GREY = (19595, 38470, 7471)  # of 65,536: how bright red, green and blue are, as Pillow has it


def to_channels(images: UInt8[Tensor, "N channels H W"], channels: int) -> UInt8[Tensor, "N out H W"]:
    """Return pictures with one or three channels.

    Args:
        images: with one or three.
        channels: how many are wanted.

    Raises:
        ArgumentError: another number is wanted or there.

    Example:
        >>> to_channels(torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1), 1).item()
        76
    """
    found = images.shape[1]
    if found == channels:
        return images
    if (found, channels) == (1, 3):
        return images.expand(-1, 3, -1, -1)
    if (found, channels) == (3, 1):
        weights = torch.tensor(_GREY, device=images.device)
        # In parts: numbers of eight bytes in place of one.
        sums = [(some * weights[:, None, None]).sum(1, keepdim=True) for some in images.split(1000)]
        return torch.cat([((some + 32768) >> 16).to(torch.uint8) for some in sums])
    raise ArgumentError(f"pictures have one channel or three, got {found} where {channels} are wanted")
