"""How good are codes? What pairs are worth, how bits are used, and how many of the nearest are of the same class."""

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt64
from torch import Tensor

from hardmax.metrics.retrieval import precision_of_codes
from hardmax.models import HashEncoder
from hardmax.search.codes import pack

NEAREST = 100  # of which precision is the share that is right
_AT_ONCE = 1000


@torch.no_grad()
def codes_of(model: HashEncoder, pictures: Float[Tensor, "N ..."]) -> Float[Tensor, "N n"]:
    """Return the bits of pictures, of a model in use, whatever mode it is in."""
    training = model.training
    model.eval()
    try:
        return torch.cat([model.codes(some) for some in pictures.split(_AT_ONCE)])
    finally:
        model.train(training)


def packed(codes: Float[Tensor, "N n"]) -> UInt64[np.ndarray, "N words"]:
    """Return codes as words."""
    return pack(codes.bool().cpu().numpy())


def use_of_bits(codes: Float[Tensor, "N n"]) -> dict[str, float]:
    """Return how well codes use their bits.

    `balance` is the mean variance of a bit, 1 where every bit is one for half of the pictures; `correlation` the mean
    absolute correlation of two bits, 0 where each says something else. A bit that is always the same has none.
    """
    signs = 2 * codes.double() - 1
    variances = 1 - signs.mean(0).square()
    if codes.shape[1] < 2 or len(codes) < 2:
        return {"balance": float(variances.mean()), "correlation": 0.0}
    centred = (signs - signs.mean(0)) / variances.clamp_min(1e-12).sqrt()
    between = (centred.T @ centred / len(codes)).abs()
    n = codes.shape[1]
    return {"balance": float(variances.mean()), "correlation": float((between.sum() - between.trace()) / (n * n - n))}


def precision_of(
    queries: Float[Tensor, "Q n"], wanted: Int64[Tensor, "Q"] | None, base: Float[Tensor, "N n"], labels: Tensor | None
) -> float | None:
    """Return the share of the 100 nearest codes that have the query's label; None without labels."""
    if wanted is None or labels is None or not (wanted >= 0).any():
        return None
    found = packed(queries), wanted.cpu().numpy(), packed(base), labels.cpu().numpy()
    return precision_of_codes(*found, (min(NEAREST, len(base)),))[0]
