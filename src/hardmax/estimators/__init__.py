"""Estimators of the gradient of an expectation, one family per file. Names are loaded on first use."""

from typing import TYPE_CHECKING

from hardmax._deprecation import load_renamed
from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.estimators.abstract import AbstractEstimator as AbstractEstimator
    from hardmax.estimators.abstract import AbstractSampler as AbstractSampler
    from hardmax.estimators.abstract import attach_gradient as attach_gradient
    from hardmax.estimators.adaptive import AdaptiveDirect as AdaptiveDirect
    from hardmax.estimators.adaptive import AdaptiveImplicitMLE as AdaptiveImplicitMLE
    from hardmax.estimators.antithetic import Antithetic as Antithetic
    from hardmax.estimators.arm import Arm as Arm
    from hardmax.estimators.arm import Arsm as Arsm
    from hardmax.estimators.arm import DisArm as DisArm
    from hardmax.estimators.arm import DisArmCategorical as DisArmCategorical
    from hardmax.estimators.control_variates import AbstractControlled as AbstractControlled
    from hardmax.estimators.control_variates import DebiasedDirect as DebiasedDirect
    from hardmax.estimators.control_variates import Rebar as Rebar
    from hardmax.estimators.control_variates import Relax as Relax
    from hardmax.estimators.direct import AveragedDirect as AveragedDirect
    from hardmax.estimators.direct import Direct as Direct
    from hardmax.estimators.direct import ShortlistDirect as ShortlistDirect
    from hardmax.estimators.exact import Exact as Exact
    from hardmax.estimators.exact import LocalExpectation as LocalExpectation
    from hardmax.estimators.exact import Roulette as Roulette
    from hardmax.estimators.gumbel_softmax import GumbelRao as GumbelRao
    from hardmax.estimators.gumbel_softmax import GumbelSoftmax as GumbelSoftmax
    from hardmax.estimators.implicit_mle import Blackbox as Blackbox
    from hardmax.estimators.implicit_mle import IdentityBackward as IdentityBackward
    from hardmax.estimators.implicit_mle import ImplicitMLE as ImplicitMLE
    from hardmax.estimators.perturbed_optimizer import PerturbedOptimizer as PerturbedOptimizer
    from hardmax.estimators.perturbed_optimizer import PerturbedReinforce as PerturbedReinforce
    from hardmax.estimators.reinforce import MuProp as MuProp
    from hardmax.estimators.reinforce import Reinforce as Reinforce
    from hardmax.estimators.reinmax import ReinMax as ReinMax
    from hardmax.estimators.reinmax import ReinMaxCV as ReinMaxCV
    from hardmax.estimators.reinmax import ReinMaxRao as ReinMaxRao
    from hardmax.estimators.rodeo import DoubleControlVariates as DoubleControlVariates
    from hardmax.estimators.rodeo import Rodeo as Rodeo
    from hardmax.estimators.straight_through import GappedStraightThrough as GappedStraightThrough
    from hardmax.estimators.straight_through import StraightThrough as StraightThrough
    from hardmax.estimators.structured import ConditionalGradient as ConditionalGradient
    from hardmax.estimators.structured import GibbsCovariance as GibbsCovariance
    from hardmax.estimators.unordered_set import UnorderedSet as UnorderedSet

# The module of each name. Names are loaded on first use, so that reading the registry does not import torch.
_HOMES = {
    "AbstractControlled": "control_variates",
    "AbstractEstimator": "abstract",
    "AbstractSampler": "abstract",
    "AdaptiveDirect": "adaptive",
    "AdaptiveImplicitMLE": "adaptive",
    "Antithetic": "antithetic",
    "Arm": "arm",
    "Arsm": "arm",
    "AveragedDirect": "direct",
    "Blackbox": "implicit_mle",
    "ConditionalGradient": "structured",
    "DebiasedDirect": "control_variates",
    "Direct": "direct",
    "DisArm": "arm",
    "DisArmCategorical": "arm",
    "DoubleControlVariates": "rodeo",
    "Exact": "exact",
    "GappedStraightThrough": "straight_through",
    "GibbsCovariance": "structured",
    "GumbelRao": "gumbel_softmax",
    "GumbelSoftmax": "gumbel_softmax",
    "IdentityBackward": "implicit_mle",
    "ImplicitMLE": "implicit_mle",
    "LocalExpectation": "exact",
    "MuProp": "reinforce",
    "PerturbedOptimizer": "perturbed_optimizer",
    "PerturbedReinforce": "perturbed_optimizer",
    "Rebar": "control_variates",
    "ReinMax": "reinmax",
    "ReinMaxCV": "reinmax",
    "ReinMaxRao": "reinmax",
    "Reinforce": "reinforce",
    "Relax": "control_variates",
    "Rodeo": "rodeo",
    "Roulette": "exact",
    "ShortlistDirect": "direct",
    "StraightThrough": "straight_through",
    "UnorderedSet": "unordered_set",
    "attach_gradient": "abstract",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
_RENAMED = {"carry": "attach_gradient"}
_load, __dir__ = load_lazily(__name__, _HOMES)
__getattr__ = load_renamed(__name__, _RENAMED, otherwise=_load)
