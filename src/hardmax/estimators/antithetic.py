"""Antithetic sampling: every noise tensor is used twice, once as drawn and once reflected."""

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
    r"""Antithetic sampling: wraps another estimator and draws its samples in pairs of opposite noise.

    The two samples of a pair use $\mathrm{noise}$ and $F^{-1}(1 - F(\mathrm{noise}))$, where F is the CDF of the noise.
    Both have the right distribution, so the mean of the two estimates has the bias of the wrapped estimator. Terms that
    increase with the noise in one sample decrease in the other, and cancel.

    Bias: that of the wrapped estimator. Variance: with n pairs at most that of n samples; half of it where the two
    samples of a pair are nearly independent, less where the estimate is monotone in the noise. Cost: twice that of the
    wrapped estimator: a sample is a pair, and `Estimate.z` holds both.

    Args:
        estimator: an estimator that treats its samples separately, such as `Direct`, `LocalExpectation` or
            `StraightThrough`. A leave-one-out baseline would contain the other sample of the pair, and be biased.

    Raises:
        ArgumentError: an estimator whose samples are baselines of each other.
        NotExactError: the space has no antithetic noise.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.sum(-1), scores, hm.Binary(6), hm.Antithetic(hm.Direct()), samples=3)
        >>> out.z.shape, out.evaluations, out.value
        (torch.Size([6, 4, 6]), 42.0, tensor([3., 3., 3., 3.], grad_fn=<_ScoreGradientBackward>))

    References:
        Hammersley & Morton, "A new Monte Carlo technique: antithetic variates", 1956.
    """

    estimator: AbstractEstimator

    def __post_init__(self) -> None:
        if self.estimator.couples_samples:
            raise ArgumentError(
                f"{self.estimator} assumes independent samples, which antithetic pairs are not; wrap Direct(), "
                f"LocalExpectation() or StraightThrough(), or use DisArm(), which is designed for pairs"
            )

    @property
    def needs(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the wrapped estimator needs, and antithetic noise."""
        return (*self.estimator.needs, "antithetic")

    @property
    def default_samples(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Default number of pairs: the default number of samples of the wrapped estimator."""
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
        """Same as the wrapped estimator: both samples of a pair come from the same noise."""
        return self.estimator.noises

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse what the wrapped estimator refuses, and spaces without antithetic noise."""
        self.estimator.check(space, 2 * samples)
        super().check(space, samples)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Estimate with the noise and with its reflection."""
        return self.estimator.estimate(f, scores, space, torch.cat([noise, space.antithetic(noise)]))
