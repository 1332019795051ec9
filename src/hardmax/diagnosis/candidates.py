"""Which estimators are worth a try for a space: the list that a diagnosis goes through when none is given."""

from hardmax.diagnosis.budget import least_samples
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

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0)
TAUS = (0.1, 0.3, 0.5, 1.0)


def candidates(space: AbstractSpace, f: Objective | None = None) -> dict[str, AbstractEstimator]:
    """Return the estimators that suit a space, by name, with ladders of epsilon and tau.

    What stands before the comma of a name is the name that `hardmax train --estimator` knows.

    Args:
        space: what z may be.
        f: the objective; roulette is played only where it can evaluate chosen examples.

    Example:
        >>> import hardmax as hm
        >>> from hardmax.diagnosis import candidates
        >>> [name for name in candidates(hm.Categorical(10)) if "direct" not in name]  # doctest: +NORMALIZE_WHITESPACE
        ['exact', 'reinforce, leave-one-out', 'gumbel-softmax, tau 0.1', 'gumbel-softmax, tau 0.3',
         'gumbel-softmax, tau 0.5', 'gumbel-softmax, tau 1', 'straight-through']
    """
    single = space.categories is not None
    roulette = f is not None and (hasattr(f, "rows") or hasattr(f, "flips"))
    found: dict[str, AbstractEstimator] = {}
    if single:  # of several variables the sum over all z is no match: it would set the budget of all
        found["exact"] = Exact()
    elif isinstance(space, AbstractFactorised):
        found["local-expectation"] = LocalExpectation()
        if roulette:
            found["local-expectation, roulette"] = LocalExpectation(roulette=True)
    else:
        found["gibbs-covariance"] = GibbsCovariance()
        found["conditional, perturb-and-map"] = ConditionalGradient(roulette=roulette)
        found["conditional, gibbs"] = ConditionalGradient("gibbs", roulette)
    found["reinforce, leave-one-out"] = Reinforce("leave-one-out")
    if not single:  # better baselines for a few evaluations; where all values of z can be had, they are not needed
        found["disarm"] = DisArm() if isinstance(space, Binary) else DisArmCategorical()
        found["unordered-set"] = UnorderedSet()
        found["double-control-variates"] = DoubleControlVariates()
        found["rebar, tau 0.5"] = Rebar(0.5)
    for epsilon in EPSILONS:
        found[f"direct, epsilon {epsilon:g}"] = Direct(epsilon)
    for tau in TAUS:
        found[f"gumbel-softmax, tau {tau:g}"] = GumbelSoftmax(tau)
    found["straight-through"] = StraightThrough()
    if not single:
        found["reinmax"] = ReinMax()
    if space.event_shape == space.score_shape and not isinstance(space, AbstractFactorised):
        found["implicit-mle, epsilon 1"] = ImplicitMLE(1.0)
    return {name: estimator for name, estimator in found.items() if _serves(estimator, space)}


def _serves(estimator: AbstractEstimator, space: AbstractSpace) -> bool:
    try:
        least_samples(estimator, space)
    except (NotExactError, ArgumentError):
        return False
    return True
