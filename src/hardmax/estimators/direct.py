"""Direct optimization through the arg max."""

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
class Direct(AbstractEstimator):
    """Direct optimization: the difference of two arg maxes that share their noise.

    With `z* = argmax_z {scores(z) + noise(z)}` and `z(e) = argmax_z {e f(z) + scores(z) + noise(z)}`,

        gradient = (statistics(z(epsilon)) - statistics(z*)) / epsilon                          one-sided
        gradient = (statistics(z(epsilon)) - statistics(z(-epsilon))) / (2 epsilon)             two-sided

    For more than one variable f is replaced by its low-dimensional approximation around z*,
    `f~(z) = f(z*) + sum_i [f(z* with z_i) - f(z*)]`, so that f is evaluated at the single changes of z* alone.

    Bias: O(epsilon) one-sided, O(epsilon^2) two-sided; none in the limit, with the approximation too. Variance:
    grows as 1/epsilon. The gradient is at most 1/epsilon, so differences of f that are large against 1/epsilon
    saturate. Cost: K evaluations of f for one categorical, 1 + (number of single changes) per sample otherwise;
    two arg maxes per sample, three if two-sided.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        two_sided: perturb in both directions.

    Raises:
        ArgumentError: epsilon <= 0.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(5, 3, requires_grad=True), torch.tensor([1.0, 2.0, 4.0])
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(3), hm.Direct(epsilon=0.5))
        >>> out.value.sum().backward()
        >>> scores.grad.shape, out.evaluations, out.solves
        (torch.Size([5, 3]), 3.0, 2.0)

    References:
        Lorberbom, Gane, Jaakkola & Hazan, "Direct optimization through arg max for discrete variational
        auto-encoder", 2019, theorem 1 and section 4.1; McAllester, Hazan & Keshet, 2010.
    """

    epsilon: float = 1.0
    two_sided: bool = False

    needs = ("change", "parts")

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Solve for z*, evaluate f around it, and solve again."""
        perturbed = space.perturb(scores.detach(), noise)
        z = space.argmax(perturbed)
        values, parts = single_changes(f, space, z.to(scores.dtype))

        def moved(step: float) -> Tensor:
            return space.statistics(space.argmax(space.augment(perturbed, step * parts)))

        if self.two_sided:
            gradient = (moved(self.epsilon) - moved(-self.epsilon)) / (2 * self.epsilon)
        else:
            gradient = (moved(self.epsilon) - space.statistics(z)) / self.epsilon
        value = carry(values.mean(0), space.dot(gradient.mean(0).to(scores.dtype), scores))
        solves = (2.0 + self.two_sided) * len(noise)
        return Estimate(value, z.to(scores.dtype), f.evaluations, solves)
