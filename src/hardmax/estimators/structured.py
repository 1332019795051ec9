"""Estimators for variables that interact: covariance from exact samples, and the conditional gradient of bits."""

from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators._single_changes import evaluate_flips
from hardmax.estimators.abstract import AbstractEstimator, attach_score_gradient, mean_over_samples
from hardmax.estimators.exact import Roulette
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Estimate


@final
@dataclass(frozen=True)
class GibbsCovariance(AbstractEstimator):
    r"""Gibbs covariance: estimates the gradient as the covariance of f and the statistics of exact samples of q.

    q is the Gibbs distribution $q(z) = \exp(\langle \mathrm{scores}, \mathrm{statistics}(z) \rangle) / Z$. The gradient
    of $\mathbb{E}_q[f]$ is $\operatorname{Cov}_q(f, \mathrm{statistics})$, so with samples $z_1, \ldots, z_S$

    $$ \mathrm{gradient} = \frac{1}{S - 1} \sum_s \big(f(z_s) - \bar f\big) \, \mathrm{statistics}(z_s), \qquad
       \bar f = \frac{1}{S} \sum_s f(z_s), $$

    which equals leave-one-out REINFORCE (the deviations sum to zero, so the gradient of log Z drops out), but needs
    only samples from the space. For a bound, f is the entire integrand,
    $\log p(x, z) - \langle \mathrm{scores}, \mathrm{statistics}(z) \rangle$, whose deviations vanish where q is the
    posterior: there the gradient is zero for every draw, not only on average.

    Bias: none. Variance: decreases as $1/S$. Cost: S evaluations of f; where f has `rows`, one for each different z.

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
    only_draws = True
    default_samples = 16
    takes_integrand = True
    couples_samples = True
    needs_two_samples = True

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Weight the statistics of each draw by the deviation of f from its mean."""
        z, log_prob = space.draw_with_log_prob(scores.detach(), noise)
        values = f.evaluate_distinct(z)
        gradient = space.sum_statistics((values - values.mean(0)).detach() / (len(noise) - 1), z)
        plain = values if f.linear is None else values - f.linear_part(z)
        value = attach_score_gradient(plain.mean(0), scores, gradient)
        return Estimate(value, z, f.evaluations, solves=float(len(noise)), log_prob=log_prob)


Draws = Literal["perturb-and-map", "gibbs"]


@final
@dataclass(frozen=True)
class ConditionalGradient(AbstractEstimator):
    r"""Conditional gradient for interacting bits: sums out each bit given the other bits, which are held at a sample.

    With $\mathrm{field}_i$, the log-odds of bit i given the other bits, and $D_i = f(z_i = 1) - f(z_i = 0)$,

    $$ r_i = \operatorname{sigmoid}'(\mathrm{field}_i) \, D_i. $$

    The gradient is $(r_i)_i$ for the bits and $(r_i z_j + r_j z_i)_{ij}$ for the edges: the sum over bits of the
    covariance of f and the statistics given all other bits. For a bound, f is the entire integrand, $D_i$ contains
    $-\mathrm{field}_i$, and the gradient is zero where all conditionals of q are those of the posterior.

    Bias: none for independent bits, where this is `LocalExpectation`. With couplings the covariance of the conditional
    means is left out, and no parameter makes this bias vanish. We measured its effect (figure 3): 2.4 nats behind the
    unbiased `GibbsCovariance` at n = 15; but it needs only arg maxes, at any n. Variance: low. Cost: 1 + n evaluations
    of f per sample; with roulette and `f.rows` or `f.changes` two to five times fewer.

    Args:
        draws: how z is drawn: "perturb-and-map", one arg max, at any n; "gibbs", exact samples of q, n <= 20.
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
        """Methods of spaces of bits; exact samples with `draws="gibbs"`."""
        return ("fields", "differential", "change", "parts", *(("draw",) if self.draws == "gibbs" else ()))

    @property
    def perturbs(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True unless the samples are exact."""
        return self.draws == "perturb-and-map"

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z, and sum out each bit with the other bits held at z."""
        detached = scores.detach()
        z = space.argmax(space.perturb(detached, noise)) if self.perturbs else space.draw(detached, noise)
        z = z.to(scores.dtype)
        fields = space.fields(detached, z)
        variance = fields.sigmoid() * (-fields).sigmoid()
        if self.roulette:
            roulette = self.roulette if isinstance(self.roulette, Roulette) else Roulette()
            probability = roulette.probability(variance)
            is_chosen = _fine_digits(noise[..., : z.shape[-1]]) < probability
            weights = torch.where(is_chosen, variance / probability, 0.0)
        else:
            is_chosen, weights = None, variance
        values, differences = evaluate_flips(f, space, z, is_chosen if can_read_values() else None)
        step = weights * differences
        gradient = space.differential(z, step).mean(0)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient)
        return Estimate(value, z, f.evaluations, solves=float(len(noise)))


def _fine_digits(noise: Tensor) -> Tensor:
    """Return uniform numbers in [0, 1) from the digits of the noise below 1/1024.

    They are almost independent of z, which hardly depends on these digits.
    """
    return (noise * 1024.0) % 1.0
