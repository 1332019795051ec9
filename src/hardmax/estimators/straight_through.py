"""The straight-through estimator."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.estimators.abstract import AbstractSampler, carry
from hardmax.spaces import AbstractSpace
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class StraightThrough(AbstractSampler):
    """Straight-through: f sees a hard sample, the gradient goes to its mean.

    `z = sample + m - m.detach()`, `m = marginals(scores / tau)`.

    The sample is one of q whatever tau is: tau is the temperature of the backward pass alone.

    Bias: none where f is linear in z and tau = 1; otherwise f's slope at a corner stands in for its differences
    between corners, and nothing makes the bias fall. Another tau gives the gradient of `E_{q_tau}[f]` for linear f,
    `q_tau` the distribution of `scores / tau`: a bias of its own, for every f. A large one shrinks the gradient as
    1/tau and spreads it evenly over the values, so that those that q has given up get some; a small one leaves it to
    those between which q has not decided. Variance: low. Cost: one evaluation of f per sample, and its derivative in z.

    Args:
        tau: temperature of the backward pass, > 0.

    Raises:
        ArgumentError: tau <= 0.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(2, requires_grad=True)
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Categorical(2), hm.StraightThrough())
        >>> out.value.backward()
        >>> scores.grad
        tensor([ 0.2500, -0.2500])

    References:
        Bengio, Leonard & Courville, "Estimating or propagating gradients through stochastic neurons", 2013;
        a temperature of the backward pass alone: Shah, Yan, Mozer & Liu, "Improving discrete optimisation via decoupled
        straight-through Gumbel-softmax", 2024.
    """

    tau: float = 1.0

    needs = ("draw", "marginals")

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces whose z are not their own statistics: there the mean of z is no marginal."""
        super().check(space, samples)
        if space.event_shape != space.score_shape:
            raise NotExactError(
                f"{self} needs a space whose z has the shape of its scores, which {space} is not; use "
                f"GumbelSoftmax(hard=True) or ImplicitMLE()"
            )

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with the gradient of its mean."""
        hard = space.draw(scores.detach(), noise)
        return hard, carry(hard, space.marginals(scores / self.tau))
