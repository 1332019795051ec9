"""Objectives: likelihoods of decoders, bounds, KL divergences, and losses for observed structures."""

from hardmax.objectives.adversarial import discriminator_loss, generator_reward
from hardmax.objectives.bounds import (
    Bounds,
    exact_bounds,
    greedy_bound,
    importance_weighted_bound,
    perturb_and_map_bound,
)
from hardmax.objectives.decisions import LinearObjective, direct_loss, regret, spo_plus_loss
from hardmax.objectives.elbo import Elbo, elbo, importance_weighted_elbo
from hardmax.objectives.fenchel_young import fenchel_young_loss
from hardmax.objectives.gaussian import (
    gaussian_bounds,
    gaussian_elbo,
    gaussian_kl,
    gaussian_kl_full,
    gaussian_sample,
    gaussian_sample_full,
)
from hardmax.objectives.likelihoods import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood

__all__ = [
    "AbstractLikelihood",
    "BernoulliLikelihood",
    "Bounds",
    "Elbo",
    "GaussianLikelihood",
    "LinearObjective",
    "direct_loss",
    "discriminator_loss",
    "elbo",
    "exact_bounds",
    "fenchel_young_loss",
    "gaussian_bounds",
    "gaussian_elbo",
    "gaussian_kl",
    "gaussian_kl_full",
    "gaussian_sample",
    "gaussian_sample_full",
    "generator_reward",
    "greedy_bound",
    "importance_weighted_bound",
    "importance_weighted_elbo",
    "perturb_and_map_bound",
    "regret",
    "spo_plus_loss",
]
