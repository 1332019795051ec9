"""Potts smoothing: a penalty on neighbours with different labels, minimised by alpha-expansion with min-cuts.

`E(s) = sum_j cost_j(s_j) + sum_{neighbours i, j} w_ij [s_i != s_j]`. One expansion move lets every voxel keep its label
or take a given one, alpha. The best of these 2^N choices is a pairwise problem of bits with couplings >= 0, which
`hardmax.solvers` solves exactly; moves with every alpha in turn continue until none lowers E. A local minimum with
respect to these moves is at most twice the best energy (for the Potts model), usually within a percent.
"""

import logging

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError
from hardmax.solvers import solve_pairwise

logger = logging.getLogger(__name__)


def smooth(
    cost: Float[Tensor, "M *S"],
    strength: float,
    *,
    mask: Bool[Tensor, "*S"] | None = None,
    spacing: tuple[float, ...] | None = None,
    start: Int64[Tensor, "*S"] | None = None,
    sweeps: int = 5,
) -> Int64[Tensor, "*S"]:
    r"""Return labels of low Potts energy on a grid where each voxel has two neighbours along every axis.

    The energy never rises from move to move. Voxels whose cheapest label is better than the next by more than the
    sum of their bonds are settled beforehand; that is exact, and the open voxels are a thin shell at the boundaries.

    Args:
        cost: `[M, *S]`, cost of every label, usually minus the log of its posterior; finite.
        strength: strength of the bond between two neighbours, in nats, >= 0.
        mask: `[*S]`, voxels to label; the others are 0 and have no bonds. None is everywhere.
        spacing: voxel size along each axis; bonds are then `strength * (smallest spacing / spacing)`, so that bonds
            across thick slices are weaker. None is cubes.
        start: `[*S]`, initial labels; None is the cheapest of each voxel.
        sweeps: maximal number of sweeps over all labels.

    Returns:
        `[*S]`.

    Raises:
        ArgumentError: a negative strength, or costs that are not finite; `ShapeError`: a mask or start of
            another shape.

    Example:
        >>> import torch
        >>> cost = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.4, 1.0]])
        >>> smooth(cost, 0.1), smooth(cost, 0.5)
        (tensor([0, 1, 0]), tensor([0, 0, 0]))

    References:
        Boykov, Veksler & Zabih, "Fast approximate energy minimization via graph cuts", 2001.
    """
    shape = cost.shape[1:]
    _check(cost, strength, mask, spacing, start)
    inside = torch.ones(shape, dtype=torch.bool) if mask is None else mask
    edges, bonds = grid_edges(inside, spacing)
    table = cost[:, inside]
    labels, open_ = settle_voxels(table, edges, strength * bonds)
    if start is not None:
        labels = torch.where(open_, start[inside], labels)
    small = reduce_problem(table, labels, open_, edges, strength * bonds)
    labels[open_] = _sweep(*small, labels[open_], sweeps)
    out = torch.zeros(shape, dtype=torch.int64)
    out[inside] = labels
    return out


def _sweep(cost: Tensor, edges: Tensor, bonds: Tensor, labels: Tensor, sweeps: int) -> Tensor:
    """Try an expansion move for every label in turn until none lowers the energy."""
    now, idle, moves = energy(cost, labels, edges, bonds), 0, 0
    while idle < len(cost) and moves < sweeps * len(cost):
        proposal = expand(cost, labels, edges, bonds, moves % len(cost))
        after = energy(cost, proposal, edges, bonds)
        moves += 1
        # Without Numba a large problem is solved only approximately: a move that does not lower the energy is rejected.
        if after < now - 1e-12 * abs(now):
            labels, now, idle = proposal, after, 0
        else:
            idle += 1
    logger.info("alpha-expansion: %d open voxels, energy %.6g after %d moves", len(labels), now, moves)
    return labels


def settle_voxels(
    cost: Float[Tensor, "M N"], edges: Int64[Tensor, "E 2"], bonds: Float[Tensor, " E"]
) -> tuple[Int64[Tensor, " N"], Bool[Tensor, " N"]]:
    """Return the cheapest label of every voxel, and the open voxels, where another label may be better.

    Where the second cheapest label costs more by at least the sum of the bonds of a voxel, no neighbours can make up
    the difference: every best labelling, and every best move, has the cheapest there.
    """
    most = torch.zeros(cost.shape[1], dtype=torch.float64).index_add_(0, edges.flatten(), bonds.repeat_interleave(2))
    if len(cost) == 1:
        return torch.zeros(cost.shape[1], dtype=torch.int64), torch.zeros(cost.shape[1], dtype=torch.bool)
    two = cost.topk(2, dim=0, largest=False)
    return two.indices[0].clone(), (two.values[1] - two.values[0]).double() < most


def reduce_problem(
    cost: Float[Tensor, "M N"],
    labels: Int64[Tensor, " N"],
    open_: Bool[Tensor, " N"],
    edges: Int64[Tensor, "E 2"],
    bonds: Float[Tensor, " E"],
) -> tuple[Float[Tensor, "M n"], Int64[Tensor, "e 2"], Float[Tensor, " e"]]:
    """Return the problem of the open voxels alone; bonds to settled ones become part of the costs."""
    number = torch.full_like(labels, -1)
    number[open_] = torch.arange(int(open_.sum()))
    table = cost[:, open_].double()
    touched = open_[edges]
    for side in (0, 1):
        border = touched[:, side] & ~touched[:, 1 - side]
        here, there, weight = number[edges[border, side]], labels[edges[border, 1 - side]], bonds[border]
        # w [m != there] is w for every label but one.
        table += torch.zeros(table.shape[1], dtype=torch.float64).index_add_(0, here, weight)
        table.index_put_((there, here), -weight, accumulate=True)
    both = touched.all(1)
    return table, number[edges[both]], bonds[both]


def grid_edges(
    mask: Bool[Tensor, "*S"], spacing: tuple[float, ...] | None = None
) -> tuple[Int64[Tensor, "E 2"], Float[Tensor, " E"]]:
    """Return the pairs of neighbours inside a mask, as indices of its voxels in order, and the weight of each.

    Example:
        >>> import torch
        >>> grid_edges(torch.tensor([[True, True], [False, True]]))[0]
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


def energy(
    cost: Float[Tensor, "M N"], labels: Int64[Tensor, " N"], edges: Int64[Tensor, "E 2"], bonds: Float[Tensor, " E"]
) -> float:
    """Return the cost of labels plus that of the bonds they cut."""
    ends = labels[edges]
    return float(cost.gather(0, labels[None]).sum() + bonds[ends[:, 0] != ends[:, 1]].sum())


def expand(
    cost: Float[Tensor, "M N"],
    labels: Int64[Tensor, " N"],
    edges: Int64[Tensor, "E 2"],
    bonds: Float[Tensor, " E"],
    alpha: int,
) -> Int64[Tensor, " N"]:
    r"""Return the best labels among those in which every voxel keeps its label or takes alpha.

    With t = 1 for a voxel that takes alpha, and a, b the current labels of neighbours i, j, a bond costs `E(0, 0) = w
    [a != b]`, `E(0, 1) = w [a != alpha]`, `E(1, 0) = w [b != alpha]`, `E(1, 1) = 0`, so the score to maximise has the
    coupling `E(0, 1) + E(1, 0) - E(0, 0) >= 0` for `t_i t_j` and `E(0, 0) - E(1, 0)` for `t_i`.

    Args:
        cost: `[M, N]`, float64.
        labels: `[N]`, current labels.
        edges: `[E, 2]`.
        bonds: `[E]`, w >= 0.
        alpha: the label of the move.
    """
    gain = cost.gather(0, labels[None])[0] - cost[alpha]
    other = labels != alpha
    # As in `settle_voxels`: neighbours at alpha contribute at most the sum of the bonds of a voxel.
    most = torch.zeros_like(gain).index_add_(0, edges.flatten(), bonds.repeat_interleave(2))
    free = other & (gain + most > 0)
    touched = free[edges]
    kept, bonds = edges[touched.any(1)], bonds[touched.any(1)]
    ends, takes = labels[kept], free[kept]
    unequal = bonds * (ends[:, 0] != ends[:, 1])
    first, second = bonds * (ends[:, 0] != alpha), bonds * (ends[:, 1] != alpha)  # E(0, 1) and E(1, 0)
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
