"""DisARM, or U2G: ARM without the noise that its pair of samples does not show."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.opposite_pairs import AbstractPairs


@final
@dataclass(frozen=True)
class DisArm(AbstractPairs):
    """DisARM: the difference of f at two samples of opposite noise, shared out among the bits in which they differ.

    With logistic noise, `z = 1[scores + noise > 0]` and `z' = 1[scores - noise > 0]`,

        gradient_i = (f(z) - f(z')) / 2 (z_i - z'_i) sigmoid(|scores_i|)

    which is the mean of `Arm` over all noise with this z and z'. It is also REINFORCE with two samples, each the
    other's baseline, for samples that are not independent: the sigmoid is the importance weight
    `q(z_i) q(z'_i) / p(z_i, z'_i)` of a bit in which they differ.

    Bias: none. Variance: never above that of `Arm`. On 20 bits we measured, against REINFORCE with leave-one-out at
    equal evaluations: 1 to 13 percent less at two evaluations, 1.3 to 1.5 times as much at four, 1.7 to 1.9 times at
    sixteen, since pairs are no baseline for each other. Cost: two evaluations of f per sample, one of them without its
    gradient, and f need not be differentiable. With more samples, the mean over independent pairs.

    Raises:
        NotExactError: the space is not `Binary`.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, noise = torch.zeros(3, requires_grad=True), torch.tensor([[3.0, 1.0, -1.0]])
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Binary(3), hm.DisArm(), noise=noise)
        >>> out.value.backward()
        >>> scores.grad, out.evaluations
        (tensor([ 0.2500,  0.2500, -0.2500]), 2.0)

    References:
        Dong, Mnih & Tucker, "DisARM: an antithetic gradient estimator for binary latent variables", 2020; Yin,
        Ho, Yan, Qian & Zhou, "Probabilistic best subset selection via gradient-based optimization", 2020 (U2G).
    """

    for_categories = "DisArmCategorical()"

    def weight(
        self,
        scores: Float[Tensor, "*B N"],
        noise: Float[Tensor, "S *B N"],
        z: Float[Tensor, "S *B N"],
        opposite: Float[Tensor, "S *B N"],
    ) -> Float[Tensor, "S *B N"]:
        """Return the mean of ARM's weight over all noise that gives this pair."""
        return (z - opposite) * scores.abs().sigmoid() / 2
