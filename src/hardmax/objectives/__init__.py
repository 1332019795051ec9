"""What is z worth? Likelihoods, the evidence lower bound, exact and importance-weighted bounds, Gaussian latents."""

from hardmax.objectives.bounds import Bounds, exact_bounds, importance_weighted_bound
from hardmax.objectives.elbo import Elbo, elbo
from hardmax.objectives.fenchel_young import fenchel_young_loss
from hardmax.objectives.gaussian import (
    gaussian_elbo,
    gaussian_kl,
    gaussian_kl_full,
    gaussian_sample,
    gaussian_sample_full,
)
from hardmax.objectives.greedy import greedy_bound
from hardmax.objectives.likelihoods import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood
from hardmax.objectives.perturb_and_map import perturb_and_map_bound
from hardmax.objectives.vimco import importance_weighted_elbo

__all__ = [
    "AbstractLikelihood",
    "BernoulliLikelihood",
    "Bounds",
    "Elbo",
    "GaussianLikelihood",
    "elbo",
    "exact_bounds",
    "fenchel_young_loss",
    "gaussian_elbo",
    "gaussian_kl",
    "gaussian_kl_full",
    "gaussian_sample",
    "gaussian_sample_full",
    "greedy_bound",
    "importance_weighted_bound",
    "importance_weighted_elbo",
    "perturb_and_map_bound",
]
