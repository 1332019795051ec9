"""Which estimator a run uses, and when."""

import math

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
from hardmax.spaces import AbstractFactorised, AbstractSpace, Binary
from hardmax.training.config import EstimatorConfig, VAEConfig


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


def estimator_at(config: EstimatorConfig, space: AbstractSpace, epoch: int, step: int) -> AbstractEstimator:
    """Return the estimator of a step; epochs and steps count from 0."""
    updated = step // config.anneal_every * config.anneal_every
    shrunk = math.exp(-config.anneal * updated)
    epsilon = max(config.epsilon * shrunk, min(config.epsilon, config.epsilon_floor))
    tau = max(config.tau * shrunk, min(config.tau, config.tau_floor))
    if config.estimator == "auto" and space.categories is not None:
        return AveragedDirect(epsilon, config.two_sided) if epoch < config.epochs_of_direct else Exact()
    if config.estimator == "auto" and not isinstance(space, AbstractFactorised):
        return GibbsCovariance() if space.offers("draw") else ConditionalGradient(roulette=True)
    return make_estimator(config, space, epsilon, tau)


def explain(config: VAEConfig, space: AbstractSpace) -> str:
    """Say which estimator a run uses, and why where it chose itself."""
    if config.estimator != "auto":
        return f"{config.estimator} (as asked): {estimator_at(config, space, 0, 0)}, kl {config.kl}"
    if space.categories is not None:
        return (
            f"auto: posterior direct, averaged over its noise, for {config.epochs_of_direct} epochs, since it brings "
            f"dead categories to life, then the exact gradient, since its fixed point is the bound's"
        )
    if not isinstance(space, AbstractFactorised):
        if space.offers("draw"):
            return "auto: the Gibbs covariance, which has no bias, from exact samples"
        return "auto: the conditional gradient with roulette, since there are too many z for exact samples"
    return "auto: local expectation with roulette, the best measured for independent variables"
