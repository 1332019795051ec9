"""Calls of f, with results checked, memory bounded and evaluations counted."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.spaces.abstract import AbstractSpace
from hardmax.types import Flips, Objective
from hardmax.validation import can_read_values, find_first_index, is_transformed


class Evaluator:
    """The only interface between an estimator and f, so that `evaluations` is correct by construction.

    To the user's f a part that is linear in the statistics may be added, `<linear, statistics(z)>`: for a bound,
    `log p(z) - log q(z)`. It costs no evaluation, and estimators that solve for an arg max take it exactly.

    Attributes:
        linear: `[*B, *score]`, weights of the linear part, or None.
        evaluations: evaluations of f so far, mean per example.
        chunk_size: the largest C of one call of f, or None.
        has_table: whether values of all categories come from `f.table()` or `f.pairs()`.
        has_rows: whether chosen examples can be evaluated alone, by `f.rows()`.
        has_flips: whether the flips of single bits are cheaper than separate evaluations, by `f.flips()`.
    """

    def __init__(
        self,
        f: Objective,
        scores: Tensor,
        space: AbstractSpace,
        *,
        linear: Tensor | None = None,
        chunk_size: int | None = None,
        validate: bool = True,
    ) -> None:
        self._f = f
        self._scores = scores
        self._space = space
        self._batch_shape = space.batch_shape(scores)
        self._validate = validate and can_read_values()
        self.linear = linear
        self.chunk_size = chunk_size
        self.evaluations = 0.0
        self.has_table = space.categories is not None and (hasattr(f, "table") or hasattr(f, "pairs"))
        self.has_rows = hasattr(f, "rows")
        self.has_flips = hasattr(f, "flips") and space.offers("fields")

    def __call__(self, z: Tensor) -> Tensor:
        """Evaluate f with its linear part, `[C, *B, *event] -> [C, *B]`."""
        return self.plain(z) if self.linear is None else self.plain(z) + self.linear_part(z)

    def linear_part(self, z: Tensor) -> Tensor:
        """Return `<linear, statistics(z)>`, zero if there is none: `[C, *B, *event] -> [C, *B]`."""
        if self.linear is None:
            return z.new_zeros(z.shape[: z.dim() - len(self._space.event_shape)])
        return self._space.dot(self.linear, self._space.statistics(z))

    def plain(self, z: Tensor) -> Tensor:
        """Evaluate f without the linear part, `[C, *B, *event] -> [C, *B]`, at most `chunk_size` candidates at a time.

        The activations of a chunk are not kept but recomputed in the backward pass; otherwise chunks would not bound
        the memory.
        """
        self.evaluations += len(z)
        return self._in_chunks(self._call, z, 0)

    def _in_chunks(self, call: Callable[[Tensor], Tensor], z: Tensor, dim: int) -> Tensor:
        """Call with at most `chunk_size` z at a time and join the results along dim."""
        if self.fits(len(z)):
            return call(z)
        # torch.func refuses the saved-tensor hooks of checkpoint; there, the caller has to limit the memory.
        recompute = torch.is_grad_enabled() and not is_transformed()
        chunks = z.split(self.chunk_size or len(z))
        return torch.cat(
            [checkpoint(call, chunk, use_reentrant=False) if recompute else call(chunk) for chunk in chunks], dim
        )

    def distinct(self, z: Tensor) -> Tensor:
        """Evaluate like `__call__`, `[S, *B, *event] -> [S, *B]`, but equal samples of an example only once.

        Needs `f.rows()`, and zeros and ones that fit the bits of an integer; a q of low entropy repeats its samples.
        """
        samples, examples, width = len(z), math.prod(self._batch_shape), math.prod(self._space.event_shape)
        if not self.has_rows or width + examples.bit_length() > 62 or not can_read_values():
            return self(z)
        example = torch.arange(examples, device=z.device).repeat(samples)
        place = 2 ** torch.arange(width, device=z.device)
        code = (z.detach().reshape(samples * examples, width).long() * place).sum(-1) * examples + example
        _, where = code.unique(return_inverse=True)
        first = torch.empty(int(where.max()) + 1 if len(where) else 0, dtype=torch.int64, device=z.device)
        first[where] = torch.arange(len(where), device=z.device)
        values = self.rows(z.reshape(samples * examples, *self._space.event_shape)[first], example[first])
        values = values[where].view(samples, *self._batch_shape)
        return values if self.linear is None else values + self.linear_part(z)

    def table(self) -> Tensor:
        """Evaluate f with its linear part at every member of the space, `[*B, M]`."""
        values = self._plain_table()
        if self.linear is None:
            return values
        flat = self.linear.flatten(len(self._batch_shape))
        if self._space.categories is None:
            members = self._space.enumerate(dtype=flat.dtype, device=flat.device)
            flat = flat @ self._space.statistics(members).flatten(1).mT
        return values + flat

    def _plain_table(self) -> Tensor:
        """Evaluate by `f.pairs()` or `f.table()` where f has them."""
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
        return self.plain(spread.expand(-1, *self._batch_shape, *event_shape)).movedim(0, -1)

    def rows(self, z: Tensor, index: Tensor) -> Tensor:
        """Evaluate f without its linear part at chosen examples, `[R, *event]` and flat batch index `[R] -> [R]`."""
        examples = max(math.prod(self._batch_shape), 1)
        self.evaluations += len(index) / examples
        step = max(len(index) if self.chunk_size is None else self.chunk_size * examples, 1)
        rows = self._f.rows  # pyright: ignore[reportFunctionMemberAccess]
        values = torch.cat([rows(*pair) for pair in zip(z.split(step), index.split(step), strict=True)])

        def example(at: list[int]) -> list[int]:
            return [int(i) for i in torch.unravel_index(index[at[0]], self._batch_shape)]

        return self._checked(values, (len(index),), "f.rows()", example)

    def flips(self, z: Tensor) -> "CountedFlips":
        """Return the flips of the bits of z `[S, *B, N]`, without the linear part."""
        return CountedFlips(self._f.flips(z), self._check_gains)  # pyright: ignore[reportFunctionMemberAccess]

    def _check_gains(self, gains: Tensor, wanted: Tensor) -> Tensor:
        """Count and check the gains of flips where wanted `[S, *B, N]`."""
        count = int(wanted.sum())
        self.evaluations += count / max(math.prod(self._batch_shape), 1)

        def example(at: list[int]) -> list[int]:
            return wanted.nonzero()[at[0]].tolist()[1:-1]

        return self._checked(gains, (count,), "f.flips(z).gains()", example)

    def keeps_table(self, samples: int) -> bool:
        """Whether to keep the graph of a whole table in order to use its entries at z.

        Not if it does not fit; nor if many categories share their rows between few examples: backward would process K
        rows, where f at z takes one for each example and sample. Nor if every category of every example is a separate
        row, as `f.rows()` without a table implies: backward costs twice as much as forward, so that K rows forward and
        backward cost more than K rows forward, and those at z again.
        """
        if not self.has_table:
            separate_rows = self.has_rows and 2 * self._space.size > 3 * samples
            return not separate_rows and self.fits(self._space.size)
        return not hasattr(self._f, "pairs") or self._space.size <= 2 * samples * math.prod(self._batch_shape)

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
        """Check the values that f returned; `example` maps an index into them to the index of the example."""
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
            index = find_first_index(nan)
            raise ArgumentError(
                f"{name} returned NaN for example {example(index)} (at index {index} of its result, "
                f"{int(nan.sum())} NaN in all); look at that example, or at a diverged decoder"
            )
        return values


class CountedFlips:
    """The result of `f.flips(z)`, with its evaluations counted."""

    def __init__(self, flips: Flips, count: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._flips = flips
        self._count = count

    @property
    def bounds(self) -> Tensor:
        """`[S, *B, N]`. No flip gains more than this; computed on access."""
        return self._flips.bounds

    def gains(self, wanted: Tensor) -> Tensor:
        """Return f(z with bit i flipped) - f(z) where wanted `[S, *B, N]`, a flat tensor in that order."""
        return self._count(self._flips.gains(wanted), wanted)
