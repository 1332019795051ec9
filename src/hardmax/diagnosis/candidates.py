"""The estimators that suit a space, and how many samples each gets at equal numbers of evaluations."""

from collections.abc import Callable

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import (
    AbstractEstimator,
    ConditionalGradient,
    Direct,
    DisArm,
    DisArmCategorical,
    DoubleControlVariates,
    Exact,
    GibbsCovariance,
    GumbelSoftmax,
    ImplicitMLE,
    LocalExpectation,
    Rebar,
    Reinforce,
    ReinMax,
    StraightThrough,
    UnorderedSet,
)
from hardmax.spaces import AbstractFactorised, AbstractSpace, Binary
from hardmax.types import Objective

_TRIED = (1, 2, 3, 4, 8, 16)  # numbers of samples, to find the least that an estimator accepts
_FREE = 1e-2  # evaluations that one more sample takes where samples share them all
_OVER = 1.01  # tolerance where evaluations are random, as with roulette, since their mean is estimated


def find_least_samples(estimator: AbstractEstimator, space: AbstractSpace) -> int:
    """Return the fewest samples that an estimator accepts.

    Raises:
        NotExactError: it does not support the space.
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


def fit_samples(
    budget: float, cost: Callable[[int], float], least: int, estimator: AbstractEstimator, space: AbstractSpace
) -> int:
    """Return the most samples that cost no more evaluations than the budget; at least the fewest possible.

    The cost of S samples is affine in S, or nearly: a line through two measurements gives a guess, which is then
    checked. Where samples share their evaluations (`Exact`, or `Direct` on one categorical), more would always fit: the
    estimator's default is used. No sample counts for less than one evaluation, even where equal ones are evaluated
    once.

    Args:
        budget: evaluations of f for each example.
        cost: measures the evaluations that S samples take.
        least: the fewest samples possible.
        estimator: the one that takes the samples.
        space: the space of z.
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
    """Return the largest number of samples up to this one that the estimator accepts."""
    while samples > least:
        try:
            estimator.check(space, samples)
            return samples
        except ArgumentError:
            samples -= 1
    return least


EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0)
TAUS = (0.1, 0.3, 0.5, 1.0)


def candidates(space: AbstractSpace, f: Objective | None = None) -> dict[str, AbstractEstimator]:
    """Return the estimators that suit a space, by name, with ladders of epsilon and tau.

    The part of a name before the comma is its name for `hardmax train --estimator`.

    Args:
        space: the space of z.
        f: the objective; roulette is used only where it can evaluate chosen examples.

    Example:
        >>> import hardmax as hm
        >>> from hardmax.diagnosis import candidates
        >>> [name for name in candidates(hm.Categorical(10)) if "direct" not in name]  # doctest: +NORMALIZE_WHITESPACE
        ['exact', 'reinforce, leave-one-out', 'gumbel-softmax, tau 0.1', 'gumbel-softmax, tau 0.3',
         'gumbel-softmax, tau 0.5', 'gumbel-softmax, tau 1', 'straight-through']
    """
    single = space.categories is not None
    roulette = f is not None and (hasattr(f, "rows") or hasattr(f, "flips"))
    estimators: dict[str, AbstractEstimator] = {}
    if single:  # with several variables the sum over all z is not comparable: it would set the budget of all
        estimators["exact"] = Exact()
    elif isinstance(space, AbstractFactorised):
        estimators["local-expectation"] = LocalExpectation()
        if roulette:
            estimators["local-expectation, roulette"] = LocalExpectation(roulette=True)
    else:
        estimators["gibbs-covariance"] = GibbsCovariance()
        estimators["conditional, perturb-and-map"] = ConditionalGradient(roulette=roulette)
        estimators["conditional, gibbs"] = ConditionalGradient("gibbs", roulette)
    estimators["reinforce, leave-one-out"] = Reinforce("leave-one-out")
    if not single:  # better baselines for a few evaluations; not needed where all values of z can be evaluated
        estimators["disarm"] = DisArm() if isinstance(space, Binary) else DisArmCategorical()
        estimators["unordered-set"] = UnorderedSet()
        estimators["double-control-variates"] = DoubleControlVariates()
        estimators["rebar, tau 0.5"] = Rebar(0.5)
    for epsilon in EPSILONS:
        estimators[f"direct, epsilon {epsilon:g}"] = Direct(epsilon)
    for tau in TAUS:
        estimators[f"gumbel-softmax, tau {tau:g}"] = GumbelSoftmax(tau)
    estimators["straight-through"] = StraightThrough()
    if not single:
        estimators["reinmax"] = ReinMax()
    if space.event_shape == space.score_shape and not isinstance(space, AbstractFactorised):
        estimators["implicit-mle, epsilon 1"] = ImplicitMLE(1.0)
    return {name: estimator for name, estimator in estimators.items() if _serves(estimator, space)}


def _serves(estimator: AbstractEstimator, space: AbstractSpace) -> bool:
    try:
        find_least_samples(estimator, space)
    except (NotExactError, ArgumentError):
        return False
    return True
