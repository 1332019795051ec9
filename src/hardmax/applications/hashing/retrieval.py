"""Precision of retrieval: the share of the nearest images that are of the query's class."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt64
from torch import Tensor

from hardmax.applications.hashing.search import hamming_distance
from hardmax.errors import ArgumentError

_BATCH = 200  # queries


def measure_code_precision(
    queries: UInt64[np.ndarray, "Q words"],
    wanted: Int64[np.ndarray, "Q"],
    codes: UInt64[np.ndarray, "N words"],
    labels: Int64[np.ndarray, "N"],
    ks: Sequence[int] = (100,),
) -> list[float]:
    """Return the precision at each k: the mean share of the k nearest codes that have the query's label.

    Many codes have the same distance from a query. The precision is the exact mean over all orders of these ties: all
    codes at the distance of the k-th one have equal weight.

    Args:
        queries: `[Q, words]`, packed codes to search for.
        wanted: `[Q]`, labels of the queries; queries with label -1 are ignored.
        codes: `[N, words]`, packed codes to search.
        labels: `[N]`, labels of the codes; -1 matches no query.
        ks: numbers of nearest codes, each at most N.

    Returns:
        The precision for each of `ks`.

    Raises:
        ArgumentError: a k is too large, or no query has a label.

    Example:
        >>> codes = np.array([[0], [1], [2], [7]], dtype=np.uint64)
        >>> labels = np.array([0, 0, 1, 1])
        >>> measure_code_precision(codes[:1], labels[:1], codes, labels, (1, 2, 3))  # two codes are second nearest
        [1.0, 0.75, 0.6666666666666666]

    References:
        McSherry & Najork, "Computing information retrieval performance measures efficiently in the presence of tied
        scores", 2008.
    """
    queries, wanted = queries[wanted >= 0], wanted[wanted >= 0]
    _check_sizes(len(queries), len(codes), ks)
    levels = 64 * codes.shape[1] + 1
    # Search class by class, so that distances need no labels.
    groups = {label: codes[labels == label] for label in np.unique(labels).tolist()}
    totals = np.zeros(len(ks))
    for begin in range(0, len(queries), _BATCH):
        batch, targets = queries[begin : begin + _BATCH], wanted[begin : begin + _BATCH]
        counts = {label: _count_distances(hamming_distance(batch, group), levels) for label, group in groups.items()}
        right = np.stack([counts[label][i] if label in counts else np.zeros(levels) for i, label in enumerate(targets)])
        within, hits = np.cumsum(sum(counts.values()), 1), np.cumsum(right, 1)
        for column, k in enumerate(ks):
            level = (within < k).sum(1)[:, None]  # distance of the k-th code
            nearer = [np.take_along_axis(np.pad(sums, ((0, 0), (1, 0))), level, 1) for sums in (within, hits)]
            tied = [
                np.take_along_axis(sums, level, 1) - less for sums, less in zip((within, hits), nearer, strict=True)
            ]
            totals[column] += ((nearer[1] + (k - nearer[0]) * tied[1] / tied[0]) / k).sum()
    return (totals / len(queries)).tolist()


def measure_vector_precision(
    queries: Float[Tensor, "Q D"],
    wanted: Int64[Tensor, "Q"],
    vectors: Float[Tensor, "N D"],
    labels: Int64[Tensor, "N"],
    ks: Sequence[int] = (100,),
) -> list[float]:
    """Return the precision at each k of vectors by Euclidean distance: `measure_code_precision` for vectors.

    Args:
        queries: `[Q, D]`, vectors to search for.
        wanted: `[Q]`, labels of the queries; queries with label -1 are ignored.
        vectors: `[N, D]`, vectors to search.
        labels: `[N]`, labels of the vectors; -1 matches no query.
        ks: numbers of nearest vectors, each at most N.

    Raises:
        ArgumentError: a k is too large, or no query has a label.

    Example:
        >>> vectors = torch.tensor([[0.0], [0.1], [1.0], [2.0]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> measure_vector_precision(vectors[:1], labels[:1], vectors, labels, (1, 2, 4))
        [1.0, 1.0, 0.5]
    """
    queries, wanted = queries[wanted >= 0], wanted[wanted >= 0]
    _check_sizes(len(queries), len(vectors), ks)
    squares, totals = vectors.square().sum(1), torch.zeros(len(ks), dtype=torch.float64)
    for batch, targets in zip(queries.split(_BATCH), wanted.split(_BATCH), strict=True):
        index = torch.addmm(squares, batch, vectors.T, alpha=-2).topk(max(ks), largest=False).indices
        right = (labels[index] == targets[:, None]).double()
        totals += torch.stack([right[:, :k].mean(1).sum() for k in ks])
    return (totals / len(queries)).tolist()


def _count_distances(distances: np.ndarray, levels: int) -> np.ndarray:
    """Return the number of codes at each distance from each query, `[Q, levels]`."""
    count = len(distances)
    cells = distances + levels * np.arange(count)[:, None]
    return np.bincount(cells.ravel(), minlength=count * levels).reshape(count, levels)


def _check_sizes(queries: int, count: int, ks: Sequence[int]) -> None:
    if not queries:
        raise ArgumentError("precision needs queries with labels, got none")
    if min(ks) < 1 or max(ks) > count:
        raise ArgumentError(f"k must be from 1 to {count}, the number of codes that are searched, got {list(ks)}")
