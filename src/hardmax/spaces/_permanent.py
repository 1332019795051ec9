"""Sums over permutations, by dynamic programming over sets of columns.

Columns are assigned row by row. The rows after the first i depend only on which i columns are already used, so

    before[i, S] = log sum of all assignments of the rows above i to the columns S,    |S| = i
    after[i, S]  = log sum of all assignments of the rows from i on to the columns that are not in S

cost n 2^(n - 1) sums each, instead of n! products. Ryser's formula has the same cost, but cancels: here all terms are
positive, so the computation uses logarithms and no score is too large.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.spaces.abstract import invert_cdf
from hardmax.tracing import is_eager

MAX_ITEMS = 12
"""The largest n for which sums are offered: 4,096 sets of columns, and 24,576 sums for every example."""


class Layer(NamedTuple):
    """All sets S of i columns, and their neighbours; entries are indices into the scores and into layers."""

    members: Tensor  # [C(n, i), i], the columns in S
    sources: Tensor  # [C(n, i), i], index of the set without that column in the previous layer
    others: Tensor  # [C(n, i), n - i], the columns not in S
    targets: Tensor  # [C(n, i), n - i], index of the set with that column in the next layer
    without: Tensor  # [C(n - 1, i), n], for each column, indices of the sets without it in this layer
    joined: Tensor  # [C(n - 1, i), n], indices of the same sets with it in the next layer


def build_layers(n: int, device: torch.device) -> list[Layer]:
    """Return the layers i = 0 ... n. Their sizes depend only on n, so this can be compiled with the rest."""
    sets = torch.arange(2**n, device=device)
    column = torch.arange(n, device=device)
    bits = (sets[:, None] >> column) & 1
    order = bits.sum(-1).argsort(stable=True)
    starts = [sum(math.comb(n, j) for j in range(i)) for i in range(n + 2)]
    place = order.argsort()  # rank among all sets, the smallest first
    layers = []
    for i in range(n + 1):
        members = order[starts[i] : starts[i + 1]]
        inside = bits[members].argsort(dim=-1, descending=True, stable=True)
        inside, outside = inside[:, :i], inside[:, i:]
        lacking = bits[members].argsort(dim=0, stable=True)[: math.comb(n - 1, i)]
        layers.append(
            Layer(
                inside,
                place[members[:, None] - (1 << inside)] - starts[i - 1],
                outside,
                place[members[:, None] + (1 << outside)] - starts[i + 1],
                lacking,
                place[members[lacking] + (1 << column)] - starts[i + 1],
            )
        )
    return layers


@lru_cache(maxsize=16)
def _build_layers_once(n: int, device: torch.device) -> list[Layer]:
    with torch.inference_mode(False):  # an index made in inference mode could not be used where gradients are needed
        return build_layers(n, device)


def _get_layers(scores: Tensor) -> list[Layer]:
    """Return the layers for scores `[*B, n, n]`, from a cache where tensors are concrete."""
    build = _build_layers_once if is_eager(scores) else build_layers
    return build(scores.shape[-1], scores.device)


def log_permanent(scores: Float[Tensor, "*B n n"]) -> Float[Tensor, "*B"]:
    """Return `log sum_s exp(sum_i scores[i, s(i)])` over all permutations s."""
    return sum_before(scores, _get_layers(scores))[-1][..., 0]


def sum_before(scores: Float[Tensor, "*B n n"], sets: list[Layer]) -> list[Float[Tensor, "*B _"]]:
    """Return before[i, S], `[*B, C(n, i)]` for i = 0 ... n."""
    sums = [torch.zeros_like(scores[..., 0, :1])]
    for row, layer in zip(scores.unbind(-2), sets[1:], strict=True):
        sums.append((sums[-1][..., layer.sources] + row[..., layer.members]).logsumexp(-1))
    return sums


def sum_after(scores: Float[Tensor, "*B n n"], sets: list[Layer]) -> list[Float[Tensor, "*B _"]]:
    """Return after[i, S], `[*B, C(n, i)]` for i = 0 ... n."""
    sums = [torch.zeros_like(scores[..., 0, :1])]
    for row, layer in zip(reversed(scores.unbind(-2)), sets[-2::-1], strict=True):
        sums.append((sums[-1][..., layer.targets] + row[..., layer.others]).logsumexp(-1))
    return sums[::-1]


def log_permanent_and_marginals(scores: Float[Tensor, "*B n n"]) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B n n"]]:
    """Return the log-permanent, and the probability that row i takes column j; both differentiable."""
    sets = _get_layers(scores)
    before, after = sum_before(scores, sets), sum_after(scores, sets)
    # Every row's weights sum to Z. A softmax divides by their computed sum, so rows sum to one however Z is rounded.
    rows = [
        (row + (above[..., layer.without] + below[..., layer.joined]).logsumexp(-2)).softmax(-1)
        for row, layer, above, below in zip(scores.unbind(-2), sets[:-1], before[:-1], after[1:], strict=True)
    ]
    return before[-1][..., 0], torch.stack(rows, -2)


def draw_columns(scores: Float[Tensor, "*B n n"], noise: Float[Tensor, "*SB n _"]) -> list[Tensor]:
    """Return the columns of sampled permutations, `[*S, *B, 1]` for each row, drawn row by row.

    Gumbel noise `[*S, *B, n, n]` gives them by Gumbel-max, uniform noise `[*S, *B, n, 1]` by the inverse of the CDF.
    """
    sets = _get_layers(scores)
    after = sum_after(scores, sets)
    is_gumbel = noise.shape[-1] == scores.shape[-1]
    place = torch.zeros_like(noise[..., 0, :1], dtype=torch.int64)  # index of the set of used columns
    columns = []
    for row, perturbation, layer, below in zip(scores.unbind(-2), noise.unbind(-2), sets[:-1], after[1:], strict=True):
        open_columns, targets = layer.others[place[..., 0]], layer.targets[place[..., 0]]
        value = row.expand(*place.shape[:-1], row.shape[-1]).gather(-1, open_columns)
        value = value + below.expand(*value.shape[:-1], below.shape[-1]).gather(-1, targets)
        if is_gumbel:
            best = (value + perturbation.gather(-1, open_columns)).argmax(-1, keepdim=True)
        else:
            best = invert_cdf(value.softmax(-1).cumsum(-1), perturbation)
        columns.append(open_columns.gather(-1, best))
        place = targets.gather(-1, best)
    return columns
