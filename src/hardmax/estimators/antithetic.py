"""Antithetic sampling: every noise is used twice, the second time reflected."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate


@final
@dataclass(frozen=True)
class Antithetic(AbstractEstimator):
    """Another estimator, its samples in antithetic pairs: `noise` and `F^{-1}(1 - F(noise))`, F the noise's CDF.

    Both of a pair have the right distribution, so the mean of the two estimates has the bias of the wrapped estimator;
    terms that rise with the noise in one fall in the other, and cancel.

    Bias: that of the estimator. Variance: at most that of n samples for n pairs; half of it where the two of a pair are
    nearly independent, less where the estimate is monotone in the noise. Cost: twice the estimator's: a sample is a
    pair, and `Estimate.z` holds both.

    Args:
        estimator: one that treats its samples separately, such as `Direct`, `LocalExpectation` or `StraightThrough`; a
            leave-one-out baseline would contain the other sample of the pair, and be biased.

    Raises:
        ArgumentError: an estimator whose samples serve each other as baselines.
        NotExactError: the space has no antithetic noise.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.sum(-1), scores, hm.Binary(6), hm.Antithetic(hm.Direct()), samples=3)
        >>> out.z.shape, out.evaluations, out.value
        (torch.Size([6, 4, 6]), 42.0, tensor([3., 3., 3., 3.], grad_fn=<AddBackward0>))

    References:
        Hammersley & Morton, "A new Monte Carlo technique: antithetic variates", 1956.
    """

    estimator: AbstractEstimator

    def __post_init__(self) -> None:
        if self.estimator.couples_samples:
            raise ArgumentError(
                f"{self.estimator} takes its samples for independent, which antithetic pairs are not; wrap Direct(), "
                f"LocalExpectation() or StraightThrough(), or use DisArm(), which is made for pairs"
            )

    @property
    def needs(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The needs of the wrapped estimator, and antithetic noise."""
        return (*self.estimator.needs, "antithetic")

    @property
    def default_samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of pairs: the default samples of the wrapped estimator."""
        return self.estimator.default_samples

    @property
    def takes_integrand(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Same as the wrapped estimator."""
        return self.estimator.takes_integrand

    @property
    def perturbs(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Same as the wrapped estimator."""
        return self.estimator.perturbs

    @property
    def noises(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Same as the wrapped estimator: both of a pair come from the same noise."""
        return self.estimator.noises

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse all that the wrapped estimator refuses, and spaces without antithetic noise."""
        self.estimator.check(space, 2 * samples)
        super().check(space, samples)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Estimate with the noise and with its antithesis."""
        return self.estimator.estimate(f, scores, space, torch.cat([noise, space.antithetic(noise)]))
