"""The doubly stochastic matrix `exp(scores + u 1' + 1 v')`: Sinkhorn's problem, by rounds and Newton steps."""

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.solvers.assignment import solve_assignment
from hardmax.tracing import is_eager

ROUNDS = 10  # of Sinkhorn, enough for scores N(0, 1) and n = 100
NEWTON_STEPS = 21
TOLERANCE = 1e-10  # of column sums: no more steps where they are closer to one
_NEARBY = 0.1  # Newton steps start where the rounds ended if column sums are this close to one
_MAX_STEP = 4.0  # in units of log-weights: for longer steps the quadratic model is useless
_RIDGE = 1e-8  # where P is nearly a permutation its Laplacian is nearly zero, and there is nothing to balance


def solve_column_potentials(scores: Float[Tensor, "*B n n"]) -> Float[Tensor, "*B n"]:
    """Return v such that the rows' softmax of `scores + v` has columns that sum to one.

    Sinkhorn's alternating normalisation converges to v, but slowly where the scores are large: for n = 10 and scores of
    size 100, three hundred rounds leave sums of 0.5 where there should be one. So there are only `ROUNDS` of it, each
    $O(n^2)$, and Newton steps, $O(n^3)$, for the examples that are not accurate yet. Where the sums are still far from
    one, these start in the middle of the optimal duals of the assignment problem, where the softmax is already the arg
    max if that is unambiguous. Under `torch.compile` and `torch.func`, where values cannot be read, all examples take
    `NEWTON_STEPS` Newton steps from there.

    Args:
        scores: `[*B, n, n]`, finite, float64.

    Returns:
        `[*B, n]`, no gradient; column sums within 1e-6 of one, mostly 1e-9 (n <= 100, scores up to 1e5).

    Example:
        >>> import torch
        >>> scores = torch.tensor([[3.0, 2.0], [5.0, 0.0]], dtype=torch.float64)
        >>> columns = (scores + solve_column_potentials(scores)).softmax(-1).sum(-2)
        >>> torch.allclose(columns, torch.ones(2, dtype=torch.float64))
        True

    References:
        Sinkhorn, 1964; Brauer, Clason, Lorenz & Wirth, "A Sinkhorn-Newton method for entropic optimal transport", 2017.
    """
    with torch.no_grad():
        scores = scores.detach()
        if not is_eager(scores):
            return _take_newton_steps(scores, _find_central_duals(scores))[0]
        flat = scores.reshape(scores.shape[:-2].numel(), *scores.shape[-2:])
        v, error = _run_rounds(flat)
        nearby = ((error > TOLERANCE) & (error < _NEARBY)).nonzero().squeeze(1)
        if len(nearby):
            v[nearby], error[nearby] = _take_newton_steps(flat[nearby], v[nearby])
        # Not `error > TOLERANCE`: it is NaN where all weights of a column underflow.
        if len(rest := (~(error <= TOLERANCE)).nonzero().squeeze(1)):
            v[rest], _ = _take_newton_steps(flat[rest], _find_central_duals(flat[rest]))
        return v.view(scores.shape[:-1])


def _run_rounds(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return v after rounds of normalisation, and the largest error of its column sums: `[B, n, n] -> [B, n], [B]`."""
    weights = (scores - scores.amax(-1, keepdim=True)).exp_()
    v = columns = scores.new_ones(*scores.shape[:-1], 1)
    for _ in range(ROUNDS):
        v = v / columns
        columns = v * (weights.mT @ (weights @ v).reciprocal_())
    return v.squeeze(-1).log_(), (columns - 1).abs_().amax((-2, -1))


def _take_newton_steps(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return a better v, and the largest error of the column sums before the last step: `[*B, n]` and `[*B]`."""
    can_stop, error = is_eager(scores), scores.new_zeros(scores.shape[:-2])
    for _ in range(NEWTON_STEPS):
        p = _normalise_rows(scores + v[..., None, :])
        missing = 1 - p.sum(-2)
        error = missing.abs().amax(-1)
        if can_stop and (error <= TOLERANCE).all():
            break
        step = torch.linalg.solve(compute_laplacian(p), missing)
        v = v + step * (_MAX_STEP / step.abs().amax(-1, keepdim=True).clamp_min(_MAX_STEP))
        v = v - v.mean(-1, keepdim=True)  # a constant changes nothing, and would grow
    return v, error


def _normalise_rows(logits: Tensor) -> Tensor:
    """Return the softmax of the rows; for short rows `Tensor.softmax` takes three times as long."""
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def compute_laplacian(p: Float[Tensor, "*B n n"]) -> Float[Tensor, "*B n n"]:
    """Return the derivative of the column sums of p for v, `diag(p' 1) - p' p` for p with unit rows, regularised.

    The diagonal is summed from the off-diagonal: the difference would be pure rounding where p is nearly hard.
    """
    off = -(p.mT @ p)
    off = off - torch.diag_embed(off.diagonal(dim1=-2, dim2=-1))
    ridge = torch.full_like(off[..., 0], _RIDGE)
    return off + torch.diag_embed(ridge - off.sum(-1))


def _find_central_duals(scores: Tensor) -> Tensor:
    """Return the v of optimal duals, `scores_ij <= -u_i - v_j` with equality on the best assignment, in the interior.

    With the columns put in the order of the assignment, the condition is `v_i <= w_ij + v_j`, where w_ij is the loss of
    row i at the column of row j. The distances d(i, r) to any node r satisfy it (no cycle is negative, or the
    assignment were not the best), and so does their mean over all r, in which no other inequality is tight
    unless another assignment is equally good.
    """
    columns = solve_assignment(scores)
    sorted_scores = scores.gather(-1, columns[..., None, :].expand(scores.shape))
    distance = sorted_scores.diagonal(dim1=-2, dim2=-1)[..., None] - sorted_scores
    for k in range(scores.shape[-1]):  # Floyd-Warshall
        distance = torch.minimum(distance, distance[..., :, k : k + 1] + distance[..., k : k + 1, :])
    return torch.zeros_like(scores[..., 0]).scatter(-1, columns, -distance.mean(-1))
