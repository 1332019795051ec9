"""Flips of single bits through a decoder of two layers, at a fraction of what as many decoder passes cost."""

from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import softplus

_ROWS = 128  # at a time, so that their logits stay in the cache


class BernoulliFlips:
    """What flipping single bits of z gains in `log p(x | z)`, with logits `last(relu(first([1 - z, z])))`.

    A flip changes one row of the first layer (`hidden + (1 - 2 z_i) step_i`), so that layer costs no product. With c
    the activations and `log p = <c, x W> + <x, b> - sum softplus(c W' + b)`, the first term is a product in the
    hidden dimension. Since log p is concave in the logits, its tangent bounds every flip from above,

        gain_i <= <c_i - c, (x - sigmoid(logits)) W>

    which takes no row of the second layer at all: most flips need not be evaluated to know that they do not matter.

    Args:
        first: the decoder's first layer, `[1 - z, z]` to hidden.
        last: its second layer, hidden to logits.
        x: `[prod(B), D]`, the examples.
        z: `[S, *B, N]`, zeros and ones.
    """

    @torch.no_grad()
    def __init__(self, first: nn.Linear, last: nn.Linear, x: Float[Tensor, "R D"], z: Float[Tensor, "S *B N"]) -> None:
        n = z.shape[-1]
        self._shape = z.shape
        z, x = z.reshape(-1, n), x.repeat(len(z), 1)
        self._last, self._x = last, x
        self._step = (first.weight[:, n:] - first.weight[:, :n]).mT  # [N, H]: a zero turned into a one
        self._sign = 1 - 2 * z
        off = first.weight[:, :n].sum(1) if first.bias is None else first.weight[:, :n].sum(1) + first.bias
        self._hidden = torch.addmm(off, z, self._step)
        self._active = self._hidden.relu()
        self._logits = last(self._active)

    @property
    @torch.no_grad()
    def bounds(self) -> Float[Tensor, "S *B N"]:
        """Upper bounds of the gains."""
        slope = (self._x - self._logits.sigmoid()) @ self._last.weight
        flipped = torch.addcmul(self._hidden[:, None], self._sign[:, :, None], self._step).relu_()
        tangent = torch.linalg.vecdot(flipped, slope[:, None]) - torch.linalg.vecdot(self._active, slope)[:, None]
        return tangent.view(self._shape)

    @torch.no_grad()
    def gains(self, wanted: Bool[Tensor, "S *B N"]) -> Float[Tensor, " K"]:
        """Return `log p(x | z with bit i flipped) - log p(x | z)` where wanted, flat."""
        row, bit = wanted.reshape(-1, self._shape[-1]).nonzero(as_tuple=True)
        active = torch.addcmul(
            self._hidden.index_select(0, row), self._sign[row, bit, None], self._step.index_select(0, bit)
        ).relu_()
        worth, here = self._worth
        normaliser = torch.cat([softplus(self._last(rows)).sum(-1) for rows in active.split(_ROWS)])
        return torch.linalg.vecdot(active, worth.index_select(0, row)) - normaliser - here[row]

    @cached_property
    def _worth(self) -> tuple[Tensor, Tensor]:
        """What each hidden unit is worth to each example, `x W`; and log p(x | z) but for what flips do not change."""
        worth = self._x @ self._last.weight
        return worth, torch.linalg.vecdot(self._active, worth) - softplus(self._logits).sum(-1)
