"""Min-cut of a batch in pure torch, all examples at once: used where Numba is not installed."""

import torch
from torch import Tensor

from hardmax.solvers.enumeration import find_persistent_bits
from hardmax.solvers.solution import Solution, certify_solution

SEARCH_EVERY = 8  # rounds between exact distances


def solve_push_relabel(unary: Tensor, weights: Tensor) -> Solution:
    """Return the best z for couplings >= 0 by synchronous push-relabel on dense graphs.

    `w z_i z_j = w (z_i + z_j) / 2 - w |z_i - z_j| / 2`, so with fields `c = a + W 1 / 2` the best z is a minimum cut
    between the bits with c > 0, which hold excess, and those with c < 0, which drain it. In each round every node with
    excess pushes along its arcs to nodes one step nearer to a drain, all nodes of all examples at once; then distances
    are corrected. At the end the remaining excess cannot reach a drain, and the nodes that cannot reach one are the
    bits equal to 1.

    Args:
        unary: `[B, n]`, float64.
        weights: `[B, n, n]`, float64, symmetric, zero on the diagonal, none negative.

    Returns:
        A solution whose bound comes from the flow.

    References:
        A. Goldberg, R. Tarjan (1988), A new approach to the maximum-flow problem, section 5.
    """
    least, greatest = find_persistent_bits(unary, weights)
    z = least.clone()
    undecided = (least != greatest).any(1).nonzero().squeeze(1)  # examples that persistency has not solved
    flow_bound = None
    if len(undecided):
        z[undecided], flow_bound = _compute_min_cut(unary[undecided], weights[undecided])
    value = (z * (unary + (weights @ z[..., None]).squeeze(-1) / 2)).sum(-1)
    bound = value.clone()
    if flow_bound is not None:
        bound[undecided] = flow_bound
    return certify_solution(z, value, bound, unary.abs().sum(1) + weights.abs().sum((1, 2)) / 2, "push-relabel")


def _compute_min_cut(unary: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ones `[B, n]` and the bound `[B]` of the maximum flow."""
    n = unary.shape[1]
    unreachable = n + 1
    residual = weights / 2
    field = unary + residual.sum(-1)
    excess, drain = field.clamp_min(0), (-field).clamp_min(0)
    bound = excess.sum(1) - drain.sum(1)  # minus the final flow into the drains, added at the end
    distance = _compute_distances(residual, drain)
    # n^2 searches suffice: between two of them every node that keeps excess moves farther away.
    for round_index in range(SEARCH_EVERY * n * n + 1):
        if round_index and round_index % SEARCH_EVERY == 0:
            distance = _compute_distances(residual, drain)
        active = (excess > 0) & (distance < unreachable)
        if not active.any():
            break
        out = torch.where(active & (distance == 1), torch.minimum(excess, drain), 0.0)
        excess, drain = excess - out, drain - out
        nearer = distance[:, :, None] == distance[:, None, :] + 1
        room = torch.where(nearer & active[:, :, None], residual, 0.0)
        filled = room.cumsum(2)
        push = torch.minimum(room, (excess[:, :, None] - (filled - room)).clamp_min(0))
        # If there is enough room, push exactly all of the excess, regardless of the rounding of the sums.
        kept = torch.where(filled[:, :, -1] >= excess, 0.0, excess - filled[:, :, -1])
        excess = kept + push.sum(1)
        residual = residual - push + push.mT
        lowest = torch.where(residual > 0, distance[:, None, :], unreachable).amin(2) + 1
        lowest = torch.where(drain > 0, 1, lowest).clamp_max(unreachable)
        distance = torch.where((excess > 0) & (distance < unreachable), torch.maximum(distance, lowest), distance)
    distance = _compute_distances(residual, drain)
    return (distance >= unreachable).to(unary.dtype), bound + drain.sum(1)


def _compute_distances(residual: Tensor, drain: Tensor) -> Tensor:
    """Return the number of arcs from each node to the nearest drain, plus one: `[B, n]`; n + 1 if there is none."""
    n = drain.shape[1]
    distance = torch.where(drain > 0, 1, n + 1)
    usable = residual > 0
    for far in range(1, n + 1):
        reached = (usable & (distance == far)[:, None, :]).any(2) & (distance > n)
        if not reached.any():
            break
        distance = torch.where(reached, far + 1, distance)
    return distance
