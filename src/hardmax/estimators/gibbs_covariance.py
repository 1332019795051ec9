"""The covariance estimator: leave-one-out REINFORCE that needs no normaliser."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate


@final
@dataclass(frozen=True)
class GibbsCovariance(AbstractEstimator):
    """The covariance of f and the statistics, from exact samples of `q(z) = exp(<scores, statistics(z)>) / Z`.

    The gradient of `E_q[f]` is `Cov_q(f, statistics)`, so with samples z_1 ... z_S

        gradient = 1 / (S - 1) sum_s (f(z_s) - mean f) statistics(z_s)

    which is leave-one-out REINFORCE exactly (the deviations sum to zero, so the gradient of log Z drops out), but asks
    the space for samples alone. Of a bound, f is the whole integrand, `log p(x, z) - <scores, statistics(z)>`, whose
    deviations vanish where q is the posterior: there the gradient is zero for every draw, not only in the mean.

    Bias: none. Variance: falls as 1/S. Cost: S evaluations of f; where f has rows, one for each different z among them.

    Raises:
        ArgumentError: fewer than two samples.
        NotExactError: the space has no exact samples.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 21, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.prod(-1), scores, hm.PairwiseBinary(6), hm.GibbsCovariance(), samples=8)
        >>> out.value.sum().backward()
        >>> scores.grad.shape, out.evaluations
        (torch.Size([4, 21]), 8.0)

    References:
        Salimans & Knowles, "On using control variates with stochastic approximation for variational Bayes", 2014;
        Kool, van Hoof & Welling, 2019.
    """

    needs = ("draw",)
    default_samples = 16
    takes_integrand = True
    couples_samples = True

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse a covariance of one."""
        super().check(space, samples)
        if samples < 2:
            raise ArgumentError(f"{self} needs at least two samples, got samples={samples}; 16 is a good number")

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Weigh the statistics of each draw by how far f is from its mean there."""
        z, log_prob = space.draw_with_log_prob(scores.detach(), noise)
        values = f.distinct(z)
        deviations = (values - values.mean(0)).detach() / (len(noise) - 1)
        deviations = deviations.view(*deviations.shape, *(1 for _ in space.score_shape))
        gradient = (deviations * space.statistics(z)).sum(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, solves=float(len(noise)), log_prob=log_prob)
