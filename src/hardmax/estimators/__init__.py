"""How is the gradient of an expectation estimated? One file per estimator."""

from hardmax.estimators.abstract import AbstractEstimator, AbstractSampler, carry
from hardmax.estimators.conditional_gradient import ConditionalGradient
from hardmax.estimators.direct import Direct
from hardmax.estimators.exact import Exact
from hardmax.estimators.gibbs_covariance import GibbsCovariance
from hardmax.estimators.gumbel_softmax import GumbelSoftmax
from hardmax.estimators.local_expectation import LocalExpectation, Roulette
from hardmax.estimators.reinforce import Reinforce
from hardmax.estimators.straight_through import StraightThrough

__all__ = [
    "AbstractEstimator",
    "AbstractSampler",
    "ConditionalGradient",
    "Direct",
    "Exact",
    "GibbsCovariance",
    "GumbelSoftmax",
    "LocalExpectation",
    "Reinforce",
    "Roulette",
    "StraightThrough",
    "carry",
]
