"""Searches for the arg max of scores plus f, the second arg max of direct optimization."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.evaluator import CountedChanges, Evaluator
from hardmax.spaces import AbstractSpace

# Maps a step to z(step) `[S, *B, *event]` and the number of arg maxes solved for all S samples, mean per example.
Solve = Callable[[float | Tensor], tuple[Tensor, float]]


def search_all(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Solve]:
    """Return f(z) and the function `step -> argmax_z' {<perturbed, statistics(z')> + step f(z')}`, by enumeration."""
    with torch.no_grad():
        table = f.table()
    members = space.enumerate(dtype=perturbed.dtype, device=perturbed.device)
    flat = perturbed.flatten(perturbed.dim() - len(space.score_shape))
    base = flat @ space.statistics(members).flatten(1).mT

    def solve(step: float | Tensor) -> tuple[Tensor, float]:
        return members[(base + step * table).argmax(-1)], float(len(z))

    return f.evaluate_plain(z), solve


def search_single_changes(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Solve]:
    """Return f(z) and the function `step -> z(step)`, with f approximated from all single changes of z."""
    values, parts = evaluate_single_changes(f, space, z)

    def solve(step: float | Tensor) -> tuple[Tensor, float]:
        return space.argmax(space.augment(perturbed, step * parts)), float(len(z))

    return values, solve


def search_bounded_changes(
    f: Evaluator,
    space: AbstractSpace,
    perturbed: Float[Tensor, "S ..."],
    z: Float[Tensor, "S ..."],
    changes: CountedChanges,
    bounds: Float[Tensor, "S *B M"],
) -> tuple[Float[Tensor, "S *B"], Solve]:
    """Return the same as `search_single_changes`, for a positive step; evaluates only changes that can matter.

    The gain of each change starts at its upper bound. An arg max is the true one if all changes that it uses have been
    evaluated, since the value of any other z' is at most what its bounds give. Until then, the changes that it uses are
    evaluated and the arg max is solved again.
    """
    linear = 0.0 if f.linear is None else f.linear

    @torch.no_grad()
    def solve(step: float | Tensor) -> tuple[Tensor, float]:
        gains = bounds.clone()
        weights = step * linear if isinstance(linear, Tensor) else 0.0

        def solve_rows(mask: Tensor) -> Tensor:
            parts = space.parts(z[mask], gains[mask].movedim(-1, 0))
            tilt = weights.expand(perturbed.shape)[mask] if isinstance(weights, Tensor) else 0.0
            return space.argmax(perturbed[mask] + step * parts + tilt).to(z.dtype)

        best, is_evaluated = torch.empty_like(z), torch.zeros_like(gains, dtype=torch.bool)
        is_open = torch.ones(gains.shape[:-1], dtype=torch.bool, device=z.device)
        solves = 0.0
        while is_open.any():
            best[is_open] = solve_rows(is_open)
            solves += float(is_open.sum()) * len(z) / is_open.numel()
            is_new = space.changes_between(z, best) & ~is_evaluated & is_open[..., None]
            gains[is_new] = changes.gains(is_new)
            is_evaluated |= is_new
            is_open = is_new.any(-1)
        return best, solves

    return f.evaluate_plain(z), solve


def search_neighbours(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Solve]:
    """Return f(z) and the function `step -> z(step)`, the best of z and its neighbours by scores plus `step * f`."""
    values = f.evaluate_plain(z)
    with torch.no_grad():
        near = space.neighbours(z)
        candidates = torch.cat([z[None], near])
        worth = torch.stack([values.detach(), *(f.evaluate_plain(each) for each in near)])
        worth = worth + torch.stack([f.linear_part(each) for each in candidates])
        base = space.dot(perturbed, space.statistics(candidates.to(perturbed.dtype)))

    def solve(step: float | Tensor) -> tuple[Tensor, float]:
        best = (base + step * worth).argmax(0)  # [S, *B]
        index = best.view(1, *best.shape, *(1 for _ in space.event_shape)).expand(1, *z.shape)
        return candidates.gather(0, index).squeeze(0), 0.0

    return values, solve
