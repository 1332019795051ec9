"""Maximum spanning tree of a complete graph, by Prim's algorithm."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def find_maximum_spanning_tree(weights: Float[Tensor, "*B n n"]) -> Int64[Tensor, "*B n"]:
    """Return a tree of the largest total weight, as the neighbour through which each node joined it.

    Prim's algorithm: n - 1 rounds, in each of which the outside node with the heaviest edge to the tree joins. Dense
    and batched, O(n^2) for every example, on any device.

    Args:
        weights: `[*B, n, n]`, symmetric, finite; the diagonal is ignored.

    Returns:
        `[*B, n]`: the tree has the edges `(i, neighbour_i)` for i >= 1; entry 0 is 0.

    Example:
        >>> import torch
        >>> find_maximum_spanning_tree(torch.tensor([[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]))
        tensor([0, 2, 0])

    References:
        Prim, 1957.
    """
    weights = weights.detach()
    nodes = torch.arange(weights.shape[-1], device=weights.device)
    key, neighbour = weights[..., 0, :], torch.zeros_like(weights[..., 0, :], dtype=torch.int64)
    joined = (nodes == 0).expand(key.shape)
    for _ in range(len(nodes) - 1):
        node = key.masked_fill(joined, -torch.inf).argmax(-1, keepdim=True)
        joined = joined | (nodes == node)
        row = weights.gather(-2, node[..., None].expand(*node.shape, len(nodes))).squeeze(-2)
        closer = (row > key) & ~joined
        key, neighbour = torch.where(closer, row, key), torch.where(closer, node, neighbour)
    return neighbour
