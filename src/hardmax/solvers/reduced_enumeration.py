"""Persistency first, then every code of the bits it leaves: exact for any sign, in torch alone."""

import torch
from torch import Tensor

from hardmax.solvers.enumeration import enumerate_pairwise
from hardmax.solvers.persistency import persistent

SIZES = (6, 9, 11, 13, 15, 17, 19, 20)  # examples are enumerated together if they have about as many bits left


def enumerate_reduced(unary: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best z `[B, n]`, and in which examples it is proved: those with at most 20 bits left `[B]`.

    Args:
        unary: `[B, n]`, float64.
        weights: `[B, n, n]`, float64, symmetric, zero on the diagonal, any sign.
    """
    least, greatest = persistent(unary, weights)
    z, free = least.clone(), least != greatest
    left = free.sum(1)
    field = unary + (weights @ least[..., None]).squeeze(-1)
    free_first = free.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    fewer = 0
    for size in SIZES:
        chosen = ((left > fewer) & (left <= size)).nonzero().squeeze(1)
        fewer, size = size, min(size, unary.shape[1])
        if len(chosen) == 0:
            continue
        bits = free_first[chosen, :size]
        real = free[chosen].gather(1, bits)
        scores = torch.where(real, field[chosen].gather(1, bits), -1.0)  # a bit that only fills up stays zero
        among = weights[chosen[:, None, None], bits[:, :, None], bits[:, None, :]]
        among = torch.where(real[:, :, None] & real[:, None, :], among, 0.0)
        best = enumerate_pairwise(scores, among).z
        z[chosen[:, None], bits] = torch.where(real, best, z[chosen[:, None], bits])
    return z, left <= SIZES[-1]
