"""How is the gradient of an expectation estimated? One file per estimator."""

from hardmax.estimators.abstract import AbstractEstimator, AbstractSampler, carry
from hardmax.estimators.adaptive import AdaptiveDirect, AdaptiveImplicitMLE
from hardmax.estimators.antithetic import Antithetic
from hardmax.estimators.arm import Arm, Arsm, DisArm, DisArmCategorical
from hardmax.estimators.control_variates import AbstractControlled, DebiasedDirect, Rebar, Relax
from hardmax.estimators.direct import AveragedDirect, Direct, ShortlistDirect
from hardmax.estimators.exact import Exact, LocalExpectation, Roulette
from hardmax.estimators.gumbel_softmax import GumbelRao, GumbelSoftmax
from hardmax.estimators.implicit_mle import Blackbox, IdentityBackward, ImplicitMLE
from hardmax.estimators.perturbed_optimizer import PerturbedOptimizer
from hardmax.estimators.reinforce import MuProp, Reinforce
from hardmax.estimators.rodeo import DoubleControlVariates, Rodeo
from hardmax.estimators.straight_through import GappedStraightThrough, ReinMax, StraightThrough
from hardmax.estimators.structured import ConditionalGradient, GibbsCovariance
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
