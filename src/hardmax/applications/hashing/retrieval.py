"""Retrieval by codes or vectors: rankings of codes by class, precision, and mean average precision."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt64
from torch import Tensor

from hardmax.applications.hashing.search import hamming_distance
from hardmax.errors import ArgumentError
from hardmax.metrics.retrieval import TiedRankings

_BATCH = 200  # queries


def rank_codes(
    queries: UInt64[np.ndarray, "Q words"],
    wanted: Int64[np.ndarray, "Q"],
    codes: UInt64[np.ndarray, "N words"],
    labels: Int64[np.ndarray, "N"],
) -> TiedRankings:
    """Return the rankings of codes by Hamming distance from each query; codes with the query's label are relevant.

    Args:
        queries: `[Q, words]`, packed codes to search for.
        wanted: `[Q]`, labels of the queries; queries with label -1 are ignored.
        codes: `[N, words]`, packed codes to search.
        labels: `[N]`, labels of the codes; -1 matches no query.

    Raises:
        ArgumentError: no query has a label.

    Example:
        >>> codes = np.array([[0], [1], [2], [7]], dtype=np.uint64)
        >>> rankings = rank_codes(codes[:1], np.array([0]), codes, np.array([0, 0, 1, 1]))
        >>> rankings.sizes[0, :4], rankings.relevant[0, :4]
        (array([1, 2, 0, 1]), array([1, 1, 0, 0]))
        >>> rankings.average_precision()
        array([0.91666667])
    """
    queries, wanted = queries[wanted >= 0], wanted[wanted >= 0]
    _check_queries(len(queries))
    levels = 64 * codes.shape[1] + 1
    # Search class by class, so that distances need no labels.
    groups = {label: codes[labels == label] for label in np.unique(labels).tolist()}
    sizes, relevant = (np.zeros((len(queries), levels), dtype=np.int64) for _ in range(2))
    for begin in range(0, len(queries), _BATCH):
        part = slice(begin, begin + _BATCH)
        for label, group in groups.items():
            counts = _count_distances(hamming_distance(queries[part], group), levels)
            sizes[part] += counts
            relevant[part] += np.where((wanted[part] == label)[:, None], counts, 0)
    return TiedRankings(sizes, relevant)


def measure_code_precision(
    queries: UInt64[np.ndarray, "Q words"],
    wanted: Int64[np.ndarray, "Q"],
    codes: UInt64[np.ndarray, "N words"],
    labels: Int64[np.ndarray, "N"],
    ks: Sequence[int] = (100,),
) -> list[float]:
    """Return the precision at each k: the mean share of the k nearest codes that have the query's label.

    Many codes have the same distance from a query. The precision is the exact mean over all orders of these ties.
    `rank_codes` offers further metrics.

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
    """
    rankings = rank_codes(queries, wanted, codes, labels)
    return [float(rankings.precision(k).mean()) for k in ks]


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
    _check_queries(len(queries))
    if min(ks) < 1 or max(ks) > len(vectors):
        raise ArgumentError(
            f"k must be from 1 to {len(vectors)}, the number of vectors that are searched, got {list(ks)}"
        )
    squares, totals = vectors.square().sum(1), torch.zeros(len(ks), dtype=torch.float64)
    for batch, targets in zip(queries.split(_BATCH), wanted.split(_BATCH), strict=True):
        index = torch.addmm(squares, batch, vectors.T, alpha=-2).topk(max(ks), largest=False).indices
        right = (labels[index] == targets[:, None]).double()
        totals += torch.stack([right[:, :k].mean(1).sum() for k in ks])
    return (totals / len(queries)).tolist()


def measure_vector_average_precision(
    queries: Float[Tensor, "Q D"],
    wanted: Int64[Tensor, "Q"],
    vectors: Float[Tensor, "N D"],
    labels: Int64[Tensor, "N"],
) -> float:
    """Return the mean average precision of vectors by Euclidean distance, over all of them.

    Args:
        queries: `[Q, D]`, vectors to search for.
        wanted: `[Q]`, labels of the queries; queries with label -1 are ignored.
        vectors: `[N, D]`, vectors to search.
        labels: `[N]`, labels of the vectors; -1 matches no query.

    Raises:
        ArgumentError: no query has a label.

    Example:
        >>> vectors = torch.tensor([[0.0], [0.1], [1.0], [2.0]])
        >>> labels = torch.tensor([0, 1, 0, 1])
        >>> measure_vector_average_precision(vectors[:1], labels[:1], vectors, labels)  # (1 + 2 / 3) / 2
        0.8333333333333333
    """
    queries, wanted = queries[wanted >= 0], wanted[wanted >= 0]
    _check_queries(len(queries))
    squares, total = vectors.square().sum(1), 0.0
    places = torch.arange(1, len(vectors) + 1, dtype=torch.float64, device=vectors.device)
    for batch, targets in zip(queries.split(_BATCH), wanted.split(_BATCH), strict=True):
        order = torch.addmm(squares, batch, vectors.T, alpha=-2).argsort()
        right = (labels[order] == targets[:, None]).double()
        sums = (right * right.cumsum(1) / places).sum(1)
        total += float((sums / right.sum(1).clamp_min(1)).sum())
    return total / len(queries)


def _count_distances(distances: np.ndarray, levels: int) -> np.ndarray:
    """Return the number of codes at each distance from each query, `[Q, levels]`."""
    count = len(distances)
    cells = distances + levels * np.arange(count)[:, None]
    return np.bincount(cells.ravel(), minlength=count * levels).reshape(count, levels)


def _check_queries(count: int) -> None:
    if not count:
        raise ArgumentError("retrieval is measured with queries that have labels, got none")
