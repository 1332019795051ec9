"""What is z worth? Likelihoods, bounds of discrete, Gaussian and mixed z, mixtures, sequences, contrastive losses."""

from hardmax.objectives.adversarial import discriminator_loss, generator_reward
from hardmax.objectives.bounds import Bounds, exact_bounds, importance_weighted_bound
from hardmax.objectives.contrasted_codes import AbstractContrastedCodes, InfoNCECodes, TripletCodes
from hardmax.objectives.contrastive import info_nce, triplet_loss
from hardmax.objectives.elbo import Elbo, elbo
from hardmax.objectives.fenchel_young import fenchel_young_loss
from hardmax.objectives.gaussian import (
    gaussian_elbo,
    gaussian_kl,
    gaussian_kl_full,
    gaussian_sample,
    gaussian_sample_full,
)
from hardmax.objectives.gaussian_bounds import gaussian_bounds
from hardmax.objectives.gaussian_mixture import GaussianMixture
from hardmax.objectives.greedy import greedy_bound
from hardmax.objectives.joins import AbstractJoin, GaussianBeside, GaussianRows
from hardmax.objectives.likelihoods import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood
from hardmax.objectives.max_operation import max_operation_loss
from hardmax.objectives.mixed import MixedObjective, mixed_elbo
from hardmax.objectives.mixed_bounds import exact_mixed_bounds, sampled_mixed_bounds
from hardmax.objectives.mixture_kl import MixtureKl, choose_component, chosen_kl, estimated_kl, sampled_kl
from hardmax.objectives.perturb_and_map import perturb_and_map_bound
from hardmax.objectives.sequences import SequenceEstimate, sequence_expectation
from hardmax.objectives.vimco import importance_weighted_elbo

__all__ = [
    "AbstractContrastedCodes",
    "AbstractJoin",
    "AbstractLikelihood",
    "BernoulliLikelihood",
    "Bounds",
    "Elbo",
    "GaussianBeside",
    "GaussianLikelihood",
    "GaussianMixture",
    "GaussianRows",
    "InfoNCECodes",
    "MixedObjective",
    "MixtureKl",
    "SequenceEstimate",
    "TripletCodes",
    "choose_component",
    "chosen_kl",
    "discriminator_loss",
    "elbo",
    "estimated_kl",
    "exact_bounds",
    "exact_mixed_bounds",
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
    "info_nce",
    "max_operation_loss",
    "mixed_elbo",
    "perturb_and_map_bound",
    "sampled_kl",
    "sampled_mixed_bounds",
    "sequence_expectation",
    "triplet_loss",
]
