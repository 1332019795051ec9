"""Climb by flipping single bits, all examples at once and many bits at a time."""

import torch
from torch import Tensor

ROUNDS = 1000


def worth(z: Tensor, unary: Tensor, couplings: Tensor, edges: Tensor) -> Tensor:
    """Return h(z): z and unary `[B, n]`, couplings `[B, E]` and edges `[E, 2]` `-> [B]`."""
    return (unary * z).sum(1) + (couplings * z[:, edges[:, 0]] * z[:, edges[:, 1]]).sum(1)


def climb(z: Tensor, unary: Tensor, couplings: Tensor, edges: Tensor) -> Tensor:
    """Flip bits that gain until none does: `[B, n] -> [B, n]`, worth at least as much.

    A bit is flipped if its gain is positive and larger than those of all its neighbours (of equal ones, the first).
    No two flipped bits are neighbours then, so their gains add up and every round climbs.
    """
    n = unary.shape[1]
    left, right = edges[:, 0], edges[:, 1]
    first = torch.arange(n, 0, -1).expand_as(unary)
    ends = torch.cat([left, right]).expand(len(unary), -1)
    for _ in range(ROUNDS):
        field = unary.index_add(1, left, couplings * z[:, right]).index_add(1, right, couplings * z[:, left])
        gain = ((1 - 2 * z) * field).clamp_min(0)
        around = torch.cat([gain[:, right], gain[:, left]], 1)
        highest = gain.scatter_reduce(1, ends, around, "amax")
        top = (gain > 0) & (gain == highest)
        # among neighbours with equal gains the first goes
        rank = torch.where(top, first, 0)
        around = torch.cat([rank[:, right], rank[:, left]], 1)
        chosen = top & (rank == rank.scatter_reduce(1, ends, around, "amax"))
        if not chosen.any():  # the usual end, and the end where scores are NaN
            break
        z = torch.where(chosen, 1 - z, z)
    return z
