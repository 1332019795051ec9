"""Assignment problem: a different column for every row, with the largest sum of scores."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.errors import ArgumentError


def solve_assignment(scores: Float[Tensor, "*B n n"]) -> Int64[Tensor, "*B n"]:
    """Return the columns `s(0), ..., s(n - 1)` of the permutation s with the largest `sum_i scores[i, s(i)]`.

    Solved by scipy (a shortest augmenting path algorithm, O(n^3)) on the CPU, one example after the other: the batch
    moves there and back once.

    Args:
        scores: `[*B, n, n]`, finite; on any device.

    Returns:
        `[*B, n]`, on the device of scores.

    Raises:
        ArgumentError: scores are not finite.

    Example:
        >>> import torch
        >>> solve_assignment(torch.tensor([[1.0, 5.0], [4.0, 5.0]]))
        tensor([1, 0])

    References:
        Crouse, "On implementing 2D rectangular assignment algorithms", 2016.
    """
    return _run_scipy(scores.detach())


@torch.library.custom_op("hardmax::assignment", mutates_args=())
def _run_scipy(scores: Tensor) -> Tensor:
    from scipy.optimize import linear_sum_assignment  # here, since the import is slow

    flat = scores.detach().to("cpu", torch.float64).flatten(0, -3) if scores.dim() > 2 else scores.double().cpu()[None]
    if not flat.isfinite().all():
        raise ArgumentError("scores of an assignment must be finite, got NaN or inf; look for a diverged encoder")
    columns = torch.empty(flat.shape[:-1], dtype=torch.int64)
    for example, row in zip(flat.numpy(), columns.numpy(), strict=True):
        row[:] = linear_sum_assignment(example, maximize=True)[1]
    return columns.to(scores.device).view(scores.shape[:-1])


@_run_scipy.register_fake
def _(scores: Tensor) -> Tensor:
    return scores.new_empty(scores.shape[:-1], dtype=torch.int64)


@_run_scipy.register_vmap
def _(info, in_dims: tuple[int | None], scores: Tensor) -> tuple[Tensor, int]:
    (dim,) = in_dims
    assert dim is not None
    return _run_scipy(scores.movedim(dim, 0)), 0
