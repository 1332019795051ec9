"""What an encoder's last layer becomes: scores that keep the promises of a space."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hardmax.spaces import AbstractSpace, PairwiseBinary

# softplus(-3) = 0.05: at the start all 14 neighbours of one of 15 bits together pull it as much as its own score may.
# Plain softplus starts at 0.69, a pull of 9.7: every bit is one for every picture, and no single flip ever pays.
_OFFSET = -3.0


def encoder_output(raw: Tensor, space: AbstractSpace) -> Tensor:
    """Return scores from what a last layer gives: `[B, D] -> [B, *score]`.

    They are the same numbers, but for couplings that must not be negative: those pass through softplus, with an offset
    that the layer's bias may learn to change.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = encoder_output(torch.zeros(8, 120), hm.PairwiseBinary(15, supermodular=True))
        >>> round(scores[0, 0].item(), 3), round(scores[0, -1].item(), 3)
        (0.0, 0.049)
    """
    if isinstance(space, PairwiseBinary) and space.supermodular:
        return torch.cat([raw[:, : space.n], softplus(raw[:, space.n :] + _OFFSET)], -1)
    return raw.view(len(raw), *space.score_shape)
