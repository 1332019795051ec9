"""Potts smoothing: a penalty on neighbours with different labels, minimised by alpha-expansion with min-cuts.

`E(s) = sum_j cost_j(s_j) + sum_{neighbours i, j} w_ij [s_i != s_j]`. In one expansion move every voxel keeps its label
or takes a given one, alpha. Finding the best of these 2^N choices is a pairwise problem of bits with couplings >= 0,
which `hardmax.solvers` solves exactly. Moves cycle through all labels until none lowers E. For the Potts model, the
energy of such a local minimum is at most twice the lowest energy, and usually within a percent of it.
"""

import logging

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError
from hardmax.solvers import solve_pairwise

logger = logging.getLogger(__name__)


def smooth_labels(
    cost: Float[Tensor, "M *S"],
    strength: float,
    *,
    mask: Bool[Tensor, "*S"] | None = None,
    spacing: tuple[float, ...] | None = None,
    start: Int64[Tensor, "*S"] | None = None,
    sweeps: int = 5,
) -> Int64[Tensor, "*S"]:
    r"""Return labels of low Potts energy on a grid where each voxel has two neighbours along every axis.

    The energy never rises from move to move. A voxel whose cheapest label is better than the next by more than the sum
    of the weights of its edges is fixed in advance. That is exact; the open voxels that remain are a thin shell at the
    boundaries.

    Args:
        cost: `[M, *S]`, cost of every label, usually minus the log of its posterior; finite.
        strength: penalty for two neighbours with different labels, in nats, >= 0.
        mask: `[*S]`, voxels to label; all others get label 0 and have no edges. None means all voxels.
        spacing: voxel size along each axis; the penalty is then `strength * (smallest spacing / spacing)`, so that it
            is weaker across thick slices. None means cubic voxels.
        start: `[*S]`, initial labels; None means the cheapest label of each voxel.
        sweeps: maximum number of sweeps over all labels.

    Returns:
        `[*S]`, the labels.

    Raises:
        ArgumentError: a negative strength, or costs that are not finite; `ShapeError`: a mask or start of
            another shape.

    Example:
        >>> import torch
        >>> cost = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.4, 1.0]])
        >>> smooth_labels(cost, 0.1), smooth_labels(cost, 0.5)
        (tensor([0, 1, 0]), tensor([0, 0, 0]))

    References:
        Boykov, Veksler & Zabih, "Fast approximate energy minimization via graph cuts", 2001.
    """
    shape = cost.shape[1:]
    _check(cost, strength, mask, spacing, start)
    inside = torch.ones(shape, dtype=torch.bool) if mask is None else mask
    edges, weights = find_grid_edges(inside, spacing)
    weights = strength * weights
    table = cost[:, inside]
    labels, is_open = find_open_voxels(table, edges, weights)
    if start is not None:
        labels = torch.where(is_open, start[inside], labels)
    reduced = reduce_problem(table, labels, is_open, edges, weights)
    labels[is_open] = _make_sweeps(*reduced, labels[is_open], sweeps)
    out = torch.zeros(shape, dtype=torch.int64)
    out[inside] = labels
    return out


def _make_sweeps(cost: Tensor, edges: Tensor, weights: Tensor, labels: Tensor, sweeps: int) -> Tensor:
    """Try an expansion move for one label after another, until none lowers the energy."""
    now, idle, moves = potts_energy(cost, labels, edges, weights), 0, 0
    while idle < len(cost) and moves < sweeps * len(cost):
        proposal = expand_label(cost, labels, edges, weights, moves % len(cost))
        after = potts_energy(cost, proposal, edges, weights)
        moves += 1
        # Without Numba a large problem is solved only approximately: a move that does not lower the energy is rejected.
        if after < now - 1e-12 * abs(now):
            labels, now, idle = proposal, after, 0
        else:
            idle += 1
    logger.info("alpha-expansion: %d open voxels, energy %.6g after %d moves", len(labels), now, moves)
    return labels


def find_open_voxels(
    cost: Float[Tensor, "M N"], edges: Int64[Tensor, "E 2"], weights: Float[Tensor, " E"]
) -> tuple[Int64[Tensor, " N"], Bool[Tensor, " N"]]:
    """Return the cheapest label of every voxel, and whether a voxel is open, that is, another label may be better.

    Where the second cheapest label costs more by at least the sum of the weights of a voxel's edges, no neighbours can
    make up the difference: every best labelling, and every best move, has the cheapest label there.
    """
    total = torch.zeros(cost.shape[1], dtype=torch.float64).index_add_(0, edges.flatten(), weights.repeat_interleave(2))
    if len(cost) == 1:
        return torch.zeros(cost.shape[1], dtype=torch.int64), torch.zeros(cost.shape[1], dtype=torch.bool)
    cheapest = cost.topk(2, dim=0, largest=False)
    return cheapest.indices[0].clone(), (cheapest.values[1] - cheapest.values[0]).double() < total


def reduce_problem(
    cost: Float[Tensor, "M N"],
    labels: Int64[Tensor, " N"],
    is_open: Bool[Tensor, " N"],
    edges: Int64[Tensor, "E 2"],
    weights: Float[Tensor, " E"],
) -> tuple[Float[Tensor, "M n"], Int64[Tensor, "e 2"], Float[Tensor, " e"]]:
    """Return the costs, edges and weights of the open voxels only; edges to fixed voxels become part of the costs."""
    number = torch.full_like(labels, -1)
    number[is_open] = torch.arange(int(is_open.sum()))
    table = cost[:, is_open].double()
    open_ends = is_open[edges]
    for side in (0, 1):
        border = open_ends[:, side] & ~open_ends[:, 1 - side]
        voxels, fixed, weight = number[edges[border, side]], labels[edges[border, 1 - side]], weights[border]
        # w [m != fixed label] is w for every label but one.
        table += torch.zeros(table.shape[1], dtype=torch.float64).index_add_(0, voxels, weight)
        table.index_put_((fixed, voxels), -weight, accumulate=True)
    both = open_ends.all(1)
    return table, number[edges[both]], weights[both]


def find_grid_edges(
    mask: Bool[Tensor, "*S"], spacing: tuple[float, ...] | None = None
) -> tuple[Int64[Tensor, "E 2"], Float[Tensor, " E"]]:
    """Return the pairs of neighbours inside a mask, as indices of its voxels, and the weight of each pair.

    Example:
        >>> import torch
        >>> find_grid_edges(torch.tensor([[True, True], [False, True]]))[0]
        tensor([[1, 2],
                [0, 1]])
    """
    number = torch.full(mask.shape, -1, dtype=torch.int64)
    number[mask] = torch.arange(int(mask.sum()))
    pairs, weights = [], []
    for axis in range(mask.dim()):
        length = mask.shape[axis]
        ends = torch.stack([number.narrow(axis, 0, length - 1), number.narrow(axis, 1, length - 1)], -1).view(-1, 2)
        ends = ends[(ends >= 0).all(1)]
        pairs.append(ends)
        weight = 1.0 if spacing is None else min(spacing) / spacing[axis]
        weights.append(torch.full((len(ends),), weight, dtype=torch.float64))
    return torch.cat(pairs), torch.cat(weights)


def potts_energy(
    cost: Float[Tensor, "M N"], labels: Int64[Tensor, " N"], edges: Int64[Tensor, "E 2"], weights: Float[Tensor, " E"]
) -> float:
    """Return the cost of labels, plus the weights of the edges whose ends have different labels."""
    ends = labels[edges]
    return float(cost.gather(0, labels[None]).sum() + weights[ends[:, 0] != ends[:, 1]].sum())


def expand_label(
    cost: Float[Tensor, "M N"],
    labels: Int64[Tensor, " N"],
    edges: Int64[Tensor, "E 2"],
    weights: Float[Tensor, " E"],
    alpha: int,
) -> Int64[Tensor, " N"]:
    r"""Return the best labels among those in which every voxel keeps its label or takes alpha.

    With t = 1 for a voxel that takes alpha, and a, b the current labels of neighbours i, j, an edge costs `E(0, 0) = w
    [a != b]`, `E(0, 1) = w [a != alpha]`, `E(1, 0) = w [b != alpha]`, `E(1, 1) = 0`, so the score to maximise has the
    coupling `E(0, 1) + E(1, 0) - E(0, 0) >= 0` for `t_i t_j` and `E(0, 0) - E(1, 0)` for `t_i`.

    Args:
        cost: `[M, N]`, float64.
        labels: `[N]`, current labels.
        edges: `[E, 2]`.
        weights: `[E]`, w >= 0.
        alpha: the label of the move.
    """
    gain = cost.gather(0, labels[None])[0] - cost[alpha]
    other = labels != alpha
    # As in `find_open_voxels`: neighbours at alpha contribute at most the sum of the weights of a voxel's edges.
    total = torch.zeros_like(gain).index_add_(0, edges.flatten(), weights.repeat_interleave(2))
    free = other & (gain + total > 0)
    has_free_end = free[edges].any(1)
    kept, weights = edges[has_free_end], weights[has_free_end]
    ends, takes = labels[kept], free[kept]
    unequal = weights * (ends[:, 0] != ends[:, 1])
    first, second = weights * (ends[:, 0] != alpha), weights * (ends[:, 1] != alpha)  # E(0, 1) and E(1, 0)
    unary = gain.index_add(0, kept[:, 0], unequal - second).index_add(0, kept[:, 1], unequal - first)
    both = takes.all(1)
    number = torch.full_like(labels, -1)
    number[free] = torch.arange(int(free.sum()))
    couplings = (first + second - unequal)[both]
    solution = solve_pairwise(unary[free], couplings, number[kept[both]], supermodular=True)
    out = labels.clone()
    out[free.nonzero().squeeze(1)[solution.z > 0]] = alpha
    return out


def _check(
    cost: Tensor, strength: float, mask: Tensor | None, spacing: tuple[float, ...] | None, start: Tensor | None
) -> None:
    shape = cost.shape[1:]
    if not strength >= 0:
        raise ArgumentError(f"strength must not be negative, got {strength}; 0 is no smoothing")
    for name, tensor in (("mask", mask), ("start", start)):
        if tensor is not None and tensor.shape != shape:
            raise ShapeError(f"{name} has shape {list(tensor.shape)}, but the grid of the costs is {list(shape)}")
    if spacing is not None and (len(spacing) != len(shape) or min(spacing) <= 0):
        raise ArgumentError(f"spacing must be {len(shape)} positive numbers, got {spacing}")
    if not cost.isfinite().all():
        raise ArgumentError("costs must be finite: floor the posterior before its logarithm")
