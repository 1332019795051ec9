"""The estimator that a name on the command line stands for."""

from hardmax.estimators import (
    AbstractEstimator,
    AdaptiveDirect,
    AdaptiveImplicitMLE,
    Arm,
    Arsm,
    AveragedDirect,
    ConditionalGradient,
    DebiasedDirect,
    Direct,
    DisArm,
    DisArmCategorical,
    DoubleControlVariates,
    Exact,
    GappedStraightThrough,
    GibbsCovariance,
    GumbelRao,
    GumbelSoftmax,
    ImplicitMLE,
    LocalExpectation,
    MuProp,
    Rebar,
    Reinforce,
    ReinMax,
    Rodeo,
    ShortlistDirect,
    StraightThrough,
    UnorderedSet,
)
from hardmax.spaces import AbstractSpace, Binary
from hardmax.training.estimator_config import EstimatorConfig


def make_estimator(config: EstimatorConfig, space: AbstractSpace, epsilon: float, tau: float) -> AbstractEstimator:
    """Return the estimator that a configuration names, at this epsilon and tau; "auto" is that of independent z."""
    match config.estimator:
        case "adaptive-direct":
            return AdaptiveDirect()
        case "adaptive-implicit-mle":
            return AdaptiveImplicitMLE()
        case "arm":
            return Arm()
        case "arsm":
            return Arsm()
        case "averaged-direct":
            return AveragedDirect(epsilon, config.two_sided)
        case "conditional":
            return ConditionalGradient(config.draws, roulette=True)
        case "debiased-direct":
            return DebiasedDirect(epsilon)
        case "direct":
            return Direct(epsilon, config.two_sided)
        case "disarm":
            return DisArm() if isinstance(space, Binary) else DisArmCategorical()
        case "double-control-variates":
            return DoubleControlVariates()
        case "exact":
            return Exact()
        case "gapped-straight-through":
            return GappedStraightThrough(tau=tau)
        case "gibbs-covariance":
            return GibbsCovariance()
        case "gumbel-rao":
            return GumbelRao(tau=tau)
        case "gumbel-softmax":
            return GumbelSoftmax(tau, config.hard)
        case "implicit-mle":
            return ImplicitMLE(epsilon, config.two_sided)
        case "auto" | "local-expectation":
            return LocalExpectation(roulette=space.categories is None)
        case "muprop":
            return MuProp()
        case "rebar":
            return Rebar(tau, learned=True)
        case "reinforce":
            return Reinforce(config.baseline)
        case "reinmax":
            return ReinMax(tau)
        case "rodeo":
            return Rodeo()
        case "shortlist-direct":
            return ShortlistDirect(epsilon, config.shortlist, config.shortlist_variables)
        case "straight-through":
            return StraightThrough(tau)
        case "unordered-set":
            return UnorderedSet()
