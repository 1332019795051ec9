"""How many samples an estimator gets, so that all are compared at equal numbers of evaluations."""

from collections.abc import Callable

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.spaces import AbstractSpace

_TRIED = (1, 2, 3, 4, 8, 16)  # numbers of samples, to find the least that an estimator takes
_FREE = 1e-2  # evaluations that one more sample takes where samples share them all
_OVER = 1.01  # where evaluations are drawn, as by roulette, their mean is known but so well


def least_samples(estimator: AbstractEstimator, space: AbstractSpace) -> int:
    """Return the fewest samples that an estimator can do with.

    Raises:
        NotExactError: it cannot serve the space.
        ArgumentError: no number of samples suits it; the first refusal.
    """
    first: ArgumentError | None = None
    for samples in _TRIED:
        try:
            estimator.check(space, samples)
        except ArgumentError as error:
            first = first or error
        else:
            return samples
    assert first is not None
    raise first


def samples_within(
    budget: float, cost: Callable[[int], float], least: int, estimator: AbstractEstimator, space: AbstractSpace
) -> int:
    """Return the most samples that cost no more evaluations than the budget; at least the fewest possible.

    The cost of S samples is affine in S, or nearly: a line through two of them leads there, and is then checked. Where
    samples share their evaluations (`Exact`, or `Direct` on one categorical), more would always fit: the estimator's
    own default is taken. No sample counts for less than one evaluation, also where equal ones are evaluated once.

    Args:
        budget: evaluations of f for each example.
        cost: measures the evaluations that S samples take.
        least: the fewest samples possible.
        estimator: whose samples.
        space: what z may be.
    """
    first = cost(least)
    if first >= budget:
        return least
    more = _accepted(2 * least, least, estimator, space)
    slope = (cost(more) - first) / (more - least) if more > least else 0.0
    if slope < _FREE:
        return max(least, estimator.default_samples)
    samples = min(least + int((budget - first) / slope + 1e-6), int(budget))
    while (samples := _accepted(samples, least, estimator, space)) > least:
        spent = cost(samples)
        if spent <= _OVER * budget:
            break
        samples = min(samples - 1, int(samples * budget / spent))
    return samples


def _accepted(samples: int, least: int, estimator: AbstractEstimator, space: AbstractSpace) -> int:
    """Return the largest number of samples up to this one that the estimator takes."""
    while samples > least:
        try:
            estimator.check(space, samples)
            return samples
        except ArgumentError:
            samples -= 1
    return least
