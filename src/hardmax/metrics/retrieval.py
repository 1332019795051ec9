r"""Metrics of retrieval for rankings with ties, such as rankings by Hamming distance: exact means over all orders."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64

from hardmax.errors import ArgumentError

_BATCH = 100  # queries, for which every number of relevant items among the first k is considered


@final
@dataclass(frozen=True, eq=False)
class TiedRankings:
    """Rankings of items for Q queries, with ties: each item has one of L levels, and those of one level are tied.

    Many codes have the same Hamming distance from a query, and their order is arbitrary. An arbitrary order can change
    a metric by several percent. The metrics here are exact means over all orders of tied items, in closed form.

    Attributes:
        sizes: `[Q, L]`, number of items at each level, nearest first.
        relevant: `[Q, L]`, number of relevant items among them.

    Raises:
        ArgumentError: a level has more relevant items than items, or queries have different numbers of items.

    Example:
        >>> import numpy as np
        >>> rankings = TiedRankings(np.array([[1, 2]]), np.array([[1, 1]]))  # a relevant item, then two that are tied
        >>> rankings.precision(2)
        array([0.75])
        >>> rankings.average_precision()  # the mean of 1, for the order that ranks the relevant one second, and 5 / 6
        array([0.91666667])

    References:
        McSherry & Najork, "Computing information retrieval performance measures efficiently in the presence of tied
        scores", 2008.
    """

    sizes: Int64[np.ndarray, "Q L"]
    relevant: Int64[np.ndarray, "Q L"]

    def __post_init__(self) -> None:
        if self.sizes.shape != self.relevant.shape or ((self.relevant < 0) | (self.relevant > self.sizes)).any():
            raise ArgumentError(
                "sizes and relevant must have the same shape, with 0 <= relevant <= sizes; got shapes "
                f"{self.sizes.shape} and {self.relevant.shape}"
            )
        if len(set(self.sizes.sum(1).tolist())) > 1:
            raise ArgumentError("all queries must rank the same number of items")

    @property
    def count(self) -> int:
        """Number of items that each query ranks."""
        return int(self.sizes[:1].sum())

    def precision(self, k: int) -> Float64[np.ndarray, "Q"]:
        """Return the share of relevant items among the first k, for each query.

        Args:
            k: number of items, from 1 to the number of all items.

        Raises:
            ArgumentError: k is out of range.
        """
        counted, before, _ = self._cut(k)
        hits = np.where(before < k, self.relevant * counted / np.maximum(self.sizes, 1), 0)
        return hits.sum(1) / k

    def average_precision(self, k: int | None = None) -> Float64[np.ndarray, "Q"]:
        r"""Return the average precision of each query; its mean over queries is the mean average precision (mAP).

        $$ \frac{\sum_{i \le k} \mathrm{relevant}_i \, \mathrm{precision}_i}{\sum_{i \le k} \mathrm{relevant}_i}, $$

        with the precision of the first i items; 0 if none of the first k items is relevant.

        Args:
            k: number of items that are ranked, from 1 to the number of all items; None: all.

        Raises:
            ArgumentError: k is out of range.
        """
        counted, before, relevant_before = self._cut(self.count if k is None else k)
        whole = counted == self.sizes
        sums = np.where(whole, _sum_precisions(self.relevant, counted, before, relevant_before), 0).sum(1)
        # The level that is cut, if there is one; only some of its items are among the first k.
        cut = (~whole & (counted > 0)).argmax(1)
        rows = np.arange(len(cut))
        is_cut = ~whole[rows, cut] & (counted[rows, cut] > 0)
        hits = np.where(whole, self.relevant, 0).sum(1)
        averages = sums / np.maximum(hits, 1)
        (queries,) = is_cut.nonzero()
        for begin in range(0, len(queries), _BATCH):
            index = queries[begin : begin + _BATCH]
            level = index, cut[index]
            averages[index] = _average_over_cuts(
                sums[index], hits[index], self.sizes[level], self.relevant[level], counted[level], before[level]
            )
        return averages

    def _cut(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `[Q, L]`: the items of each level among the first k, and the items and relevant items before it."""
        if not 1 <= k <= self.count:
            raise ArgumentError(f"k must be from 1 to {self.count}, the number of items that are searched, got {k}")
        before, relevant_before = (np.cumsum(counts, 1) - counts for counts in (self.sizes, self.relevant))
        return (k - before).clip(0, self.sizes), before, relevant_before


def _sum_precisions(
    relevant: np.ndarray, counted: np.ndarray, before: np.ndarray, relevant_before: np.ndarray
) -> np.ndarray:
    r"""Return the mean over all orders of the sum of the precisions at the relevant ones of tied items.

    An item is at place j of n with r relevant ones. It is relevant with probability r / n, and then each of the j - 1
    items before it with probability (r - 1) / (n - 1). With N items before the level, R of them relevant, the sum is

    $$ \frac{r}{n} \sum_{j = 1}^{n} \frac{R + 1 + (j - 1) \frac{r - 1}{n - 1}}{N + j}
    = \frac{r}{n} \Big( (R + 1) h + \frac{r - 1}{n - 1} (n - (N + 1) h) \Big), \quad
    h = \sum_{j = 1}^{n} \frac{1}{N + j}. $$

    Args:
        relevant: r.
        counted: n; the sum is 0 where it is 0.
        before: N.
        relevant_before: R.
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int((before + counted).max(initial=0)) + 1))])
    h = harmonic[before + counted] - harmonic[before]
    others = (relevant - 1) / np.maximum(counted - 1, 1)
    return relevant / np.maximum(counted, 1) * ((relevant_before + 1) * h + others * (counted - (before + 1) * h))


def _average_over_cuts(
    sums: np.ndarray, hits: np.ndarray, sizes: np.ndarray, relevant: np.ndarray, counted: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """Return the average precision of queries of which only some items of a level are among the first k.

    The number m of relevant ones among them has a hypergeometric distribution. Given m, all orders are equally likely,
    and the average precision is a sum of precisions divided by the number of relevant items.

    Args:
        sums: `[Q]`, sums of precisions at the levels before.
        hits: `[Q]`, numbers of relevant items at the levels before.
        sizes: `[Q]`, numbers of items at the level that is cut.
        relevant: `[Q]`, numbers of relevant ones among them.
        counted: `[Q]`, numbers of items of the level among the first k.
        before: `[Q]`, numbers of items at the levels before.
    """
    m = np.arange(int(counted.max()) + 1)
    logs = np.concatenate([[0.0], np.log(np.arange(1, int(sizes.max()) + 1)).cumsum()])  # of factorials
    sums, hits, sizes, relevant, counted, before = (
        values[:, None] for values in (sums, hits, sizes, relevant, counted, before)
    )
    irrelevant, rest = sizes - relevant, counted - m  # in the level; and those of them among the first k
    possible = (m <= relevant) & (rest >= 0) & (rest <= irrelevant)
    # The probability of m is this one times a factor that does not depend on m: choices of m relevant and of the rest.
    chosen, others = np.where(possible, m, 0), np.where(possible, rest, 0)
    choices = -logs[chosen] - logs[relevant - chosen] - logs[others] - logs[irrelevant - others]
    choices = np.where(possible, choices, -np.inf)
    probabilities = np.exp(choices - choices.max(1, keepdims=True))
    totals = sums + _sum_precisions(m, counted, before, hits)
    return (probabilities * totals / np.maximum(hits + m, 1)).sum(1) / probabilities.sum(1)
