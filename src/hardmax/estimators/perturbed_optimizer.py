"""Perturbed optimizers: the mean arg max, differentiated through the density of the noise."""

from dataclasses import dataclass, replace
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import AbstractSampler, carry, mean_of_others
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace, Binary, Categorical, PairwiseBinary
from hardmax.spaces.abstract import AbstractGibbs
from hardmax.types import Estimate
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class PerturbedOptimizer(AbstractSampler):
    """The derivative of `E[argmax(scores + sigma noise)]`, which is smooth, from the density of the noise alone.

    Moving the scores is moving the noise, so with `nu = -log(density)`, per coordinate,

        d E[z] / d scores = E[z grad nu(noise)] / sigma,    grad nu(g) = 1 - exp(-g)  for Gumbel noise,
                                                            grad nu(g) = tanh(g / 2)  for logistic noise;

    a draw z_s has the Jacobian `(z_s - baseline) grad nu(noise_s) / sigma`. The baseline, which the mean does not
    depend on, is the mean of the other samples; with a single one, the arg max of the scores without noise.

    This is REINFORCE for the noise, and needs no probabilities of z. The paper's layer is the mean
    `y = hm.sample(scores, space, hm.PerturbedOptimizer(sigma), samples=S).mean(0)` and a loss of y, a point inside the
    hull of the z; its gradient is consistent as S grows. In `hm.expectation` f is a function of each z.

    Bias: none for f linear in z, whatever sigma is: the target is the expectation over perturb-and-MAP, for `sigma = 1`
    and independent variables that over q. For other f the slope at z replaces f, to first order, and the bias stays.
    Variance: high, since all scores share the weight of each draw, and a single sample is rarely enough; for four
    categorical variables of eight values and a linear f, eleven times that of leave-one-out REINFORCE at 16 samples.
    Cost: one evaluation of f per sample, and its derivative in z; one arg max per sample, two for a single one.

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
        if not isinstance(space, Categorical | Binary | AbstractGibbs | PairwiseBinary):
            raise NotExactError(
                f"{self} needs the density of the noise, known for Gumbel and logistic noise, and not for that "
                f"of {space}; use ImplicitMLE() or Direct()"
            )
        if isinstance(space, PairwiseBinary) and space.score_shape != space.event_shape:
            raise NotExactError(
                f"{self} needs noise on every score, but {space} perturbs the bits and not the couplings, so it has no "
                f"gradient for these; use ImplicitMLE() or Direct()"
            )

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return the arg max, and the same with its share of the gradient of the mean."""
        held = scores.detach()
        hard = space.argmax(space.perturb(held, self.sigma * noise)).to(scores.dtype)
        baseline = mean_of_others(hard) if len(hard) > 1 else space.argmax(held).to(scores.dtype)
        # Scores times grad nu: its derivative is grad nu, and the difference to z multiplies f's slope.
        along = space.dot(_nu_gradient(space, noise) / self.sigma, scores).to(scores.dtype)
        along = along.view(*along.shape, *(1 for _ in space.event_shape))
        return hard, carry(hard, (hard - baseline) * along)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z and differentiate by autograd; a single sample needs one more arg max."""
        return replace(super().estimate(f, scores, space, noise), solves=float(max(len(noise), 2)))


def _nu_gradient(space: AbstractSpace, noise: Tensor) -> Tensor:
    """Return the derivative of minus the log-density of the noise, per coordinate."""
    if isinstance(space, Binary | PairwiseBinary):
        return (noise / 2).tanh()
    return -(-noise).expm1()
