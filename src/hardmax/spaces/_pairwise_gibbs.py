"""The Gibbs distribution of interacting bits, exact, by enumeration of the two halves of the bits.

z is split into x (the first half of the bits) and y (the second half), so that

    h(x, y) = f(x) + g(y) + x' W y

is one batched matrix product of `2^(n/2)` rows and columns, and the sums over y, which are most of the work, are sums
over rows. Everything is plain torch, so log Z has a gradient, the marginals, and these have gradients too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_BLOCK_SIZE = 2**17  # energies computed at a time: they stay in the cache of a core


@dataclass(frozen=True)
class _Half:
    """The states of one half of the bits, and the scores that involve only these bits."""

    bits: Tensor  # [X, n_half]
    features: Tensor  # [X, F], bits and their products
    columns: Tensor  # [F], indices of the scores of the features

    def convert_like(self, scores: Tensor) -> "_Half":
        """Return this half on the device and in the dtype of scores."""
        return _Half(self.bits.to(scores), self.features.to(scores), self.columns.to(scores.device))


@dataclass(frozen=True)
class Halves:
    """A split of n bits and their edges: the halves x and y, and the edges between them."""

    x: _Half
    y: _Half
    cross: Tensor  # [C], indices of the scores of the edges between x and y
    place: Tensor  # [C], their indices in the flattened W
    order: Tensor  # [n + E], index of each score's statistic in [features of x, features of y, cross]

    def convert_like(self, scores: Tensor) -> "Halves":
        """Return this split on the device and in the dtype of scores."""
        rest = (index.to(scores.device) for index in (self.cross, self.place, self.order))
        return Halves(self.x.convert_like(scores), self.y.convert_like(scores), *rest)


def split_graph(n: int, edges: tuple[tuple[int, int], ...]) -> Halves:
    """Return the split of a graph of n bits into two halves."""
    low = (n + 1) // 2
    kinds: tuple[list[int], list[int], list[int]] = ([], [], [])  # edges within x, within y, between x and y
    for row, (i, j) in enumerate(edges):
        kinds[0 if j < low else 1 if i >= low else 2].append(row)

    def build_half(first: int, last: int, within: list[int]) -> _Half:
        count = last - first
        place = torch.arange(count - 1, -1, -1)
        bits = (torch.arange(2**count)[:, None] >> place) & 1
        products = [bits[:, edges[row][0] - first] * bits[:, edges[row][1] - first] for row in within]
        features = torch.cat([bits, *(product[:, None] for product in products)], 1)
        columns = torch.tensor([*range(first, last), *(n + row for row in within)], dtype=torch.int64)
        return _Half(bits.float(), features.float(), columns)

    x, y = build_half(0, low, kinds[0]), build_half(low, n, kinds[1])
    cross = torch.tensor([n + row for row in kinds[2]], dtype=torch.int64)
    place = torch.tensor([edges[row][0] * (n - low) + edges[row][1] - low for row in kinds[2]], dtype=torch.int64)
    order = torch.cat([x.columns, y.columns, cross]).argsort()
    return Halves(x, y, cross, place, order)


def log_partition_and_marginals(
    scores: Float[Tensor, "B D"], split: Halves
) -> tuple[Float[Tensor, " B"], Float[Tensor, "B D"]]:
    """Return `log Z` and `E_q[statistics(z)]`, both differentiable."""
    blocks = [_compute_moments(energies, split) for energies in _compute_energies(*_split_scores(scores, split), split)]
    log_z, marginals = zip(*blocks, strict=True)
    return torch.cat(log_z), torch.cat(marginals)


def log_partition(scores: Float[Tensor, "B D"], split: Halves) -> Float[Tensor, " B"]:
    """Return `log Z = log sum_z exp h(z)`."""
    return _log_sum_exp(_log_weights(*_split_scores(scores, split), split))


def draw_samples(
    scores: Float[Tensor, "B D"], first: Float[Tensor, "S B"], second: Float[Tensor, "S B"], split: Halves
) -> tuple[Float[Tensor, "S B N"], Float[Tensor, " B"]]:
    """Return samples of q by inverting two distribution functions, of x and of y given x; and log Z.

    Args:
        scores: scores of every example.
        first: uniform numbers that choose x.
        second: uniform numbers that choose y.
        split: split of the graph.
    """
    f_x, g_y, field = _split_scores(scores, split)
    log_weights = _log_weights(f_x, g_y, field, split)
    x = _invert_cdf(_subtract_max(log_weights)[0].softmax(1), first)  # [S, B]
    field = field.gather(1, x.mT[:, :, None].expand(-1, -1, field.shape[2]))  # [B, S, n_y]
    given = _subtract_max(field @ split.y.bits.mT + g_y[:, None])[0].softmax(2).transpose(0, 1)
    z = torch.cat([split.x.bits[x], split.y.bits[_invert_cdf(given, second)]], -1)
    return z, _log_sum_exp(log_weights)


def _log_weights(f_x: Tensor, g_y: Tensor, field: Tensor, split: Halves) -> Tensor:
    """Return `log sum_y exp h(x, y)` of every x, `[B, X]`."""
    return torch.cat([_log_sum_exp(energies) for energies in _compute_energies(f_x, g_y, field, split)])


def _compute_moments(energies: Tensor, split: Halves) -> tuple[Tensor, Tensor]:
    flat, top = _subtract_max(energies.flatten(1))
    log_z = flat.exp().sum(1).log() + top.squeeze(1)
    q = (flat + (top - log_z[:, None])).exp().view(energies.shape)
    of_x, of_y = q.sum(2) @ split.x.features, q.sum(1) @ split.y.features
    between = (split.x.bits.mT @ (q @ split.y.bits)).flatten(1)[:, split.place]
    return log_z, torch.cat([of_x, of_y, between], 1)[:, split.order]


def _compute_energies(f_x: Tensor, g_y: Tensor, field: Tensor, split: Halves) -> Iterator[Tensor]:
    """Yield h of all z, `[b, X, Y]`, for some examples at a time."""
    rows = max(1, _BLOCK_SIZE // (len(split.x.bits) * len(split.y.bits)))
    for of_x, of_y, between in zip(f_x.split(rows), g_y.split(rows), field.split(rows), strict=True):
        yield torch.baddbmm(of_x[:, :, None] + of_y[:, None], between, split.y.bits.mT.expand(len(of_x), -1, -1))


def _split_scores(scores: Tensor, split: Halves) -> tuple[Tensor, Tensor, Tensor]:
    """Return f(x) `[B, X]`, g(y) `[B, Y]` and `x' W` `[B, X, n_y]`."""
    f_x = scores[:, split.x.columns] @ split.x.features.mT
    g_y = scores[:, split.y.columns] @ split.y.features.mT
    n_x, n_y = split.x.bits.shape[1], split.y.bits.shape[1]
    weights = scores.new_zeros(len(scores), n_x * n_y).index_copy(1, split.place, scores[:, split.cross])
    return f_x, g_y, split.x.bits @ weights.view(len(scores), n_x, n_y)


def _log_sum_exp(energies: Tensor) -> Tensor:
    """Return `log sum exp` over the last dimension."""
    level, top = _subtract_max(energies)
    return level.exp().sum(-1).log() + top.squeeze(-1)


def _subtract_max(energies: Tensor) -> tuple[Tensor, Tensor]:
    """Return energies minus the maximum of the last dimension, clamped at -80, and that maximum.

    Adding `exp(-80)` to one changes nothing in any dtype used here. But exponentials that underflow take ten times as
    long, and a trained encoder has energies of hundreds.
    """
    top = energies.amax(-1, keepdim=True).detach()
    return (energies - top).clamp_min(-80.0), top


def _invert_cdf(q: Tensor, uniform: Tensor) -> Tensor:
    """Return the states that uniform numbers select (inverse CDF): `[*L, X]` and `[..., *L] -> [..., *L]`."""
    below = (q.cumsum(-1) <= uniform[..., None]).sum(-1)
    # Rounding may leave the total below the uniform number: then take the last state with positive probability.
    return torch.minimum(below, q.shape[-1] - 1 - (q.flip(-1) > 0).to(torch.int8).argmax(-1))
