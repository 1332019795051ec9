"""The choice of the estimator that a run uses in each step."""

import math

from torch import nn

from hardmax.estimators import AbstractEstimator, AveragedDirect, ConditionalGradient, Exact, GibbsCovariance
from hardmax.estimators.automatic import MANY_EVALUATIONS, needs_many_evaluations
from hardmax.estimators.registry import Settings, make_estimator
from hardmax.nn import split_first_layer
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.training.config import EstimatorConfig, VAEConfig


def choose_estimator(
    config: EstimatorConfig, space: AbstractSpace, epoch: int, step: int, *, decoder: nn.Module | None = None
) -> AbstractEstimator:
    """Return the estimator of a step.

    Args:
        config: the options of the run.
        space: the space of z.
        epoch: the epoch, from 0.
        step: the step, from 0.
        decoder: the network that is evaluated at z, for the automatic choice: whether its evaluations are expensive.
    """
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
        if _is_expensive(space, decoder):
            return GibbsCovariance()
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


def _is_expensive(space: AbstractSpace, decoder: nn.Module | None) -> bool:
    """Return whether single changes of z are too many, for a decoder that shares no work between them."""
    return decoder is not None and needs_many_evaluations(space) and split_first_layer(decoder) is None


def explain_estimator(config: VAEConfig, space: AbstractSpace, decoder: nn.Module | None = None) -> str:
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
    evaluations = f"{1 + space.changes} evaluations of the decoder per image and step"
    if _is_expensive(space, decoder):
        return (
            f"auto: the Gibbs covariance of {config.samples or GibbsCovariance.default_samples} samples, since local "
            f"expectation would take up to {evaluations}; reinmax, which is biased, takes one"
        )
    return (
        "auto: local expectation with roulette, the best measured for independent variables; at most "
        f"{evaluations}, and fewer as the encoder becomes certain"
    )


def explain_cost(evaluations: float, decoder: nn.Module) -> str:
    """Return a line that names a cheaper estimator if this one evaluates a decoder many times, else an empty text.

    Args:
        evaluations: number of evaluations of the decoder per image and step.
        decoder: the decoder; if it begins with a linear layer, single changes of z share most of the work.
    """
    if evaluations <= MANY_EVALUATIONS or split_first_layer(decoder) is not None:
        return ""
    return (
        f"\nthe estimator evaluates the decoder {evaluations:.0f} times per image and step, which takes most of the "
        "time; --estimator reinmax takes 1, gibbs-covariance 16"
    )
