"""How far must scores be moved for some of the arg maxes to change? A step fitted to the batch at hand."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.spaces import AbstractSpace
from hardmax.validation import check_positive


def step_that_moves(
    moved: Callable[[Tensor], Tensor],
    z: Float[Tensor, "S ..."],
    space: AbstractSpace,
    *,
    share: float | Float[Tensor, ""],
    smallest: float,
    largest: float,
    solves: int,
) -> Float[Tensor, ""]:
    """Return the smallest step at which at least a share of the arg maxes differ from z, one step for all of them.

    With `z(step) = argmax_z' {<perturbed, statistics(z')> + step v(z')}`, z stays the arg max as long as no other z'
    overtakes it. What z leads z' by is linear in step, so the steps at which z stays are an interval that contains
    zero: an arg max that has moved stays moved, and the share that has moved grows with the step. It is found by
    bisection of log step.

    The result is a step at which the share has moved, or `largest` if none of those tried was; and it is too large
    by a factor of at most `(largest / smallest)^(1 / 2^solves)`. A z that is already the best by v never moves, so the
    share may be out of reach. Nothing is read, so it compiles; under vmap every part has its own step.

    Args:
        moved: from a step, a scalar, to z(step) `[S, *B, *event]`; one arg max for every sample and example.
        z: `[S, *B, *event]`, z(0).
        space: what z may be.
        share: of the S samples of all examples, in (0, 1]; a tensor is not checked.
        smallest: where the search starts, > 0.
        largest: where it ends, at least `smallest`.
        solves: how often `moved` is called.

    Returns:
        `[]`, in float32 or wider, detached.

    Raises:
        ArgumentError: from `check_step_search`.

    Example:
        >>> import torch, hardmax as hm
        >>> space, scores, z = hm.Binary(1), torch.tensor([[[1.0], [2.0], [4.0], [8.0]]]), torch.ones(1, 4, 1)
        >>> moved = lambda step: space.argmax(scores - step)
        >>> step = step_that_moves(moved, z, space, share=0.5, smallest=0.01, largest=100.0, solves=20)
        >>> round(step.item(), 3)
        2.0
    """
    check_step_search(1.0 if isinstance(share, Tensor) else share, smallest, largest, solves)
    event = tuple(range(-len(space.event_shape), 0))
    wide = torch.promote_types(z.dtype, torch.float32)

    def enough(step: Tensor) -> Tensor:
        return (moved(step) != z).any(event).to(wide).mean() >= share

    return first_step(enough, smallest, largest, solves, like=z.to(wide))


def first_step(
    enough: Callable[[Tensor], Tensor], smallest: float, largest: float, tries: int, *, like: Tensor
) -> Float[Tensor, ""]:
    """Return the first step from `smallest` on that is enough, by bisection of log step; `largest` if none is.

    Args:
        enough: from a step to a boolean scalar; true from some step on.
        smallest: where the search starts, > 0.
        largest: where it ends.
        tries: how often `enough` is called.
        like: a tensor whose dtype and device the steps have.
    """
    with torch.no_grad():
        low = torch.full((), math.log(smallest), dtype=like.dtype, device=like.device)
        high = torch.full((), math.log(largest), dtype=like.dtype, device=like.device)
        for _ in range(tries):
            middle = (low + high) / 2
            found = enough(middle.exp())
            low, high = torch.where(found, low, middle), torch.where(found, middle, high)
        return high.exp()


def check_step_search(share: float, smallest: float, largest: float, solves: int) -> None:
    """Raise `ArgumentError` for a search that cannot be made; for estimators to call when they are made."""
    if not 0 < share <= 1:
        raise ArgumentError(f"share must be in (0, 1], got {share}; it is how many of the arg maxes have to move")
    check_positive("smallest", smallest)
    check_positive("largest", largest)
    if largest < smallest:
        raise ArgumentError(f"largest must not be below smallest={smallest}, got {largest}")
    if solves < 1:
        raise ArgumentError(f"solves must be at least 1, got {solves}")
