"""How is the gradient of an expectation estimated? One file per estimator."""

from hardmax.estimators.abstract import AbstractEstimator, AbstractSampler, carry
from hardmax.estimators.adaptive_direct import AdaptiveDirect
from hardmax.estimators.adaptive_implicit_mle import AdaptiveImplicitMLE
from hardmax.estimators.antithetic import Antithetic
from hardmax.estimators.arm import Arm
from hardmax.estimators.arsm import Arsm
from hardmax.estimators.averaged_direct import AveragedDirect
from hardmax.estimators.blackbox import Blackbox
from hardmax.estimators.conditional_gradient import ConditionalGradient
from hardmax.estimators.control_variate import AbstractControlled
from hardmax.estimators.debiased_direct import DebiasedDirect
from hardmax.estimators.direct import Direct
from hardmax.estimators.disarm import DisArm
from hardmax.estimators.disarm_categorical import DisArmCategorical
from hardmax.estimators.double_control_variates import DoubleControlVariates
from hardmax.estimators.exact import Exact
from hardmax.estimators.gapped_straight_through import GappedStraightThrough
from hardmax.estimators.gibbs_covariance import GibbsCovariance
from hardmax.estimators.gumbel_rao import GumbelRao
from hardmax.estimators.gumbel_softmax import GumbelSoftmax
from hardmax.estimators.identity import IdentityBackward
from hardmax.estimators.implicit_mle import ImplicitMLE
from hardmax.estimators.local_expectation import LocalExpectation, Roulette
from hardmax.estimators.muprop import MuProp
from hardmax.estimators.perturbed_optimizer import PerturbedOptimizer
from hardmax.estimators.rebar import Rebar
from hardmax.estimators.reinforce import Reinforce
from hardmax.estimators.reinmax import ReinMax
from hardmax.estimators.relax import Relax
from hardmax.estimators.rodeo import Rodeo
from hardmax.estimators.shortlist_direct import ShortlistDirect
from hardmax.estimators.straight_through import StraightThrough
from hardmax.estimators.unordered_set import UnorderedSet

__all__ = [
    "AbstractControlled",
    "AbstractEstimator",
    "AbstractSampler",
    "AdaptiveDirect",
    "AdaptiveImplicitMLE",
    "Antithetic",
    "Arm",
    "Arsm",
    "AveragedDirect",
    "Blackbox",
    "ConditionalGradient",
    "DebiasedDirect",
    "Direct",
    "DisArm",
    "DisArmCategorical",
    "DoubleControlVariates",
    "Exact",
    "GappedStraightThrough",
    "GibbsCovariance",
    "GumbelRao",
    "GumbelSoftmax",
    "IdentityBackward",
    "ImplicitMLE",
    "LocalExpectation",
    "MuProp",
    "PerturbedOptimizer",
    "Rebar",
    "ReinMax",
    "Reinforce",
    "Relax",
    "Rodeo",
    "Roulette",
    "ShortlistDirect",
    "StraightThrough",
    "UnorderedSet",
    "carry",
]
