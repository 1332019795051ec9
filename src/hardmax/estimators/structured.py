"""Estimators for structured spaces: the covariance of the Gibbs distribution, and the conditional gradient of bits."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators._single_changes import evaluate_flips
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.estimators.exact import Roulette
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import can_read_values


@final
@dataclass(frozen=True)
class GibbsCovariance(AbstractEstimator):
    """The covariance of f and the statistics, from exact samples of `q(z) = exp(<scores, statistics(z)>) / Z`.

    The gradient of `E_q[f]` is `Cov_q(f, statistics)`, so with samples z_1 ... z_S

        gradient = 1 / (S - 1) sum_s (f(z_s) - mean f) statistics(z_s)

    which is leave-one-out REINFORCE exactly (the deviations sum to zero, so the gradient of log Z drops out), but needs
    only samples from the space. For a bound, f is the whole integrand, `log p(x, z) - <scores, statistics(z)>`, whose
    deviations vanish where q is the posterior: there the gradient is zero for every draw, not only on average.

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
    needs_two_samples = True

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Weight the statistics of each draw by the deviation of f from its mean."""
        z, log_prob = space.draw_with_log_prob(scores.detach(), noise)
        values = f.distinct(z)
        deviations = (values - values.mean(0)).detach() / (len(noise) - 1)
        deviations = deviations.view(*deviations.shape, *(1 for _ in space.score_shape))
        gradient = (deviations * space.statistics(z)).sum(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, solves=float(len(noise)), log_prob=log_prob)


Draws = Literal["perturb-and-map", "gibbs"]


@final
@dataclass(frozen=True)
class ConditionalGradient(AbstractEstimator):
    """Every bit is summed out under its conditional distribution, the others held at a sample.

    With `field_i`, the log-odds of bit i given the others, and `D_i = f(z_i = 1) - f(z_i = 0)`,

        r_i = sigmoid'(field_i) D_i,      gradient = (r_i)_i for the bits, (r_i z_j + r_j z_i)_ij for the edges,

    the sum over bits of the covariance of f and the statistics given all other bits. For a bound f is the whole
    integrand, D_i contains `-field_i`, and the gradient is zero where all conditionals of q are those of the posterior.

    Bias: none for independent bits, where this is `LocalExpectation`; with couplings the covariance of the conditional
    means is left out, and no parameter makes that vanish. Its effect was measured (figure 3): 2.4 nats behind the
    unbiased `GibbsCovariance` at n = 15; unlike that it needs only arg maxes, at any n. Variance: low. Cost: 1 + n
    evaluations of f per sample; with roulette and `f.rows` or `f.flips` two to five times fewer.

    Args:
        draws: where z comes from: "perturb-and-map", one arg max, at any n; "gibbs", exact samples of q, n <= 20.
        roulette: False, True for the default `Roulette()`, or a `Roulette`.

    Raises:
        ArgumentError: unknown draws.
        NotExactError: a space whose variables are not bits, or one without exact samples where they are requested.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 21, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.prod(-1), scores, hm.PairwiseBinary(6), hm.ConditionalGradient())
        >>> out.value.sum().backward()
        >>> scores.grad.shape, out.evaluations
        (torch.Size([4, 21]), 7.0)

    References:
        Ours; local expectation is Titsias & Lazaro-Gredilla, 2015.
    """

    draws: Draws = "perturb-and-map"
    roulette: bool | Roulette = False

    takes_integrand = True

    def __post_init__(self) -> None:
        if self.draws not in ("perturb-and-map", "gibbs"):
            raise ArgumentError(f"draws must be 'perturb-and-map' or 'gibbs', got {self.draws!r}")

    @property
    def needs(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Bits, and their exact samples if requested."""
        return ("fields", "differential", "change", "parts", *(("draw",) if self.draws == "gibbs" else ()))

    @property
    def perturbs(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True unless the draws are exact."""
        return self.draws == "perturb-and-map"

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z and sum each bit out around it."""
        held = scores.detach()
        z = space.argmax(space.perturb(held, noise)) if self.perturbs else space.draw(held, noise)
        z = z.to(scores.dtype)
        fields = space.fields(held, z)
        variance = fields.sigmoid() * (-fields).sigmoid()
        if self.roulette:
            roulette = self.roulette if isinstance(self.roulette, Roulette) else Roulette()
            probability = roulette.probability(variance)
            kept = _fine_digits(noise[..., : z.shape[-1]]) < probability
            weights = torch.where(kept, variance / probability, 0.0)
        else:
            kept, weights = None, variance
        values, differences = evaluate_flips(f, space, z, kept if can_read_values() else None)
        step = weights * differences
        gradient = space.differential(z, step).mean(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, solves=float(len(noise)))


def _fine_digits(noise: Tensor) -> Tensor:
    """Return uniform numbers from the low-order digits of the noise, those after its thousandths.

    z depends on the noise, and hardly on its position within a thousandth.
    """
    return (noise * 1024.0) % 1.0
