"""The nearest codes, nearest first."""

import numpy as np
from jaxtyping import Int64, UInt16, UInt64

from hardmax.search.codes import hamming


def nearest(
    query: UInt64[np.ndarray, "words"], codes: UInt64[np.ndarray, "N words"], count: int
) -> tuple[Int64[np.ndarray, "K"], UInt16[np.ndarray, "K"]]:
    """Return which codes are nearest to a query, and how many of their bits differ; of equals the first ones.

    Every code is compared: exact, and for some millions of codes as fast as any index would be.

    Args:
        query: one packed code.
        codes: packed codes.
        count: how many are wanted; fewer are returned where there are fewer.

    Example:
        >>> nearest(np.array([5], dtype=np.uint64), np.array([[6], [4], [5]], dtype=np.uint64), 2)
        (array([2, 1]), array([0, 1], dtype=uint16))
    """
    distances = hamming(query[None], codes)[0]
    count = min(count, len(codes))
    if count == 0:
        return np.zeros(0, dtype=np.int64), distances[:0]
    # All that are as near as the last one that is wanted; these few are sorted.
    furthest = np.partition(distances, count - 1)[count - 1]
    candidates = np.flatnonzero(distances <= furthest)
    order = candidates[np.argsort(distances[candidates], kind="stable")[:count]]
    return order, distances[order]
