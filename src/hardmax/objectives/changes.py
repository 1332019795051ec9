"""Gains in log p(x | z) from single changes of z, for decoders that z enters by a linear layer."""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from hardmax.nn.first_layer import FirstLayer

_NUMBERS = 2**18  # numbers in a block of rows: a megabyte, so that they stay in the cache


class DecoderChanges:
    r"""Gains $\log p(x \mid z') - \log p(x \mid z)$ of the z' that differ from z in one variable.

    A change of one variable adds one vector to the output of the decoder's first layer, so that layer needs no matrix
    product, and z' itself is never made. Changes are evaluated in blocks that fit the cache.

    Args:
        first: the decoder's first layer, and the rest.
        log_prob: log p of matching rows, decoder output `[*L, D]` and x `[*L, D]` (broadcast) to `[*L]`.
        x: `[prod(B), D]`, the examples.
        z: `[S, *B, N]` bits, or `[S, *B, N, K]` one-hot.
        batch_dims: number of dimensions of `*B`.
    """

    @torch.no_grad()
    def __init__(
        self,
        first: FirstLayer,
        log_prob: Callable[[Tensor, Tensor], Tensor],
        x: Float[Tensor, "R D"],
        z: Float[Tensor, "S ..."],
        batch_dims: int,
    ) -> None:
        lead, event = z.shape[: 1 + batch_dims], z.shape[1 + batch_dims :]
        self._first, self._log_prob = first, log_prob
        self._x = x.repeat(lead[0], 1) if lead[0] > 1 else x
        self._vectors = first.vectors().contiguous()
        flat = z.reshape(math.prod(lead), first.entries)
        self._hidden = first.output(flat)
        if len(event) == 1:
            self._kind: _Bits | _Categories = _Bits(flat)
        else:
            self._kind = _Categories(flat.view(-1, *event).argmax(-1), event[-1])
        self._shape = (*lead, self._kind.variables * self._kind.shifts)

    @property
    def bounds(self) -> Float[Tensor, "S *B M"] | None:
        """Upper bounds of the gains, or None if none are known."""
        return None

    @torch.no_grad()
    def gains(self, wanted: Bool[Tensor, "S *B M"]) -> Float[Tensor, " R"]:
        """Return the gains of the changes where `wanted` is True, as a flat tensor."""
        if wanted.all():
            return self._evaluate_all(self._evaluate_block).flatten()
        row, change = wanted.reshape(-1, self._shape[-1]).nonzero(as_tuple=True)
        blocks = [self._evaluate(*block) for block in zip(row.split(self._rows), change.split(self._rows), strict=True)]
        return torch.cat(blocks) - self._at_z.index_select(0, row)

    @property
    def _rows(self) -> int:
        """The number of rows in a block."""
        return max(_NUMBERS // max(self._x.shape[-1], self._hidden.shape[-1]), 1)

    def _evaluate_all(self, evaluate: Callable[[slice, slice, slice, Tensor], Tensor]) -> Float[Tensor, "R N _"]:
        """Evaluate all changes, as many at a time as fit the cache: several rows, or several variables, or shifts."""
        rows, variables, shifts = self._hidden.shape[0], self._kind.variables, self._kind.shifts
        values = self._hidden.new_empty(rows, variables, shifts)
        step_shift = min(self._rows, shifts)
        step_variable = min(max(self._rows // shifts, 1), variables)
        step_row = max(self._rows // (shifts * variables), 1)
        for row in _slice(rows, step_row):
            for variable in _slice(variables, step_variable):
                for shift in _slice(shifts, step_shift):
                    hidden = self._kind.change_hidden(self._hidden[row], self._vectors, row, variable, shift)
                    values[row, variable, shift] = evaluate(row, variable, shift, hidden)
        return values

    def _evaluate_block(
        self, row: slice, variable: slice, shift: slice, hidden: Float[Tensor, "R N _ H"]
    ) -> Float[Tensor, "R N _"]:
        """Return the gains of a block of changes, given the output of the first layer."""
        parameters = self._first.finish(hidden.flatten(0, 2)).reshape(*hidden.shape[:3], self._x.shape[-1])
        return self._log_prob(parameters, self._x[row, None, None]) - self._at_z[row, None, None]

    @cached_property
    def _at_z(self) -> Float[Tensor, " R"]:
        """What `_evaluate` would return for z itself."""
        return self._log_prob(self._first.finish(self._hidden).reshape(self._x.shape), self._x)

    def _evaluate(self, row: Int[Tensor, " R"], change: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """Return log p of these changes of these rows, up to a constant for each row."""
        x = self._x.index_select(0, row)
        return self._log_prob(self._first.finish(self._change_rows(row, change)).reshape(x.shape), x)

    def _change_rows(self, row: Int[Tensor, " R"], change: Int[Tensor, " R"]) -> Float[Tensor, "R H"]:
        """Return the output of the first layer after a change."""
        return self._kind.change_rows(self._hidden.index_select(0, row), self._vectors, row, change)


@final
class BernoulliChanges(DecoderChanges):
    r"""The same for Bernoulli pixels and logits that are linear in an activation c: z itself, or the output of a ReLU.

    $$ \log p = \langle c, x W \rangle + \langle x, b \rangle - \sum_j \operatorname{softplus}(c W^T + b)_j, $$

    whose first term is a product in the dimensions of c. Since $\log p$ is concave in the logits, its tangent is an
    upper bound for every change,

    $$ \mathrm{gain} \le \langle c' - c, (x - \operatorname{sigmoid}(\mathrm{logits})) W \rangle, $$

    which does not need the logits after the change: most changes can be ruled out without an evaluation.
    """

    @property
    @torch.no_grad()
    def bounds(self) -> Float[Tensor, "S *B M"]:
        """Upper bounds of the gains."""
        slope = self._x - self._logits.sigmoid()
        if self._last is None:
            return self._kind.differences(slope @ self._vectors.mT).view(self._shape)
        slope = slope @ self._last.weight
        at_z = torch.linalg.vecdot(self._hidden.relu(), slope)

        def evaluate(row: slice, variable: slice, shift: slice, hidden: Tensor) -> Tensor:
            return torch.linalg.vecdot(hidden.relu_(), slope[row, None, None]) - at_z[row, None, None]

        return self._evaluate_all(evaluate).view(self._shape)

    def _evaluate_block(
        self, row: slice, variable: slice, shift: slice, hidden: Float[Tensor, "R N _ H"]
    ) -> Float[Tensor, "R N _"]:
        if self._last is None:
            products = self._linear_gains.view(-1, self._kind.variables, self._kind.shifts)[row, variable, shift]
            return products - softplus(hidden).sum(-1) - self._at_z[row, None, None]
        active = hidden.relu_()
        products = torch.linalg.vecdot(active, self._x_weight[row, None, None])
        return products - softplus(self._last(active)).sum(-1) - self._at_z[row, None, None]

    def _evaluate(self, row: Int[Tensor, " R"], change: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        hidden = self._change_rows(row, change)
        if self._last is None:
            return self._linear_gains[row, change] - softplus(hidden).sum(-1)
        active = hidden.relu_()
        products = torch.linalg.vecdot(active, self._x_weight.index_select(0, row))
        return products - softplus(self._last(active)).sum(-1)

    @cached_property
    def _at_z(self) -> Float[Tensor, " R"]:
        normalizer = softplus(self._logits).sum(-1)
        if self._last is None:
            return -normalizer
        return torch.linalg.vecdot(self._hidden.relu(), self._x_weight) - normalizer

    @property
    def _last(self) -> nn.Linear | None:
        return self._first.last_linear

    @cached_property
    def _logits(self) -> Float[Tensor, "R D"]:
        return self._first.finish(self._hidden)

    @cached_property
    def _x_weight(self) -> Float[Tensor, "R H"]:
        """The weight of each hidden unit in each example, `x W`."""
        assert self._last is not None
        return self._x @ self._last.weight

    @cached_property
    def _linear_gains(self) -> Float[Tensor, "R M"]:
        """What each change adds to `<logits, x>` where the logits are linear in z."""
        return self._kind.differences(self._x @ self._vectors.mT)


def _slice(size: int, step: int) -> Iterator[slice]:
    """Yield slices of at most `step` that cover a dimension."""
    return (slice(start, start + step) for start in range(0, size, step))


@final
class _Bits:
    """Changes of bits: each of N variables has one, its flip."""

    shifts = 1

    def __init__(self, z: Float[Tensor, "R N"]) -> None:
        self._sign = 1 - 2 * z
        self.variables = z.shape[-1]

    def change_rows(self, hidden: Tensor, vectors: Tensor, row: Tensor, change: Tensor) -> Tensor:
        """Add the flip of bit `change` of row `row` to hidden `[R, H]`, in place."""
        return hidden.addcmul_(self._sign[row, change, None], vectors.index_select(0, change))

    def change_hidden(self, hidden: Tensor, vectors: Tensor, row: slice, variable: slice, shift: slice) -> Tensor:
        """Return hidden `[R, H]` after each flip of a block, `[R, N, 1, H]`."""
        return torch.addcmul(hidden[:, None], self._sign[row, variable, None], vectors[variable])[:, :, None]

    def differences(self, values: Float[Tensor, "R E"]) -> Float[Tensor, "R M"]:
        """Return what each change adds to `<values, z>`."""
        return self._sign * values


@final
class _Categories:
    """Changes of categories: each of N variables moves by 1 to K - 1 values, cyclically (`Categorical.change`)."""

    def __init__(self, category: Int[Tensor, "R N"], k: int) -> None:
        self._category, self._k = category, k
        self.variables, self.shifts = category.shape[-1], k - 1

    def change_rows(self, hidden: Tensor, vectors: Tensor, row: Tensor, change: Tensor) -> Tensor:
        """Add change `change` of row `row` to hidden `[R, H]`, in place."""
        variable = change // (self._k - 1)
        old = self._category[row, variable]
        new = (old + change % (self._k - 1) + 1) % self._k
        hidden += vectors.index_select(0, variable * self._k + new)
        hidden -= vectors.index_select(0, variable * self._k + old)
        return hidden

    def change_hidden(self, hidden: Tensor, vectors: Tensor, row: slice, variable: slice, shift: slice) -> Tensor:
        """Return hidden `[R, H]` after each change of a block, `[R, N, shifts, H]`."""
        device = vectors.device
        first = torch.arange(self.variables, device=device)[variable] * self._k
        old = self._category[row, variable]
        new = (old[..., None] + torch.arange(1, self._k, device=device)[shift]) % self._k + first[:, None]
        changed = vectors.index_select(0, new.flatten()).view(*new.shape, -1)
        return changed.add_((hidden[:, None] - vectors[old + first])[:, :, None])

    def differences(self, values: Float[Tensor, "R E"]) -> Float[Tensor, "R M"]:
        """Return what each change adds to `<values, z>`."""
        rows, variables = self._category.shape
        values = values.view(rows, variables, self._k)
        shift = torch.arange(1, self._k, device=values.device)
        new = (self._category[..., None] + shift) % self._k
        return (values.gather(-1, new) - values.gather(-1, self._category[..., None])).view(rows, -1)
