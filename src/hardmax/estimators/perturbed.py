"""z(epsilon), the arg max that f perturbs: with f everywhere, around z*, or around z* and only where it matters."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.single_changes import single_changes
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace

# From a step to z(step) `[S, *B, *event]` and how many arg maxes that took, mean per example over all S.
Moved = Callable[[float | Tensor], tuple[Tensor, float]]


def everywhere(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Moved]:
    """Return f(z) and `step -> argmax_z' {<perturbed, statistics(z')> + step f(z')}`, by going through every z'."""
    with torch.no_grad():
        table = f.table()
    members = space.enumerate(dtype=perturbed.dtype, device=perturbed.device)
    flat = perturbed.flatten(perturbed.dim() - len(space.score_shape))
    base = flat @ space.statistics(members).flatten(1).mT

    def moved(step: float | Tensor) -> tuple[Tensor, float]:
        return members[(base + step * table).argmax(-1)], float(len(z))

    return f(z), moved


def around(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Moved]:
    """Return f(z) and z(step) for f's low-dimensional approximation, from all single changes of z."""
    values, parts = single_changes(f, space, z)

    def moved(step: float | Tensor) -> tuple[Tensor, float]:
        return space.argmax(space.augment(perturbed, step * parts)), float(len(z))

    return values, moved


def lazily(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Moved]:
    """Return what `around` returns, for bits and a positive step, evaluating only the flips that can matter.

    Flips count as much as their upper bounds at first. An arg max that uses none but exact flips is the true one, since
    no other z' can be worth more than its bounds say; until it does, the flips it used are evaluated and it is solved
    again.
    """
    plain = f.plain(z)
    linear = 0.0 if f.linear is None else f.linear

    @torch.no_grad()
    def moved(step: float | Tensor) -> tuple[Tensor, float]:
        flips = f.flips(z)
        gains = flips.bounds.clone()

        def solve(chosen: Tensor) -> Tensor:
            parts = space.parts(z[chosen], gains[chosen].movedim(-1, 0))
            tilt = linear.expand(perturbed.shape)[chosen] if isinstance(linear, Tensor) else 0.0
            return space.argmax(perturbed[chosen] + step * (parts + tilt)).to(z.dtype)

        best, known = torch.empty_like(z), torch.zeros_like(z, dtype=torch.bool)
        open_ = torch.ones(z.shape[:-1], dtype=torch.bool, device=z.device)
        solves = 0.0
        while open_.any():
            best[open_] = solve(open_)
            solves += float(open_.sum()) * len(z) / open_.numel()
            used = (best != z) & ~known & open_[..., None]
            gains[used] = flips.gains(used)
            known |= used
            open_ = used.any(-1)
        return best, solves

    return plain + f.linear_part(z), moved
