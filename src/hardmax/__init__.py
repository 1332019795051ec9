"""hardmax: learning through the arg max.

Everything is an expectation `E_{z ~ q(z | scores)}[f(z)]` that we want the gradient of; a space says what z
may be, an estimator how the gradient is estimated, and f what z is worth.
"""

from typing import TYPE_CHECKING

from hardmax._deprecation import load_renamed
from hardmax._lazy import load_lazily
from hardmax.version import __version__ as __version__

if TYPE_CHECKING:
    from hardmax import distributions as distributions
    from hardmax import nn as nn
    from hardmax import testing as testing
    from hardmax.applications.discrete_vae.model import DiscreteVAE as DiscreteVAE
    from hardmax.applications.runs import load_model as load_model
    from hardmax.diagnosis import Diagnosis as Diagnosis
    from hardmax.diagnosis import diagnose as diagnose
    from hardmax.distributions import from_distribution as from_distribution
    from hardmax.distributions import to_distribution as to_distribution
    from hardmax.errors import ArgumentError as ArgumentError
    from hardmax.errors import DataError as DataError
    from hardmax.errors import DtypeError as DtypeError
    from hardmax.errors import HardmaxError as HardmaxError
    from hardmax.errors import MissingExtraError as MissingExtraError
    from hardmax.errors import NotExactError as NotExactError
    from hardmax.errors import ShapeError as ShapeError
    from hardmax.errors import SolverError as SolverError
    from hardmax.estimators import AbstractControlled as AbstractControlled
    from hardmax.estimators import AbstractEstimator as AbstractEstimator
    from hardmax.estimators import AbstractSampler as AbstractSampler
    from hardmax.estimators import AdaptiveDirect as AdaptiveDirect
    from hardmax.estimators import AdaptiveImplicitMLE as AdaptiveImplicitMLE
    from hardmax.estimators import Antithetic as Antithetic
    from hardmax.estimators import Arm as Arm
    from hardmax.estimators import Arsm as Arsm
    from hardmax.estimators import AveragedDirect as AveragedDirect
    from hardmax.estimators import Blackbox as Blackbox
    from hardmax.estimators import ConditionalGradient as ConditionalGradient
    from hardmax.estimators import DebiasedDirect as DebiasedDirect
    from hardmax.estimators import Direct as Direct
    from hardmax.estimators import DisArm as DisArm
    from hardmax.estimators import DisArmCategorical as DisArmCategorical
    from hardmax.estimators import DoubleControlVariates as DoubleControlVariates
    from hardmax.estimators import Exact as Exact
    from hardmax.estimators import GappedStraightThrough as GappedStraightThrough
    from hardmax.estimators import GibbsCovariance as GibbsCovariance
    from hardmax.estimators import GumbelRao as GumbelRao
    from hardmax.estimators import GumbelSoftmax as GumbelSoftmax
    from hardmax.estimators import IdentityBackward as IdentityBackward
    from hardmax.estimators import ImplicitMLE as ImplicitMLE
    from hardmax.estimators import LocalExpectation as LocalExpectation
    from hardmax.estimators import MuProp as MuProp
    from hardmax.estimators import PerturbedOptimizer as PerturbedOptimizer
    from hardmax.estimators import PerturbedReinforce as PerturbedReinforce
    from hardmax.estimators import Rebar as Rebar
    from hardmax.estimators import Reinforce as Reinforce
    from hardmax.estimators import ReinMax as ReinMax
    from hardmax.estimators import ReinMaxCV as ReinMaxCV
    from hardmax.estimators import ReinMaxRao as ReinMaxRao
    from hardmax.estimators import Relax as Relax
    from hardmax.estimators import Rodeo as Rodeo
    from hardmax.estimators import Roulette as Roulette
    from hardmax.estimators import ShortlistDirect as ShortlistDirect
    from hardmax.estimators import StraightThrough as StraightThrough
    from hardmax.estimators import UnorderedSet as UnorderedSet
    from hardmax.evaluator import Evaluator as Evaluator
    from hardmax.expectations import expectation as expectation
    from hardmax.expectations import sample as sample
    from hardmax.functional import argmax as argmax
    from hardmax.functional import gumbel_softmax as gumbel_softmax
    from hardmax.functional import rank as rank
    from hardmax.functional import sort as sort
    from hardmax.functional import topk as topk
    from hardmax.models import GaussianVAE as GaussianVAE
    from hardmax.objectives import AbstractLikelihood as AbstractLikelihood
    from hardmax.objectives import BernoulliLikelihood as BernoulliLikelihood
    from hardmax.objectives import Bounds as Bounds
    from hardmax.objectives import Elbo as Elbo
    from hardmax.objectives import GaussianLikelihood as GaussianLikelihood
    from hardmax.objectives import LinearObjective as LinearObjective
    from hardmax.objectives import direct_loss as direct_loss
    from hardmax.objectives import discriminator_loss as discriminator_loss
    from hardmax.objectives import elbo as elbo
    from hardmax.objectives import exact_bounds as exact_bounds
    from hardmax.objectives import fenchel_young_loss as fenchel_young_loss
    from hardmax.objectives import gaussian_bounds as gaussian_bounds
    from hardmax.objectives import gaussian_elbo as gaussian_elbo
    from hardmax.objectives import gaussian_kl as gaussian_kl
    from hardmax.objectives import gaussian_kl_full as gaussian_kl_full
    from hardmax.objectives import gaussian_sample as gaussian_sample
    from hardmax.objectives import gaussian_sample_full as gaussian_sample_full
    from hardmax.objectives import generator_reward as generator_reward
    from hardmax.objectives import greedy_bound as greedy_bound
    from hardmax.objectives import importance_weighted_bound as importance_weighted_bound
    from hardmax.objectives import importance_weighted_elbo as importance_weighted_elbo
    from hardmax.objectives import perturb_and_map_bound as perturb_and_map_bound
    from hardmax.objectives import regret as regret
    from hardmax.objectives import spo_plus_loss as spo_plus_loss
    from hardmax.spaces import AbstractFactorised as AbstractFactorised
    from hardmax.spaces import AbstractSpace as AbstractSpace
    from hardmax.spaces import Binary as Binary
    from hardmax.spaces import Categorical as Categorical
    from hardmax.spaces import Chain as Chain
    from hardmax.spaces import GridPath as GridPath
    from hardmax.spaces import Knapsack as Knapsack
    from hardmax.spaces import PairwiseBinary as PairwiseBinary
    from hardmax.spaces import Permutation as Permutation
    from hardmax.spaces import Perturbation as Perturbation
    from hardmax.spaces import ShortestPath as ShortestPath
    from hardmax.spaces import SolverSpace as SolverSpace
    from hardmax.spaces import SpanningTree as SpanningTree
    from hardmax.spaces import Subset as Subset
    from hardmax.types import Estimate as Estimate

# The public names, and where each is. They are loaded when first used, so that parts that do not need torch never wait
# for it. No module may have the name of a function here: importing it would hide the function.
_HOMES = {
    "AbstractControlled": "estimators",
    "AbstractEstimator": "estimators",
    "AbstractFactorised": "spaces",
    "AbstractLikelihood": "objectives",
    "AbstractSampler": "estimators",
    "AbstractSpace": "spaces",
    "AdaptiveDirect": "estimators",
    "AdaptiveImplicitMLE": "estimators",
    "Antithetic": "estimators",
    "ArgumentError": "errors",
    "Arm": "estimators",
    "Arsm": "estimators",
    "AveragedDirect": "estimators",
    "BernoulliLikelihood": "objectives",
    "Binary": "spaces",
    "Blackbox": "estimators",
    "Bounds": "objectives",
    "Categorical": "spaces",
    "Chain": "spaces",
    "ConditionalGradient": "estimators",
    "DataError": "errors",
    "DebiasedDirect": "estimators",
    "Diagnosis": "diagnosis",
    "Direct": "estimators",
    "DisArm": "estimators",
    "DisArmCategorical": "estimators",
    "DiscreteVAE": "applications.discrete_vae.model",
    "DoubleControlVariates": "estimators",
    "DtypeError": "errors",
    "Elbo": "objectives",
    "Estimate": "types",
    "Evaluator": "evaluator",
    "Exact": "estimators",
    "GappedStraightThrough": "estimators",
    "GaussianLikelihood": "objectives",
    "GaussianVAE": "models",
    "GibbsCovariance": "estimators",
    "GridPath": "spaces",
    "GumbelRao": "estimators",
    "GumbelSoftmax": "estimators",
    "HardmaxError": "errors",
    "IdentityBackward": "estimators",
    "ImplicitMLE": "estimators",
    "Knapsack": "spaces",
    "LinearObjective": "objectives",
    "LocalExpectation": "estimators",
    "MissingExtraError": "errors",
    "MuProp": "estimators",
    "NotExactError": "errors",
    "PairwiseBinary": "spaces",
    "Permutation": "spaces",
    "Perturbation": "spaces",
    "PerturbedOptimizer": "estimators",
    "PerturbedReinforce": "estimators",
    "Rebar": "estimators",
    "ReinMax": "estimators",
    "ReinMaxCV": "estimators",
    "ReinMaxRao": "estimators",
    "Reinforce": "estimators",
    "Relax": "estimators",
    "Rodeo": "estimators",
    "Roulette": "estimators",
    "ShapeError": "errors",
    "ShortestPath": "spaces",
    "ShortlistDirect": "estimators",
    "SolverError": "errors",
    "SolverSpace": "spaces",
    "SpanningTree": "spaces",
    "StraightThrough": "estimators",
    "Subset": "spaces",
    "UnorderedSet": "estimators",
    "argmax": "functional",
    "diagnose": "diagnosis",
    "direct_loss": "objectives",
    "discriminator_loss": "objectives",
    "elbo": "objectives",
    "exact_bounds": "objectives",
    "expectation": "expectations",
    "fenchel_young_loss": "objectives",
    "from_distribution": "distributions",
    "gaussian_bounds": "objectives",
    "gaussian_elbo": "objectives",
    "gaussian_kl": "objectives",
    "gaussian_kl_full": "objectives",
    "gaussian_sample": "objectives",
    "gaussian_sample_full": "objectives",
    "generator_reward": "objectives",
    "greedy_bound": "objectives",
    "gumbel_softmax": "functional",
    "importance_weighted_bound": "objectives",
    "importance_weighted_elbo": "objectives",
    "load_model": "applications.runs",
    "perturb_and_map_bound": "objectives",
    "rank": "functional",
    "regret": "objectives",
    "sample": "expectations",
    "sort": "functional",
    "spo_plus_loss": "objectives",
    "to_distribution": "distributions",
    "topk": "functional",
}
# Names that serve one application; deprecated here, removed in the next release.
_MOVED = {
    "AbstractContrastedCodes": "hardmax.applications.hashing",
    "AbstractJoin": "hardmax.applications.mixed_vae",
    "BernoulliMixture": "hardmax.applications.discrete_vae",
    "CompletionModel": "hardmax.applications.completion",
    "Encoded": "hardmax.applications.mixed_vae:Encoding",
    "GaussianBeside": "hardmax.applications.mixed_vae:SharedGaussian",
    "GaussianMixture": "hardmax.applications.completion",
    "GaussianRows": "hardmax.applications.mixed_vae",
    "HashEncoder": "hardmax.applications.hashing",
    "InfoNCECodes": "hardmax.applications.hashing",
    "MixedObjective": "hardmax.applications.mixed_vae",
    "MixedVAE": "hardmax.applications.mixed_vae",
    "SequenceDiscriminator": "hardmax.applications.sequences",
    "SequenceEstimate": "hardmax.applications.sequences",
    "SequenceGAN": "hardmax.applications.sequences",
    "SequenceGenerator": "hardmax.applications.sequences",
    "TokenPrior": "hardmax.applications.tokens",
    "TokenVAE": "hardmax.applications.tokens",
    "TripletCodes": "hardmax.applications.hashing",
    "choose_component": "hardmax.applications.completion",
    "chosen_kl": "hardmax.applications.completion",
    "estimated_kl": "hardmax.applications.completion",
    "exact_mixed_bounds": "hardmax.applications.mixed_vae",
    "info_nce": "hardmax.applications.hashing",
    "max_operation_loss": "hardmax.applications.completion",
    "mixed_elbo": "hardmax.applications.mixed_vae",
    "sampled_kl": "hardmax.applications.completion",
    "sampled_mixed_bounds": "hardmax.applications.mixed_vae",
    "sequence_expectation": "hardmax.applications.sequences",
    "triplet_loss": "hardmax.applications.hashing",
}
_MODULES = ("distributions", "nn", "testing")
__all__ = sorted([*_HOMES, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]
_load, _ = load_lazily(__name__, _HOMES, modules=_MODULES)
_PLACES = {name: place if ":" in place else f"{place}:{name}" for name, place in _MOVED.items()}
__getattr__ = load_renamed(__name__, _PLACES, otherwise=_load)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
