"""What is z worth? Likelihoods, the evidence lower bound, and exact and importance-weighted bounds."""

from hardmax.objectives.bounds import Bounds, exact_bounds, importance_weighted_bound
from hardmax.objectives.elbo import Elbo, elbo
from hardmax.objectives.likelihoods import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood

__all__ = [
    "AbstractLikelihood",
    "BernoulliLikelihood",
    "Bounds",
    "Elbo",
    "GaussianLikelihood",
    "elbo",
    "exact_bounds",
    "importance_weighted_bound",
]
