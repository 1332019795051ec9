"""Shortest paths in graphs with cycles and costs of at least zero, for a batch of costs on the same graph."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.tracing import has_numba

LOWEST = -1e300  # sums of costs must be finite


@final
@dataclass(frozen=True, eq=False)
class Arcs:
    """The arcs of a directed graph, by the node that they leave.

    Attributes:
        starts: `[N + 1]`, where the arcs out of each node begin.
        heads: `[A]`, the node that each arc leads to.
        prices: `[A]`, the index of the score of each arc; arcs may share one.
    """

    starts: Tensor
    heads: Tensor
    prices: Tensor

    @classmethod
    def from_triples(cls, nodes: int, triples: list[tuple[int, int, int]]) -> "Arcs":
        """Return the arcs of triples (from, to, index of the score)."""
        tails, heads, prices = torch.tensor(sorted(triples), dtype=torch.int64, device="cpu").unbind(1)
        counts = torch.zeros(nodes + 1, dtype=torch.int64, device="cpu").index_add(0, tails + 1, torch.ones_like(tails))
        return cls(counts.cumsum(0), heads.contiguous(), prices.contiguous())


def find_shortest_paths(scores: Float[Tensor, "*B D"], arcs: Arcs, source: int, target: int) -> Float[Tensor, "*B D"]:
    """Return which scores the path with the largest sum of scores uses, given that no score is above zero.

    On the CPU with Numba this is Dijkstra's algorithm with a binary heap, one example after the other in several
    threads; else the Bellman-Ford algorithm in torch, for all examples at once, on the device of the scores. Both add
    costs in float64 and return the same path: of equally good paths, one with the fewest arcs; of these, the one whose
    last arc leaves the node with the smallest number, and so on backwards.

    Args:
        scores: `[*B, D]`, minus the costs.
        arcs: the graph.
        source: first node of the path.
        target: last node of the path.

    Returns:
        `[*B, D]`, zeros and ones in the dtype of scores.

    Raises:
        ArgumentError: a score above zero, below -1e300, or NaN.

    Example:
        >>> import torch
        >>> arcs = Arcs.from_triples(3, [(0, 1, 0), (1, 0, 0), (1, 2, 1), (2, 1, 1), (0, 2, 2)])
        >>> find_shortest_paths(-torch.tensor([1.0, 1.0, 3.0]), arcs, 0, 2)
        tensor([1., 1., 0.])

    References:
        Dijkstra, 1959; Bellman, 1958.
    """
    return _solve(scores.detach(), arcs.starts, arcs.heads, arcs.prices, source, target)


@torch.library.custom_op("hardmax::shortest_paths", mutates_args=())
def _solve(scores: Tensor, starts: Tensor, heads: Tensor, prices: Tensor, source: int, target: int) -> Tensor:
    flat = scores.reshape(scores.shape[:-1].numel(), scores.shape[-1])
    is_valid = (flat <= 0) & (flat >= LOWEST)
    if not is_valid.all():
        row, column = (~is_valid).nonzero()[0].tolist()
        raise ArgumentError(
            f"scores of paths in a graph with cycles are minus costs, from {LOWEST:g} to zero, got "
            f"{flat[row, column].item():.4g} at index {column} of example {row}; pass them through -softplus"
        )
    flat = flat.to(torch.promote_types(flat.dtype, torch.float32))
    if scores.device.type == "cpu" and has_numba():
        from hardmax.solvers._compiled_dijkstra import run_dijkstra

        z = run_dijkstra(flat, starts, heads, prices, source, target)
    else:
        z = _run_bellman_ford(flat, starts, heads, prices, source, target)
    return z.to(scores.dtype).view(scores.shape)


@_solve.register_fake
def _(scores, starts, heads, prices, source, target):
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


@_solve.register_vmap
def _(info, in_dims, scores, starts, heads, prices, source, target):
    assert in_dims[0] is not None  # the graph is a constant
    return _solve(scores.movedim(in_dims[0], 0), starts, heads, prices, source, target), 0


def _run_bellman_ford(
    scores: Tensor, starts: Tensor, heads: Tensor, prices: Tensor, source: int, target: int
) -> Tensor:
    """Shorten all distances along all arcs at once, until none changes: `[B, D] -> [B, D]`."""
    device, arcs, nodes = scores.device, len(heads), len(starts) - 1
    tails = torch.arange(nodes, device=starts.device).repeat_interleave(starts.diff())
    # One more arc, number A: it fills the lists of arcs into nodes, and leads back to the source.
    tails = torch.cat([tails, tails.new_tensor([source])]).to(device)
    prices = torch.cat([prices, prices.new_tensor([scores.shape[1]])]).to(device)
    into = _list_arcs_into(heads.to(device), nodes)
    costs = -scores.double()[:, prices[into].clamp_max(scores.shape[1] - 1)]
    distances = torch.full((len(scores), nodes), torch.inf, dtype=torch.float64, device=device)
    distances[:, source] = 0
    arrival = torch.full_like(distances, arcs, dtype=torch.int64)
    while True:
        sums = (distances[:, tails[into]] + costs).masked_fill(into == arcs, torch.inf)
        shortest, column = sums.min(-1)
        is_shorter = shortest < distances
        if not is_shorter.any():
            break
        distances = torch.where(is_shorter, shortest, distances)
        arrival = torch.where(is_shorter, into[torch.arange(nodes, device=device), column], arrival)
    z = scores.new_zeros(len(scores), scores.shape[1] + 1)
    node = torch.full((len(scores), 1), target, device=device)
    while (node != source).any():
        arc = arrival.gather(1, node)
        z.scatter_(1, prices[arc], 1.0)
        node = tails[arc]
    return z[:, :-1]


def _list_arcs_into(heads: Tensor, nodes: int) -> Tensor:
    """Return the arcs that lead to each node, in ascending order and filled up by A: `[N, largest number]`."""
    counts = heads.bincount(minlength=nodes)
    order = heads.argsort(stable=True)
    rank = torch.arange(len(heads), device=heads.device) - (counts.cumsum(0) - counts)[heads[order]]
    table = torch.full((nodes, int(counts.max())), len(heads), device=heads.device)
    table[heads[order], rank] = order
    return table
