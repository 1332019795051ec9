"""Space of n independent bits."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from hardmax.errors import ArgumentError
from hardmax.random import draw_logistic
from hardmax.spaces.abstract import IMPOSSIBLE, AbstractFactorised


@final
@dataclass(frozen=True)
class Binary(AbstractFactorised):
    r"""n independent bits; z is `[*B, n]`, zeros and ones, and scores are the logits of the ones.

    $$ q(z) = \prod_i \operatorname{sigmoid}((2 z_i - 1) \, \mathrm{scores}_i) $$

    With logistic noise, $\mathbb{1}[\mathrm{scores} + \mathrm{noise} > 0]$ is a sample.

    Args:
        n: number of bits, at least 1.

    Raises:
        ArgumentError: n < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.Binary(3)
        >>> space.argmax(torch.tensor([0.5, -1.0, 2.0]))
        tensor([1., 0., 1.])
        >>> space.neighbours(torch.tensor([1.0, 0.0, 1.0]))
        tensor([[0., 0., 1.],
                [1., 1., 1.],
                [1., 0., 0.]])
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ArgumentError(f"Binary needs at least one bit, got n={self.n}")

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[n]`."""
        return (self.n,)

    @property
    def size(self) -> int:
        """$2^n$."""
        return 2**self.n

    @property
    def variables(self) -> int:
        """N, the number of bits."""
        return self.n

    def argmax(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B {self.n}"]:
        """Return one for each bit with a positive score, else zero."""
        return (scores > 0).to(scores.dtype)

    def noise(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "*shape {self.n}"]:
        """Draw logistic noise."""
        return draw_logistic((*shape, self.n), generator=generator, dtype=dtype, device=device)

    def noise_slope(self, scores: Float[Tensor, "..."], noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\tanh(g / 2)$, for logistic noise g."""
        return (noise / 2).tanh()

    def log_prob(self, scores: Float[Tensor, "*B {self.n}"], z: Float[Tensor, "*LB {self.n}"]) -> Float[Tensor, "*LB"]:
        r"""Return $\sum_i \log \operatorname{sigmoid}((2 z_i - 1) \, \mathrm{scores}_i)$."""
        self.batch_shape(scores)
        return logsigmoid((2 * z - 1) * scores).sum(-1)

    def entropy(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B"]:
        """Return the sum of the bits' entropies, in nats."""
        self.batch_shape(scores)
        return -_expected_log_prob(scores, scores).sum(-1)

    def kl(
        self, scores: Float[Tensor, "*B {self.n}"], prior: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "*B"]:
        r"""Return $\mathrm{KL}(q \,\|\, p)$; p is given by its logits, or uniform.

        Value and gradient are also correct where the prior's probability rounds to zero or one; there
        `torch.distributions` returns inf and a wrong gradient.
        """
        self.batch_shape(scores)
        prior = scores.new_zeros(()) if prior is None else prior
        return (_expected_log_prob(scores, scores) - _expected_log_prob(scores, prior)).sum(-1)

    def marginals(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B {self.n}"]:
        """Return the probabilities of the ones."""
        return scores.sigmoid()

    def uncertainty(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B {self.n}"]:
        """Return the variance of each bit, $q (1 - q)$."""
        return scores.sigmoid() * (-scores).sigmoid()

    def per_variable(self, values: Float[Tensor, "*L {self.n}"]) -> Float[Tensor, "*L {self.n}"]:
        """Return the values: a bit has one score."""
        return values

    def leftover(
        self,
        scores: Float[Tensor, "*B {self.n}"],
        noise: Float[Tensor, "S *B {self.n}"],
        z: Float[Tensor, "S *B {self.n}"],
    ) -> Float[Tensor, "S *B {self.n}"]:
        r"""Return the tail probability of the noise, $P(\text{more extreme noise} \mid z_i)$, uniform for any $z_i$."""
        sign = 2 * z - 1
        return (logsigmoid(-sign * noise) - logsigmoid(sign * scores)).exp()

    def conditional(
        self,
        scores: Float[Tensor, "*B {self.n}"],
        noise: Float[Tensor, "S *B {self.n}"],
        z: Float[Tensor, "S *B {self.n}"],
    ) -> Float[Tensor, "S *B {self.n}"]:
        r"""Return perturbed scores given z: a logistic cut off at zero.

        $$ \mathrm{scores} + (2 z - 1) \operatorname{logit}(1 - v \, q(z)), \qquad v \text{ uniform} $$
        """
        sign = 2 * z - 1
        tail = logsigmoid(-sign * noise) + logsigmoid(sign * scores)
        return scores + sign * (torch.log(-torch.expm1(tail)) - tail)

    def residual(
        self,
        scores: Float[Tensor, "*B {self.n}"],
        noise: Float[Tensor, "S *B {self.n}"],
        z: Float[Tensor, "S *B {self.n}"],
    ) -> Float[Tensor, "S *B {self.n}"]:
        r"""Return $(2 z - 1) \operatorname{logit}(1 - v)$, v the `leftover`."""
        sign = 2 * z - 1
        # v = 1 is noise exactly on the boundary between the two values; rounding may exceed it.
        log_v = (logsigmoid(-sign * noise) - logsigmoid(sign * scores)).clamp_max(-torch.finfo(noise.dtype).eps)
        return sign * (torch.log(-torch.expm1(log_v)) - log_v)

    def antithetic(self, noise: Float[Tensor, "*L {self.n}"]) -> Float[Tensor, "*L {self.n}"]:
        """Return `-noise`."""
        return -noise

    def relax(self, scores: Float[Tensor, "*L {self.n}"], tau: float) -> Float[Tensor, "*L {self.n}"]:
        """Return `sigmoid(scores / tau)`."""
        return (scores / tau).sigmoid()

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M {self.n}"]:
        """Return all $2^n$ codes, counting up, the last bit fastest."""
        self.check_enumerable()
        place = torch.arange(self.n - 1, -1, -1, device=device)
        return ((torch.arange(self.size, device=device)[:, None] >> place) & 1).to(dtype or torch.get_default_dtype())

    @property
    def changes(self) -> int:
        """N flips."""
        return self.n

    def change(self, z: Float[Tensor, "*L {self.n}"], index: Tensor) -> Float[Tensor, "*L {self.n}"]:
        """Flip bit `index`."""
        chosen = torch.arange(self.n, device=z.device) == index[..., None]
        return torch.where(chosen, 1 - z, z)

    def changes_between(
        self, z: Float[Tensor, "*L {self.n}"], other: Float[Tensor, "*L {self.n}"]
    ) -> Bool[Tensor, "*L {self.n}"]:
        """Return the bits that differ."""
        return z != other

    def parts(self, z: Float[Tensor, "*L {self.n}"], gains: Float[Tensor, "M *L"]) -> Float[Tensor, "*L {self.n}"]:
        """Return $f(z_i = 1) - f(z_i = 0)$ for every bit, from the gain of its flip."""
        return (1 - 2 * z) * gains.movedim(0, -1)

    def fields(
        self, scores: Float[Tensor, "*B {self.n}"], z: Float[Tensor, "*LB {self.n}"]
    ) -> Float[Tensor, "*LB {self.n}"]:
        """Return the scores: the bits are independent."""
        return scores.expand(z.shape)

    def differential(
        self, z: Float[Tensor, "*L {self.n}"], step: Float[Tensor, "*L {self.n}"]
    ) -> Float[Tensor, "*L {self.n}"]:
        """Return the step, since `statistics(z) = z`."""
        return step


def _expected_log_prob(scores: Tensor, other: Tensor) -> Tensor:
    """Return `E_q[log p]` per bit."""
    lowest = max(IMPOSSIBLE, torch.finfo(scores.dtype).min)  # instead of minus infinity, whose product with zero is NaN
    scores, other = scores.clamp_min(lowest), other.clamp_min(lowest)
    return scores.sigmoid() * logsigmoid(other) + (-scores).sigmoid() * logsigmoid(-other)
