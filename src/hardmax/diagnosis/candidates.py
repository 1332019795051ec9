"""The estimators that suit a space, and how many samples of each fit the same number of evaluations of f."""

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

_SAMPLES_TO_TRY = (1, 2, 3, 4, 8, 16)  # to find the fewest samples that an estimator accepts
_FREE = 1e-2  # a sample that adds fewer evaluations than this shares them with the other samples
_BUDGET_TOLERANCE = 1.01  # where evaluations are random, as with roulette, their mean is only estimated


def find_least_samples(estimator: AbstractEstimator, space: AbstractSpace) -> int:
    """Return the fewest samples that an estimator accepts.

    Raises:
        NotExactError: the estimator does not support the space.
        ArgumentError: the estimator accepts no number of samples that was tried; this is its first error.
    """
    first: ArgumentError | None = None
    for samples in _SAMPLES_TO_TRY:
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
    """Return the largest number of samples that costs no more evaluations than the budget, and at least `least`.

    The cost of S samples is affine in S, or nearly: a line through two measurements gives a guess, which is then
    checked. If samples share their evaluations (`Exact`, or `Direct` on one categorical), any number would fit, and the
    estimator's default is used. A sample counts for at least one evaluation, even where equal samples are evaluated
    only once.

    Args:
        budget: number of evaluations of f for each example.
        cost: measures the number of evaluations that S samples take.
        least: the fewest samples that the estimator accepts.
        estimator: the estimator.
        space: the space of z.
    """
    first = cost(least)
    if first >= budget:
        return least
    more = _find_accepted_samples(2 * least, least, estimator, space)
    slope = (cost(more) - first) / (more - least) if more > least else 0.0
    if slope < _FREE:
        return max(least, estimator.default_samples)
    samples = min(least + int((budget - first) / slope + 1e-6), int(budget))
    while (samples := _find_accepted_samples(samples, least, estimator, space)) > least:
        evaluations = cost(samples)
        if evaluations <= _BUDGET_TOLERANCE * budget:
            break
        samples = min(samples - 1, int(samples * budget / evaluations))
    return samples


def _find_accepted_samples(samples: int, least: int, estimator: AbstractEstimator, space: AbstractSpace) -> int:
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


def list_candidates(space: AbstractSpace, f: Objective | None = None) -> dict[str, AbstractEstimator]:
    """Return the estimators that suit a space, by name, with ladders of epsilon and tau.

    The part of a name before the comma is the name of the estimator in `hardmax train --estimator`.

    Args:
        space: the space of z.
        f: the objective; roulette is listed only if f can evaluate chosen examples (it has `rows` or `changes`), and
            direct optimization on any space if f augments scores (it has `augment`).

    Example:
        >>> import hardmax as hm
        >>> from hardmax.diagnosis import list_candidates
        >>> [
        ...     name for name in list_candidates(hm.Categorical(10)) if "direct" not in name
        ... ]  # doctest: +NORMALIZE_WHITESPACE
        ['exact', 'reinforce, leave-one-out', 'gumbel-softmax, tau 0.1', 'gumbel-softmax, tau 0.3',
         'gumbel-softmax, tau 0.5', 'gumbel-softmax, tau 1', 'straight-through']
    """
    single = space.categories is not None
    roulette = f is not None and (hasattr(f, "rows") or hasattr(f, "changes"))
    estimators: dict[str, AbstractEstimator] = {}
    if single:  # for several variables the sum over all z is too expensive: it would set the budget of every estimator
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
    return {
        name: estimator
        for name, estimator in estimators.items()
        if _supports(estimator if f is None else estimator.specialise(f), space)
    }


def _supports(estimator: AbstractEstimator, space: AbstractSpace) -> bool:
    try:
        find_least_samples(estimator, space)
    except (NotExactError, ArgumentError):
        return False
    return True
