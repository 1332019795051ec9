"""Direct, averaged over the noise in closed form."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.estimators.single_changes import single_changes
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class AveragedDirect(AbstractEstimator):
    """Direct without the noise of its second arg max: the mean over the noise, for each variable given the others.

    By Gumbel-max z_i(epsilon) is a sample of `softmax(scores_i + epsilon f_i)`, `f_ic = f(z with z_i = c)`, so

        gradient_i = (softmax(scores_i + epsilon f_i) - softmax(scores_i)) / epsilon                       one-sided
        gradient_i = (softmax(scores_i + epsilon f_i) - softmax(scores_i - epsilon f_i)) / (2 epsilon)     two-sided

    and for bits with sigmoids. Its limit for epsilon -> 0 is `LocalExpectation`, exactly: the derivative of softmax.
    For one variable nothing random is left.

    Bias: O(epsilon) one-sided, O(epsilon^2) two-sided, as Direct's. Variance: that of the other variables alone, and
    bounded as epsilon falls. So a small epsilon costs nothing, and what remains of epsilon is that the gradient is at
    most 1/epsilon: a soft clip of large differences of f. Cost: as Direct, 1 + (number of single changes) evaluations
    per sample, K for one categorical.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        two_sided: perturb in both directions.

    Raises:
        ArgumentError: epsilon <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, f = torch.zeros(2, requires_grad=True), lambda z: z[..., 0]
        >>> hm.expectation(f, scores, hm.Categorical(2), hm.AveragedDirect(epsilon=1e-3)).value.backward()
        >>> scores.grad
        tensor([ 0.2500, -0.2500])

    References:
        Ours, after Lorberbom et al., 2019, theorem 1.
    """

    epsilon: float = 1.0
    two_sided: bool = False

    needs = ("draw", "marginals", "change", "parts")
    independent = True
    takes_integrand = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z for the other variables, and move the marginals of each."""
        held = scores.detach()
        z = space.draw(held, noise)
        values, parts = single_changes(f, space, z)
        ahead = space.marginals(held + self.epsilon * parts)
        behind = space.marginals(held - self.epsilon * parts) if self.two_sided else space.marginals(held)
        gradient = (ahead - behind) / ((2 if self.two_sided else 1) * self.epsilon)
        gradient = gradient if gradient.dim() == held.dim() else gradient.mean(0)
        return Estimate(carry(values.mean(0), space.dot(gradient, scores)), z, f.evaluations, float(len(noise)))
