"""Base classes of estimators: value-style ones estimate a gradient, sample-style ones give z a gradient."""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.registry import check_two_samples
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import is_transformed


class AbstractEstimator(ABC):
    """A way to estimate the gradient of `E_{z ~ q(z | scores)}[f(z)]` for scores.

    An estimator is a small frozen object; all its randomness is in the noise it is given, so the same noise
    gives the same estimate.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """Methods of the space, beyond those of every space, without which this estimator cannot work."""
    independent: ClassVar[bool] = False
    """Whether the space's variables must be independent."""
    default_samples: ClassVar[int] = 1
    """S where the caller does not set it."""
    takes_integrand: ClassVar[bool] = False
    """Whether a bound gives it log p(z) - log q(z) as part of f, instead of adding the KL's analytic gradient."""
    perturbs: ClassVar[bool] = False
    """Whether its z are arg maxes of perturbed scores: for structured spaces these are not samples of q."""
    couples_samples: ClassVar[bool] = False
    """Whether samples of an example serve each other as baselines, and so must be independent."""
    needs_two_samples: ClassVar[bool] = False
    """Whether every sample needs another one, as for a leave-one-out baseline."""
    couples_examples: ClassVar[bool] = False
    """Whether the gradient of an example depends on the others in its batch."""
    noises: ClassVar[int] = 1
    """Noise tensors that one sample takes, which are adjacent: the caller's noise is `[S * noises, *B, *score]`."""

    _for_structured: ClassVar[str] = "GibbsCovariance() or Direct()"

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Raise before any work if this estimator does not support this space with this number of samples."""
        if self.independent and not isinstance(space, AbstractFactorised):
            raise NotExactError(
                f"{self} needs independent variables, which {space} does not have; use {self._for_structured}"
            )
        for name in self.needs:
            if not space.offers(name):
                raise NotExactError(f"{self} needs {name}, which {space} does not offer; use another estimator")
        if self.needs_two_samples:
            check_two_samples(self, samples)

    @abstractmethod
    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Estimate `E[f(z)]` and its gradient; scores `[*B, *score]`, noise `[S * noises, *B, *score]`."""


class AbstractSampler(AbstractEstimator):
    """An estimator whose z itself carries a gradient to scores, so that it also serves `hardmax.sample`.

    f must be differentiable in z, and defined off the corners where z is relaxed.
    """

    _for_structured = "StraightThrough(), GumbelSoftmax() or ImplicitMLE()"
    _for_values: ClassVar[str] = "LocalExpectation(), Reinforce() or Direct()"

    solves: ClassVar[int] = 1
    """Arg maxes that one sample takes, those of the backward pass included."""

    @abstractmethod
    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return `[S, *B, *event]` twice: the hard z, detached, and the z that carries the gradient."""

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z and differentiate by autograd."""
        hard, z = self.sample(scores, space, noise)
        values = self._evaluate(f, z)
        return Estimate(values.mean(0), hard, f.evaluations, solves=float(self.solves * len(hard)))

    def _evaluate(self, f: Evaluator, z: Tensor) -> Tensor:
        """Return f(z), `[S, *B]`; raises `ArgumentError` where it carries no gradient and z does."""
        values = f(z)
        if z.requires_grad and not values.requires_grad and not is_transformed():
            raise ArgumentError(
                f"{self} needs an f that is differentiable in z, but f(z) carries no gradient; use an estimator that "
                f"needs values of f alone, such as {self._for_values}"
            )
        return values


def carry(value: Tensor, surrogate: Tensor) -> Tensor:
    """Return value, with the gradient of surrogate added to its own.

    The parentheses matter: the difference is exactly zero, so the value is not rounded to the surrogate's size.
    """
    return value + (surrogate - surrogate.detach())


def mean_of_others(values: Float[Tensor, "S ..."]) -> Float[Tensor, "S ..."]:
    """Return for each of two or more samples the mean over the others: the leave-one-out baseline."""
    return (values.sum(0) - values) / (len(values) - 1)
