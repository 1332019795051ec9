"""Estimators that differentiate the mean of a perturbed arg max through the density of its noise."""

from dataclasses import dataclass, replace
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import (
    AbstractEstimator,
    AbstractSampler,
    attach_gradient,
    attach_score_gradient,
    mean_of_others,
    mean_over_samples,
)
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace, PairwiseBinary
from hardmax.types import Estimate
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class PerturbedOptimizer(AbstractSampler):
    r"""Perturbed optimizer: differentiates the mean arg max, which is smooth.

    $$ \mathbb{E}[\operatorname{argmax}(\mathrm{scores} + \sigma \cdot \mathrm{noise})] $$

    Only the density of the noise is needed. Moving the scores is equivalent to moving the noise, so with
    $\nu = -\log(\mathrm{density})$, per coordinate,

    $$ \frac{\partial \, \mathbb{E}[z]}{\partial \, \mathrm{scores}}
       = \frac{\mathbb{E}[z \, \nabla \nu(\mathrm{noise})]}{\sigma}, $$

    with $\nabla \nu(g) = 1 - \exp(-g)$ for Gumbel noise, $\tanh(g / 2)$ for logistic and g for normal noise
    (`space.noise_slope`; `Perturbation` for spaces with a choice). A draw
    $z_s$ has the Jacobian $(z_s - \mathrm{baseline}) \, \nabla \nu(\mathrm{noise}_s) / \sigma$. The baseline, which
    does not change the mean, is the mean of the other samples; with a single sample, the arg max of the scores without
    noise.

    This is REINFORCE for the noise, and needs no probabilities of z. The layer of the paper is the mean
    `y = hm.sample(scores, space, hm.PerturbedOptimizer(sigma), samples=S).mean(0)` with a loss of y, a point inside the
    convex hull of the z; its gradient is consistent as S grows. In `hm.expectation`, f is a function of each z.

    Bias: none for f linear in z, at any sigma. The target is the expectation over perturb-and-MAP (the arg max of
    perturbed scores), which for `sigma = 1` and independent variables is that over q. For other f the slope at z
    replaces f, to first order, and that bias remains. Variance: high, since all scores share the weight of each draw,
    and a single sample is rarely enough; for four categorical variables of eight values and a linear f, eleven times
    that of leave-one-out REINFORCE at 16 samples. Cost: one evaluation of f per sample, and its derivative in z; one
    arg max per sample, two for a single sample.

    Args:
        sigma: scale of the noise, > 0.

    Raises:
        ArgumentError: sigma <= 0.
        NotExactError: a space with couplings, which are not perturbed (`PairwiseBinary` with edges), or one whose noise
            density is unknown.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, requires_grad=True)
        >>> generator = torch.Generator().manual_seed(0)
        >>> z = hm.sample(scores, hm.Subset(4, 2), hm.PerturbedOptimizer(), samples=1000, generator=generator)
        >>> y = z.mean(0)
        >>> loss = (y - torch.tensor([1.0, 1.0, 0.0, 0.0])).square().sum()
        >>> loss.backward()
        >>> (scores.grad > 0).tolist()
        [False, False, True, True]

    References:
        Berthet, Blondel, Teboul, Cuturi, Vert & Bach, "Learning with differentiable perturbed optimizers", 2020,
        proposition 3.1; Abernethy, Lee & Tewari, 2016. Deviation: the baselines, which the paper does not have.
    """

    sigma: float = 1.0

    perturbs = True

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces where some scores are not perturbed, or the density of the noise is unknown."""
        super().check(space, samples)
        _check_noise_density(self, space)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return the arg max, and the arg max with its part of the gradient of the mean."""
        detached = scores.detach()
        hard = space.argmax(space.perturb(detached, self.sigma * noise)).to(scores.dtype)
        baseline = mean_of_others(hard) if len(hard) > 1 else space.argmax(detached).to(scores.dtype)
        # The derivative of <grad nu, scores> is grad nu; the factor (z - baseline) multiplies the slope of f.
        factor = space.dot(space.noise_slope(detached, noise) / self.sigma, scores).to(scores.dtype)
        factor = factor.view(*factor.shape, *(1 for _ in space.event_shape))
        return hard, attach_gradient(hard, (hard - baseline) * factor)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z and differentiate by autograd; a single sample needs one more arg max."""
        return replace(super().estimate(f, scores, space, noise), solves=float(max(len(noise), 2)))


@final
@dataclass(frozen=True)
class PerturbedReinforce(AbstractEstimator):
    r"""REINFORCE for the noise of a perturbed arg max: unbiased for any f, and needs an arg max alone.

    With $z_s = \operatorname{argmax}(\mathrm{perturbed}_s)$,

    $$ \mathrm{gradient} = \frac{1}{S} \sum_s (f(z_s) - b_s) \,
       \nabla_{\mathrm{scores}} \log p(\mathrm{perturbed}_s \mid \mathrm{scores}), $$

    where the baseline $b_s$ is the mean of f at the other samples. f may be any function of z, also one without a
    derivative: the result of a simulation, or of another solver.

    Bias: none, for the expectation over perturb-and-MAP (the arg max of perturbed scores). Variance: high; it grows
    with the number of scores and as $1/\mathrm{scale}^2$ of the noise, since every score shares the weight of each
    draw. Use many samples, and `ImplicitMLE` or `Direct` where f allows. Cost: one evaluation of f and one arg max per
    sample.

    Raises:
        ArgumentError: fewer than two samples.
        NotExactError: a space with scores that are not perturbed (`PairwiseBinary` with edges), or one whose noise
            density is unknown.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, requires_grad=True)
        >>> f = lambda z: (z[..., 0] * z[..., 1] > 0).float()  # not differentiable
        >>> generator = torch.Generator().manual_seed(0)
        >>> out = hm.expectation(f, scores, hm.Subset(4, 2), hm.PerturbedReinforce(), samples=2000, generator=generator)
        >>> out.value.backward()
        >>> (scores.grad > 0).tolist()
        [True, True, False, False]

    References:
        Silvestri, Berden, Mandi, Mahmutogullari, Mulamba, De Filippo, Guns & Lombardi, "Score function gradient
        estimation to widen the applicability of decision-focused learning", 2023; Williams, 1992.
    """

    needs_two_samples = True
    couples_samples = True
    perturbs = True
    default_samples = 16

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces where some scores are not perturbed, or the density of the noise is unknown."""
        super().check(space, samples)
        _check_noise_density(self, space)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at the arg max of each sample, and weigh the slopes of the noise by it."""
        detached = scores.detach()
        z = space.argmax(space.perturb(detached, noise)).to(scores.dtype)
        values = f.evaluate_plain(z)
        weights = values.detach() + f.linear_part(z).detach()
        weights = weights - mean_of_others(weights)
        slopes = space.noise_slope(detached, noise)
        gradient = (weights.view(*weights.shape, *(1 for _ in space.score_shape)) * slopes).mean(0).to(scores.dtype)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient)
        return Estimate(value, z, f.evaluations, float(len(noise)))


def _check_noise_density(estimator: AbstractEstimator, space: AbstractSpace) -> None:
    """Raise `NotExactError` unless all scores are perturbed by noise of a known density."""
    if not space.offers("noise_slope"):
        raise NotExactError(
            f"{estimator} needs the density of the noise (noise_slope), which {space} does not offer; "
            f"use ImplicitMLE() or Direct()"
        )
    if isinstance(space, PairwiseBinary) and space.score_shape != space.event_shape:
        raise NotExactError(
            f"{estimator} needs noise on every score, but {space} perturbs the bits and not the couplings, so it has "
            f"no gradient for these; use ImplicitMLE() or Direct()"
        )
