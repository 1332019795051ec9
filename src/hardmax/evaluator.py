"""`Evaluator` calls f: it checks the results, limits the memory and counts the evaluations."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.spaces import AbstractSpace, Categorical
from hardmax.spaces.abstract import make_one_hot
from hardmax.tracing import can_read_values, is_transformed
from hardmax.types import Changes, Objective
from hardmax.validation import check_finite

T = TypeVar("T")

_ROWS = 256  # with fewer, a call costs more than its rows; with more, activations of large decoders leave the cache
_NUMBERS = 2**16  # in the z of all rows, where they are narrow


class Evaluator:
    r"""The function f as an estimator sees it. Estimators call f only through it, so `evaluations` is always correct.

    It can add to f a part that is linear in the statistics, $\langle \mathrm{linear}, \mathrm{statistics}(z) \rangle$:
    for a bound, $\log p(z) - \log q(z)$. This part costs no evaluation, and estimators that solve for an arg max use it
    exactly.

    Attributes:
        linear: `[*B, *score]`, weights of the linear part, or None.
        evaluations: number of evaluations of f so far, mean per example.
        chunk_size: maximal number of candidates C in one call of f, or None: no limit where the graph of f is kept, and
            where it is not, as many as fit the cache.
        has_table: whether values of all categories come from `f.table()` or `f.pairs()`.
        has_rows: whether f can evaluate only some examples, by `f.rows()`.
        has_changes: whether f may evaluate single changes of z by itself, more cheaply than separate calls.
        takes_categories: whether `f.pairs()` and `f.rows()` take categories `[R]` instead of one-hot z.
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
        has_bits = space.offers("fields")
        self.has_changes = hasattr(f, "changes") and (has_bits or isinstance(space, Categorical))
        self.has_changes |= hasattr(f, "flips") and has_bits  # the former name
        self.takes_categories = space.categories is not None and getattr(f, "takes_categories", False)

    def __call__(self, z: Tensor) -> Tensor:
        """Evaluate f with its linear part, `[C, *B, *event] -> [C, *B]`."""
        return self.evaluate_plain(z) if self.linear is None else self.evaluate_plain(z) + self.linear_part(z)

    def linear_part(self, z: Tensor) -> Tensor:
        r"""Return the linear part, zero if there is none: `[C, *B, *event] -> [C, *B]`.

        $$ \langle \mathrm{linear}, \mathrm{statistics}(z) \rangle $$
        """
        if self.linear is None:
            return z.new_zeros(z.shape[: z.dim() - len(self._space.event_shape)])
        return self._space.dot(self.linear, self._space.statistics(z))

    def evaluate_plain(self, z: Tensor) -> Tensor:
        """Evaluate f without the linear part, `[C, *B, *event] -> [C, *B]`, at most `chunk_size` candidates at a time.

        The backward pass recomputes the activations of each chunk. Keeping them would need the memory that chunks save.
        """
        self.evaluations += z.shape[0]
        return self._call_in_chunks(self._call, z, 0)

    def _call_in_chunks(self, call: Callable[[Tensor], Tensor], z: Tensor, dim: int) -> Tensor:
        """Call with a limited number of z at a time and join the results along dim: 0, or -1 for `pairs`."""
        size = self.choose_chunk_size(shared=dim == -1)
        if z.shape[0] <= size or (torch.is_grad_enabled() and self.chunk_size is None):
            return call(z)
        # torch.func refuses the saved-tensor hooks of checkpoint; under it, the caller has to limit the memory.
        recompute = torch.is_grad_enabled() and not is_transformed()
        chunks = z.split(size)
        return torch.cat(
            [checkpoint(call, chunk, use_reentrant=False) if recompute else call(chunk) for chunk in chunks], dim
        )

    def evaluate_distinct(self, z: Tensor) -> Tensor:
        """Evaluate f with its linear part, `[S, *B, *event] -> [S, *B]`, equal samples of an example only once.

        This saves evaluations if q has low entropy, and its samples repeat. It needs `f.rows()`, and a z whose zeros
        and ones fit the bits of an integer; otherwise every sample is evaluated.
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
        """Evaluate f without its linear part at every member, by `f.pairs()` or `f.table()` if f has them."""
        pairs = hasattr(self._f, "pairs")
        if (
            self.has_table
            and hasattr(self._f, "table")
            and not (pairs and self._space.size > self.choose_chunk_size(shared=True))
        ):
            self.evaluations += self._space.size
            table = self._f.table()  # pyright: ignore[reportFunctionMemberAccess]
            return self._check_values(table, (*self._batch_shape, self._space.size), "f.table()", lambda at: at[:-1])
        if pairs:
            self.evaluations += self._space.size
            return self._call_in_chunks(self._call_pairs, self._list_members(), -1)
        return self._evaluate_members().movedim(0, -1)

    def _evaluate_members(self) -> Tensor:
        """Evaluate f without its linear part at every member by itself, `[M, *B]`."""
        members = self._space.enumerate(dtype=self._scores.dtype, device=self._scores.device)
        event_shape = self._space.event_shape
        spread = members.view(-1, *(1 for _ in self._batch_shape), *event_shape)
        return self.evaluate_plain(spread.expand(-1, *self._batch_shape, *event_shape))

    def _list_members(self) -> Tensor:
        """Return all members of the space, as categories `[K]` if f takes them, else `[M, *event]`."""
        if self.takes_categories:
            return torch.arange(self._space.size, device=self._scores.device)
        return self._space.enumerate(dtype=self._scores.dtype, device=self._scores.device)

    def evaluate_categories(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate f without its linear part at categories of a single categorical, and at all categories.

        Args:
            index: `[S, *B, 1]`, or with the variable's dimension `[S, *B, 1, 1]`: a category for each sample.

        Returns:
            `[S, *B]` f at these categories, with the gradient for everything that f closes over; and `[*B, K]` f at all
            categories, detached.
        """
        index = index.view(*index.shape[: 1 + len(self._batch_shape)], 1)
        if self.keeps_table(len(index)):
            if not self.has_table:
                values = self._evaluate_members()
                return values.gather(0, index.squeeze(-1)), values.detach().movedim(0, -1)
            table = self._plain_table()
            return self._look_up(table, index), table.detach()
        with torch.no_grad():
            table = self._plain_table()
        if self.takes_categories and can_read_values():
            # Categories that several examples or samples share are decoded once.
            self.evaluations += len(index)
            distinct, where = index.unique(return_inverse=True)
            return self._look_up(self._call_in_chunks(self._call_pairs, distinct, -1), where), table
        z = make_one_hot(index, table.shape[-1], self._scores.dtype)
        return self.evaluate_plain(z.view(len(index), *self._scores.shape)), table

    @staticmethod
    def _look_up(table: Tensor, index: Tensor) -> Tensor:
        """Return the entries of a table `[*B, K]` at an index `[S, *B, 1]`, `[S, *B]`."""
        return table.expand(len(index), *table.shape).gather(-1, index).squeeze(-1)

    def rows(self, z: Tensor, index: Tensor) -> Tensor:
        """Evaluate f without its linear part at chosen examples, `[R, *event]` and flat batch index `[R] -> [R]`."""
        examples = max(math.prod(self._batch_shape), 1)
        self.evaluations += len(index) / examples
        keeps_graph = torch.is_grad_enabled() and self.chunk_size is None
        step = max(len(index) if keeps_graph else self.choose_chunk_size() * examples, 1)
        rows = self._f.rows  # pyright: ignore[reportFunctionMemberAccess]
        pairs = zip(z.split(step), index.split(step), strict=True)
        values = torch.cat([self._call_without_writes(rows, "f.rows()", *pair) for pair in pairs])

        def example(at: list[int]) -> list[int]:
            return [int(i) for i in torch.unravel_index(index[at[0]], self._batch_shape)]

        return self._check_values(values, (len(index),), "f.rows()", example)

    def changes(self, z: Tensor) -> "CountedChanges | None":
        """Return the single changes of z `[S, *B, *event]`, without the linear part, if f evaluates them by itself.

        None if f does not, and where values cannot be read: which changes to evaluate is unknown while compiling.
        """
        if not self.has_changes or not can_read_values():
            return None
        name = "changes" if hasattr(self._f, "changes") else "flips"
        changes = self._call_without_writes(getattr(self._f, name), f"f.{name}()", z)
        return None if changes is None else CountedChanges(changes, self._check_gains)

    def _check_gains(self, gains: Tensor, wanted: Tensor) -> Tensor:
        """Count and check the gains of the changes that the mask `wanted` `[S, *B, M]` selects."""
        count = int(wanted.sum())
        self.evaluations += count / max(math.prod(self._batch_shape), 1)

        def example(at: list[int]) -> list[int]:
            return wanted.nonzero()[at[0]].tolist()[1:-1]

        return self._check_values(gains, (count,), "f.changes(z).gains()", example)

    def augment(self, scores: Tensor, epsilon: float) -> Tensor:
        """Return `f.augment(scores, epsilon)`: scores whose arg max also weighs f, `[S, *B, *score]` twice."""
        augmented = self._f.augment(scores, epsilon)  # pyright: ignore[reportFunctionMemberAccess]
        if not isinstance(augmented, Tensor) or augmented.shape != scores.shape:
            got = list(augmented.shape) if isinstance(augmented, Tensor) else type(augmented).__name__
            raise ShapeError(f"f.augment() must return scores of shape {list(scores.shape)}, got {got}")
        if self._validate and not augmented.isfinite().all():
            raise ArgumentError("f.augment() returned scores that are not finite; look at epsilon and the values of f")
        return augmented

    def keeps_table(self, samples: int) -> bool:
        """Return whether to keep the graph of a complete table, in order to use its entries at z.

        It is discarded in three cases. It does not fit. Or categories share their rows between examples, and f at z
        needs fewer of them: a backward pass costs twice a forward pass, so that K rows forward and backward cost more
        than K rows forward plus D distinct rows at z, both ways, if 2 K > 3 D. Or every category of every example is a
        separate row, as `f.rows()` without a table implies; then f at z needs one row for each sample.
        """
        size = self._space.size
        if not self.has_table:
            separate_rows = self.has_rows and 2 * size > 3 * samples
            return not separate_rows and self.fits_in_one_call(size)
        if not hasattr(self._f, "pairs"):
            return True
        draws = samples * math.prod(self._batch_shape)
        # The expected number of distinct categories if all are equally likely; fewer otherwise.
        distinct = size * -math.expm1(draws * math.log1p(-1 / size)) if size > 1 else 1.0
        return 2 * size <= 3 * (distinct if self.takes_categories else draws)

    def choose_chunk_size(self, *, shared: bool = False) -> int:
        """Return the maximal number of candidates in one call of f: `chunk_size`, or as many as fit the cache.

        By default, all examples and candidates of a call together are about 256 rows; more if they are narrow.

        Args:
            shared: whether all examples share the candidates, as in `f.pairs()`; then a candidate is one row.
        """
        if self.chunk_size is not None:
            return self.chunk_size
        rows = max(_ROWS, _NUMBERS // math.prod(self._space.event_shape))
        return max(rows // (1 if shared else max(math.prod(self._batch_shape), 1)), 1)

    def fits_in_one_call(self, count: int) -> bool:
        """Return whether f may evaluate this number of candidates in one call."""
        return self.chunk_size is None or count <= self.chunk_size

    fits = RenamedMember("fits_in_one_call")

    plain = RenamedMember("evaluate_plain")

    distinct = RenamedMember("evaluate_distinct")

    def _call(self, z: Tensor) -> Tensor:
        values = self._call_without_writes(self._f, "f", z)
        return self._check_values(values, (z.shape[0], *self._batch_shape), "f", lambda at: at[1:])

    def _call_without_writes(self, function: Callable[..., T], name: str, z: Tensor, *rest: Tensor) -> T:
        """Call f or one of its methods, and check that it does not write into z, which estimators use again."""
        if not self._validate or z.is_inference():  # inference tensors have no version
            return function(z, *rest)
        version = z._version
        values = function(z, *rest)
        if z._version != version:
            raise ArgumentError(
                f"{name} changed its argument z of shape {list(z.shape)} in place, which would change the samples that "
                "the estimator uses; work on a copy, z.clone()"
            )
        return values

    def _call_pairs(self, z: Tensor) -> Tensor:
        values = self._call_without_writes(self._f.pairs, "f.pairs()", z)  # pyright: ignore[reportFunctionMemberAccess]
        return self._check_values(values, (*self._batch_shape, len(z)), "f.pairs()", lambda at: at[:-1])

    def _check_values(
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
        if self._validate:
            check_finite(values, name, example)
        return values


class CountedChanges:
    """The result of `f.changes(z)`; it counts the evaluations."""

    def __init__(self, changes: Changes, count: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._changes = changes
        self._count = count

    @property
    def bounds(self) -> Tensor | None:
        """`[S, *B, M]`. Upper bound of the gain of each change, or None; computed on access."""
        return self._changes.bounds

    def gains(self, wanted: Tensor) -> Tensor:
        """Return `f(z after the change) - f(z)` where `wanted` `[S, *B, M]` is True: a flat tensor in that order."""
        return self._count(self._changes.gains(wanted), wanted)
