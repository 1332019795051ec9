"""f, called by its contract: results checked, memory bounded, evaluations counted."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.spaces.abstract import AbstractSpace
from hardmax.types import Objective
from hardmax.validation import first_index, transformed, values_readable


class Evaluator:
    """The only way an estimator reaches f, so that `evaluations` is true by construction.

    Attributes:
        evaluations: evaluations of f so far, mean per example.
        chunk_size: the largest C of one call of f, or None.
        has_table: whether values of all categories come from `f.table()` or `f.pairs()`.
        has_rows: whether chosen examples can be evaluated alone, by `f.rows()`.
    """

    def __init__(
        self,
        f: Objective,
        scores: Tensor,
        space: AbstractSpace,
        *,
        chunk_size: int | None = None,
        validate: bool = True,
    ) -> None:
        self._f = f
        self._scores = scores
        self._space = space
        self._batch_shape = space.batch_shape(scores)
        self._validate = validate and values_readable()
        self.chunk_size = chunk_size
        self.evaluations = 0.0
        self.has_table = space.categories is not None and (hasattr(f, "table") or hasattr(f, "pairs"))
        self.has_rows = hasattr(f, "rows")

    def __call__(self, z: Tensor) -> Tensor:
        """Evaluate f, `[C, *B, *event] -> [C, *B]`, at most `chunk_size` candidates at a time.

        What a chunk needs for its backward pass is not kept but computed again there, or chunks would bound
        nothing.
        """
        self.evaluations += len(z)
        return self._in_chunks(self._call, z, 0)

    def _in_chunks(self, call: Callable[[Tensor], Tensor], z: Tensor, dim: int) -> Tensor:
        """Call with at most `chunk_size` z at a time and join the results along dim."""
        if self.fits(len(z)):
            return call(z)
        # torch.func refuses the saved-tensor hooks of checkpoint; there, memory is the caller's affair.
        recompute = torch.is_grad_enabled() and not transformed()
        chunks = z.split(self.chunk_size or len(z))
        return torch.cat(
            [checkpoint(call, chunk, use_reentrant=False) if recompute else call(chunk) for chunk in chunks], dim
        )

    def table(self) -> Tensor:
        """Evaluate f at every member of the space, `[*B, M]`: by `f.pairs()` or `f.table()` where they are there."""
        pairs = hasattr(self._f, "pairs")
        if self.has_table and not pairs:
            self.evaluations += self._space.size
            table = self._f.table()  # pyright: ignore[reportFunctionMemberAccess]
            return self._checked(table, (*self._batch_shape, self._space.size), "f.table()", lambda at: at[:-1])
        members = self._space.enumerate(dtype=self._scores.dtype, device=self._scores.device)
        if pairs:
            self.evaluations += len(members)
            return self._in_chunks(self._pairs, members, -1)
        event_shape = self._space.event_shape
        spread = members.view(-1, *(1 for _ in self._batch_shape), *event_shape)
        return self(spread.expand(-1, *self._batch_shape, *event_shape)).movedim(0, -1)

    def rows(self, z: Tensor, index: Tensor) -> Tensor:
        """Evaluate f at chosen examples, `[R, *event]` and flat batch index `[R] -> [R]`."""
        examples = max(math.prod(self._batch_shape), 1)
        self.evaluations += len(index) / examples
        step = max(len(index) if self.chunk_size is None else self.chunk_size * examples, 1)
        rows = self._f.rows  # pyright: ignore[reportFunctionMemberAccess]
        values = torch.cat([rows(*pair) for pair in zip(z.split(step), index.split(step), strict=True)])

        def example(at: list[int]) -> list[int]:
            return [int(i) for i in torch.unravel_index(index[at[0]], self._batch_shape)]

        return self._checked(values, (len(index),), "f.rows()", example)

    def keeps_table(self, samples: int) -> bool:
        """Whether to keep the graph of a whole table for the sake of its entries at z.

        Not if it does not fit; nor if many categories share their rows between few examples: backward would go
        through K rows, where f at z takes one for each example and sample.
        """
        if not self.has_table:
            return self.fits(self._space.size)
        shared = hasattr(self._f, "pairs") or getattr(self._f, "shares_rows", False)
        return not shared or self._space.size <= 2 * samples * math.prod(self._batch_shape)

    def fits(self, count: int) -> bool:
        """Whether this many candidates may be evaluated in one call."""
        return self.chunk_size is None or count <= self.chunk_size

    def _call(self, z: Tensor) -> Tensor:
        return self._checked(self._f(z), (z.shape[0], *self._batch_shape), "f", lambda at: at[1:])

    def _pairs(self, z: Tensor) -> Tensor:
        values = self._f.pairs(z)  # pyright: ignore[reportFunctionMemberAccess]
        return self._checked(values, (*self._batch_shape, len(z)), "f.pairs()", lambda at: at[:-1])

    def _checked(
        self, values: Tensor, shape: tuple[int, ...], name: str, example: Callable[[list[int]], list[int]]
    ) -> Tensor:
        """Check what f returned; `example` tells from an index into it which example that is."""
        if not isinstance(values, Tensor) or not values.is_floating_point():
            got = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise DtypeError(f"{name} must return a floating-point tensor of shape {list(shape)}, got {got}")
        if tuple(values.shape) != shape:
            raise ShapeError(
                f"{name} must return one value per candidate and example, shape {list(shape)}, got "
                f"{list(values.shape)}; f maps z [C, *B, *event] to [C, *B]: sum over the event's dimensions only"
            )
        # Without a NaN in the sum there is none in the terms.
        if self._validate and math.isnan(values.detach().sum().item()) and (nan := values.isnan()).any():
            index = first_index(nan)
            raise ArgumentError(
                f"{name} returned NaN for example {example(index)} (at index {index} of its result, "
                f"{int(nan.sum())} NaN in all); look at that example, or at a diverged decoder"
            )
        return values
