"""f, called by its contract: results checked, memory bounded, evaluations counted."""

from math import prod

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
        has_table: whether values of all categories come from `f.table()`.
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
        self.has_table = space.categories is not None and hasattr(f, "table")
        self.has_rows = hasattr(f, "rows")

    def __call__(self, z: Tensor) -> Tensor:
        """Evaluate f, `[C, *B, *event] -> [C, *B]`, at most `chunk_size` candidates at a time.

        What a chunk needs for its backward pass is not kept but computed again there, or chunks would bound
        nothing.
        """
        count = z.shape[0]
        self.evaluations += count
        if self.fits(count):
            return self._call(z)
        # torch.func refuses the saved-tensor hooks of checkpoint; there, memory is the caller's affair.
        recompute = torch.is_grad_enabled() and not transformed()
        chunks = z.split(self.chunk_size or count)
        return torch.cat(
            [checkpoint(self._call, chunk, use_reentrant=False) if recompute else self._call(chunk) for chunk in chunks]
        )

    def table(self) -> Tensor:
        """Evaluate f at every member of the space, `[*B, M]`: by `f.table()` where it is there."""
        if self.has_table:
            table = self._f.table()  # pyright: ignore[reportFunctionMemberAccess]
            self.evaluations += self._space.size
            return self._checked(table, (*self._batch_shape, self._space.size), "f.table()", examples=0)
        members = self._space.enumerate(dtype=self._scores.dtype, device=self._scores.device)
        event_shape = self._space.event_shape
        spread = members.view(-1, *(1 for _ in self._batch_shape), *event_shape)
        return self(spread.expand(-1, *self._batch_shape, *event_shape)).movedim(0, -1)

    def rows(self, z: Tensor, index: Tensor) -> Tensor:
        """Evaluate f at chosen examples, `[R, *event]` and flat batch index `[R] -> [R]`."""
        examples = max(prod(self._batch_shape), 1)
        self.evaluations += len(index) / examples
        step = len(index) if self.chunk_size is None else self.chunk_size * examples
        step = max(step, 1)
        values = [self._f.rows(*pair) for pair in zip(z.split(step), index.split(step), strict=True)]  # pyright: ignore[reportFunctionMemberAccess]
        return self._checked(torch.cat(values), (len(index),), "f.rows()", examples=0)

    def fits(self, count: int) -> bool:
        """Whether this many candidates may be evaluated in one call."""
        return self.chunk_size is None or count <= self.chunk_size

    def _call(self, z: Tensor) -> Tensor:
        return self._checked(self._f(z), (z.shape[0], *self._batch_shape), "f", examples=1)

    def _checked(self, values: Tensor, shape: tuple[int, ...], name: str, *, examples: int) -> Tensor:
        """Check what f returned; `examples` is the dimension where `*B` begins."""
        if not isinstance(values, Tensor) or not values.is_floating_point():
            got = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise DtypeError(f"{name} must return a floating-point tensor of shape {list(shape)}, got {got}")
        if tuple(values.shape) != shape:
            raise ShapeError(
                f"{name} must return one value per candidate and example, shape {list(shape)}, got "
                f"{list(values.shape)}; f maps z [C, *B, *event] to [C, *B]: sum over the event's dimensions only"
            )
        if self._validate and (nan := values.isnan()).any():
            index = first_index(nan)
            example = index[examples : examples + len(self._batch_shape)]
            raise ArgumentError(
                f"{name} returned NaN for example {example} (at index {index} of its result, "
                f"{int(nan.sum())} NaN in all); look at that example, or at a diverged decoder"
            )
        return values
