"""hardmax: learning through the arg max.

Everything is an expectation `E_{z ~ q(z | scores)}[f(z)]` that we want the gradient of; a space says what z
may be, an estimator how the gradient is estimated, and f what z is worth.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

# The public names, and where each lives. They are loaded when first used (PEP 562), so that parts that do not
# need torch never wait for it. No module may bear the name of a function here: importing it would hide the function.
_HOME = {
    "AbstractContrastedCodes": "objectives",
    "AbstractControlled": "estimators",
    "AbstractEstimator": "estimators",
    "AbstractFactorised": "spaces",
    "AbstractJoin": "objectives",
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
    "BernoulliMixture": "models",
    "Binary": "spaces",
    "Blackbox": "estimators",
    "Bounds": "objectives",
    "Categorical": "spaces",
    "Chain": "spaces",
    "CompletionModel": "models",
    "ConditionalGradient": "estimators",
    "DataError": "errors",
    "DebiasedDirect": "estimators",
    "Diagnosis": "diagnosis",
    "Direct": "estimators",
    "DisArm": "estimators",
    "DisArmCategorical": "estimators",
    "DiscreteVAE": "models",
    "DoubleControlVariates": "estimators",
    "DtypeError": "errors",
    "Elbo": "objectives",
    "Encoded": "models",
    "Estimate": "types",
    "Evaluator": "evaluator",
    "Exact": "estimators",
    "GappedStraightThrough": "estimators",
    "GaussianBeside": "objectives",
    "GaussianLikelihood": "objectives",
    "GaussianMixture": "objectives",
    "GaussianRows": "objectives",
    "GaussianVAE": "models",
    "GibbsCovariance": "estimators",
    "GumbelRao": "estimators",
    "GumbelSoftmax": "estimators",
    "HardmaxError": "errors",
    "HashEncoder": "models",
    "IdentityBackward": "estimators",
    "ImplicitMLE": "estimators",
    "InfoNCECodes": "objectives",
    "LocalExpectation": "estimators",
    "MissingExtraError": "errors",
    "MixedObjective": "objectives",
    "MixedVAE": "models",
    "MuProp": "estimators",
    "NotExactError": "errors",
    "PairwiseBinary": "spaces",
    "Permutation": "spaces",
    "PerturbedOptimizer": "estimators",
    "Rebar": "estimators",
    "ReinMax": "estimators",
    "Reinforce": "estimators",
    "Relax": "estimators",
    "Rodeo": "estimators",
    "Roulette": "estimators",
    "SequenceDiscriminator": "models",
    "SequenceGAN": "models",
    "SequenceGenerator": "models",
    "SequenceEstimate": "objectives",
    "ShapeError": "errors",
    "ShortlistDirect": "estimators",
    "SpanningTree": "spaces",
    "StraightThrough": "estimators",
    "Subset": "spaces",
    "TokenPrior": "models",
    "TokenVAE": "models",
    "TripletCodes": "objectives",
    "UnorderedSet": "estimators",
    "choose_component": "objectives",
    "chosen_kl": "objectives",
    "diagnose": "diagnosis",
    "discriminator_loss": "objectives",
    "elbo": "objectives",
    "estimated_kl": "objectives",
    "exact_bounds": "objectives",
    "exact_mixed_bounds": "objectives",
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
    "importance_weighted_bound": "objectives",
    "importance_weighted_elbo": "objectives",
    "info_nce": "objectives",
    "load_model": "models",
    "max_operation_loss": "objectives",
    "mixed_elbo": "objectives",
    "perturb_and_map_bound": "objectives",
    "sample": "expectations",
    "sampled_kl": "objectives",
    "sampled_mixed_bounds": "objectives",
    "sequence_expectation": "objectives",
    "to_distribution": "distributions",
    "triplet_loss": "objectives",
}

if TYPE_CHECKING:
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
    from hardmax.estimators import Rebar as Rebar
    from hardmax.estimators import Reinforce as Reinforce
    from hardmax.estimators import ReinMax as ReinMax
    from hardmax.estimators import Relax as Relax
    from hardmax.estimators import Rodeo as Rodeo
    from hardmax.estimators import Roulette as Roulette
    from hardmax.estimators import ShortlistDirect as ShortlistDirect
    from hardmax.estimators import StraightThrough as StraightThrough
    from hardmax.estimators import UnorderedSet as UnorderedSet
    from hardmax.evaluator import Evaluator as Evaluator
    from hardmax.expectations import expectation as expectation
    from hardmax.expectations import sample as sample
    from hardmax.models import BernoulliMixture as BernoulliMixture
    from hardmax.models import CompletionModel as CompletionModel
    from hardmax.models import DiscreteVAE as DiscreteVAE
    from hardmax.models import Encoded as Encoded
    from hardmax.models import GaussianVAE as GaussianVAE
    from hardmax.models import HashEncoder as HashEncoder
    from hardmax.models import MixedVAE as MixedVAE
    from hardmax.models import SequenceDiscriminator as SequenceDiscriminator
    from hardmax.models import SequenceGAN as SequenceGAN
    from hardmax.models import SequenceGenerator as SequenceGenerator
    from hardmax.models import TokenPrior as TokenPrior
    from hardmax.models import TokenVAE as TokenVAE
    from hardmax.models import load_model as load_model
    from hardmax.objectives import AbstractContrastedCodes as AbstractContrastedCodes
    from hardmax.objectives import AbstractJoin as AbstractJoin
    from hardmax.objectives import AbstractLikelihood as AbstractLikelihood
    from hardmax.objectives import BernoulliLikelihood as BernoulliLikelihood
    from hardmax.objectives import Bounds as Bounds
    from hardmax.objectives import Elbo as Elbo
    from hardmax.objectives import GaussianBeside as GaussianBeside
    from hardmax.objectives import GaussianLikelihood as GaussianLikelihood
    from hardmax.objectives import GaussianMixture as GaussianMixture
    from hardmax.objectives import GaussianRows as GaussianRows
    from hardmax.objectives import InfoNCECodes as InfoNCECodes
    from hardmax.objectives import MixedObjective as MixedObjective
    from hardmax.objectives import SequenceEstimate as SequenceEstimate
    from hardmax.objectives import TripletCodes as TripletCodes
    from hardmax.objectives import choose_component as choose_component
    from hardmax.objectives import chosen_kl as chosen_kl
    from hardmax.objectives import discriminator_loss as discriminator_loss
    from hardmax.objectives import elbo as elbo
    from hardmax.objectives import estimated_kl as estimated_kl
    from hardmax.objectives import exact_bounds as exact_bounds
    from hardmax.objectives import exact_mixed_bounds as exact_mixed_bounds
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
    from hardmax.objectives import info_nce as info_nce
    from hardmax.objectives import max_operation_loss as max_operation_loss
    from hardmax.objectives import mixed_elbo as mixed_elbo
    from hardmax.objectives import perturb_and_map_bound as perturb_and_map_bound
    from hardmax.objectives import sampled_kl as sampled_kl
    from hardmax.objectives import sampled_mixed_bounds as sampled_mixed_bounds
    from hardmax.objectives import sequence_expectation as sequence_expectation
    from hardmax.objectives import triplet_loss as triplet_loss
    from hardmax.spaces import AbstractFactorised as AbstractFactorised
    from hardmax.spaces import AbstractSpace as AbstractSpace
    from hardmax.spaces import Binary as Binary
    from hardmax.spaces import Categorical as Categorical
    from hardmax.spaces import Chain as Chain
    from hardmax.spaces import PairwiseBinary as PairwiseBinary
    from hardmax.spaces import Permutation as Permutation
    from hardmax.spaces import SpanningTree as SpanningTree
    from hardmax.spaces import Subset as Subset
    from hardmax.types import Estimate as Estimate

__all__ = sorted([*_HOME, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hardmax' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"hardmax.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
