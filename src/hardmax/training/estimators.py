"""The choice of the estimator that a run uses in each step."""

import math

from hardmax.estimators import AbstractEstimator, AveragedDirect, ConditionalGradient, Exact, GibbsCovariance
from hardmax.estimators.registry import Settings, make_estimator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.training.config import EstimatorConfig, VAEConfig


def choose_estimator(config: EstimatorConfig, space: AbstractSpace, epoch: int, step: int) -> AbstractEstimator:
    """Return the estimator of a step; epochs and steps count from 0."""
    last_update = step // config.anneal_every * config.anneal_every
    factor = math.exp(-config.anneal * last_update)
    epsilon = max(config.epsilon * factor, min(config.epsilon, config.epsilon_floor))
    tau = max(config.tau * factor, min(config.tau, config.tau_floor))
    name = config.estimator
    if name == "auto":
        if space.categories is not None:
            return AveragedDirect(epsilon, config.two_sided) if epoch < config.epochs_of_direct else Exact()
        if not isinstance(space, AbstractFactorised):
            return GibbsCovariance() if space.offers("draw") else ConditionalGradient(roulette=True)
        name = "local-expectation"
    settings = Settings(
        space,
        epsilon=epsilon,
        two_sided=config.two_sided,
        tau=tau,
        hard=config.hard,
        draws=config.draws,
        baseline=config.baseline,
        shortlist=config.shortlist,
        shortlist_variables=config.shortlist_variables,
    )
    return make_estimator(name, settings)


def explain_estimator(config: VAEConfig, space: AbstractSpace) -> str:
    """Return a text: which estimator a run uses, and the reason if it was chosen automatically."""
    if config.estimator != "auto":
        return f"{config.estimator} (as asked): {choose_estimator(config, space, 0, 0)}, kl {config.kl}"
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
