"""ReinMax, a straight-through estimator that is accurate to second order."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractSampler, attach_gradient
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class ReinMax(AbstractSampler):
    r"""ReinMax: straight-through that is accurate to second order (Heun's method), at the same cost.

    Straight-through replaces $f(c) - f(z)$ by the slope of f at one discrete z. ReinMax uses the mean of the slopes at
    z and at c; the slope at c is evaluated when c is sampled. For one variable of values c, with
    $J(p) = \operatorname{diag}(p) - p p^T$, $q = \operatorname{softmax}(\mathrm{scores})$,
    $q_\tau = \operatorname{softmax}(\mathrm{scores} / \tau)$,

    $$ \begin{aligned}
       \mathrm{gradient} &= \Big(2 \, J\Big(\frac{q_\tau + z}{2}\Big) - \frac{1}{2} J(q)\Big) \nabla f(z) \\
       &= \Big(J(q_\tau) - \frac{1}{2} J(q) + \frac{1}{2} (z - q_\tau) (z - q_\tau)^T\Big) \nabla f(z)
       \end{aligned} $$

    For a bit of score s, which is the variable of two values with scores $[0, s]$, $J(p)$ is $p (1 - p)$ with
    $p = \operatorname{sigmoid}(s)$, and $(z - p_\tau) (z - p_\tau)^T$ is $(z - p_\tau)^2$. With tau = 1 the factor of
    $\nabla f$ is half the probability of the value that was not sampled. For any variable it is then the mean of the
    factor $J(q)$ of straight-through and of $(z - q) (z - q)^T$, which is also the limit of `GumbelRao` for a small tau
    and many draws.

    Bias: none (tau = 1) where f is a polynomial of degree two in each variable, the other variables held fixed: of one
    variable, and of products such as $(z_1^T A z_1) (z_2^T B z_2)$. Otherwise the third derivative remains, and no
    parameter reduces it. A tau other than 1 is biased also for linear f: there the mean is
    $(J(q_\tau) + (q - q_\tau) (q - q_\tau)^T / 2) \, \nabla f$. Variance: more than that of straight-through, since the
    slope along $z - q$ is added (1.7 to 3.6 times its standard deviation for four variables of eight values). Cost: one
    evaluation of f per sample, and its derivative in z.

    Args:
        tau: temperature of the backward pass, > 0; the authors advise 1 or more. z is a sample of q for every tau.

    Raises:
        ArgumentError: tau <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, noise = torch.zeros(3, requires_grad=True), torch.eye(3)  # this noise draws each value once
        >>> f = lambda z: z[..., 0] ** 2
        >>> hm.expectation(f, scores, hm.Categorical(3), hm.ReinMax(), noise=noise).value.backward()
        >>> scores.grad  # the exact gradient of E[f] = q_0; straight-through gives two thirds of it
        tensor([ 0.2222, -0.1111, -0.1111])

    References:
        Liu, Dong, Liu, Yu & Gao, "Bridging discrete and backpropagation: straight-through and beyond", 2023. The second
        form, for tau = 1: Shekhovtsov, "Cold analysis of Rao-Blackwellized straight-through Gumbel-softmax gradient
        estimator", 2023.
    """

    tau: float = 1.0

    needs = ("draw", "marginals", "per_variable")
    only_draws = True
    independent = True

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return a sample, and the sample with a gradient that is accurate to second order."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        hard, q = space.draw_with_marginals(scores, noise)
        # J is symmetric: it is the derivative of marginals, and of tau marginals(scores / tau) at q_tau.
        soft = q if self.tau == 1 else space.marginals(scores / self.tau)
        jacobians = q / 2 if self.tau == 1 else self.tau * soft - q / 2
        deviation = (hard - soft).detach()
        return hard, attach_gradient(hard, jacobians + deviation * space.per_variable(deviation * scores) / 2)
