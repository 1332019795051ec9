"""Metrics of rankings with ties, against brute force over all orders of tied items."""

from itertools import permutations

import numpy as np
import pytest

from hardmax.errors import ArgumentError
from hardmax.metrics.retrieval import TiedRankings


def average_precision(hits):
    """Return the average precision of one order, by its definition."""
    precisions = [np.mean(hits[: i + 1]) for i in range(len(hits)) if hits[i]]
    return float(np.mean(precisions)) if precisions else 0.0


def list_orders(levels, relevant):
    """Return the relevance of the items in every order that keeps nearer levels first."""
    items = range(len(levels))
    orders = (order for order in permutations(items) if all(np.diff([levels[i] for i in order]) >= 0))
    return [[relevant[i] for i in order] for order in orders]


def count_levels(levels, relevant, count):
    """Return the rankings of one query."""
    return TiedRankings(
        np.bincount(levels, minlength=count)[None], np.bincount(levels[relevant], minlength=count)[None]
    )


@pytest.mark.parametrize("seed", range(12))
def test_all_orders_of_ties(seed):
    random = np.random.default_rng(seed)
    levels, relevant = random.integers(0, 3, 7), random.random(7) < (0.5, 0.2, 0.9)[seed % 3]
    rankings, orders = count_levels(levels, relevant, 4), list_orders(levels, relevant)
    assert rankings.average_precision()[0] == pytest.approx(np.mean([average_precision(order) for order in orders]))
    for k in range(1, 8):
        cut = [order[:k] for order in orders]
        assert rankings.precision(k)[0] == pytest.approx(np.mean(cut))
        assert rankings.average_precision(k)[0] == pytest.approx(np.mean([average_precision(hits) for hits in cut]))


def test_without_ties_it_is_the_area_below_the_steps_of_precision_and_recall():
    """The definition of scikit-learn: the sum over thresholds of the increase of recall times precision."""
    random = np.random.default_rng(0)
    relevant = random.random((20, 300)) < 0.3
    hits = relevant.cumsum(1)
    precision, recall = hits / np.arange(1, 301), hits / hits[:, -1:]
    area = (np.diff(recall, axis=1, prepend=0) * precision).sum(1)
    rankings = TiedRankings(np.ones_like(relevant, dtype=np.int64), relevant.astype(np.int64))
    np.testing.assert_allclose(rankings.average_precision(), area, rtol=1e-12)
    first = [average_precision(row[:40]) for row in relevant]
    np.testing.assert_allclose(rankings.average_precision(40), first, rtol=1e-12)


def test_large_levels_against_random_orders():
    """Levels of thousands of items, of which the first 1,000 cut one: the mean of 400 random orders is near."""
    random = np.random.default_rng(1)
    sizes, relevant = np.array([[300, 5000, 20000]]), np.array([[290, 2000, 1000]])
    rankings = TiedRankings(sizes, relevant)
    values = []
    for _ in range(400):
        hits = np.concatenate([
            random.permutation(np.arange(n) < r) for n, r in zip(sizes[0], relevant[0], strict=True)
        ])[:1000]  # fmt: skip
        values.append((hits * hits.cumsum() / np.arange(1, 1001)).sum() / hits.sum())
    error = np.std(values) / len(values) ** 0.5
    assert abs(rankings.average_precision(1000)[0] - np.mean(values)) < 5 * error
    assert error < 0.001
    # An order in which relevant items come first within each level would have another value.
    assert rankings.average_precision(1000)[0] < 0.9


def test_one_level_with_all_items():
    """All orders are equally likely: the average precision is a little above the share of relevant items."""
    rankings = TiedRankings(np.array([[60_000]]), np.array([[6_000]]))
    assert rankings.precision(1000)[0] == pytest.approx(0.1)
    assert 0.1 < rankings.average_precision()[0] < 0.1005


def test_queries_without_relevant_items_have_precision_zero():
    rankings = TiedRankings(np.array([[2, 3], [0, 5]]), np.array([[0, 0], [0, 2]]))
    assert rankings.average_precision()[0] == rankings.average_precision(1)[0] == rankings.precision(2)[0] == 0
    assert rankings.precision(3)[1] == pytest.approx(0.4)


def test_bad_input():
    with pytest.raises(ArgumentError, match="0 <= relevant <= sizes"):
        TiedRankings(np.array([[1, 2]]), np.array([[2, 0]]))
    with pytest.raises(ArgumentError, match="the same number of items"):
        TiedRankings(np.array([[1, 2], [1, 1]]), np.array([[0, 0], [0, 0]]))
    rankings = TiedRankings(np.array([[1, 2]]), np.array([[1, 0]]))
    for k in (0, 4):
        with pytest.raises(ArgumentError, match="k must be from 1 to 3"):
            rankings.average_precision(k)
