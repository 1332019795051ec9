"""Space of one categorical variable, or of n independent ones."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.spaces._softmax import log_softmax, softmax
from hardmax.spaces.abstract import IMPOSSIBLE, AbstractFactorised, find_largest, make_one_hot


@final
@dataclass(frozen=True)
class Categorical(AbstractFactorised):
    r"""One variable of k values, z one-hot `[*B, k]`; or n independent ones, z `[*B, n, k]` (also n = 1).

    $$ q(z) = \prod_i \operatorname{softmax}(\mathrm{scores}_i)[z_i] $$

    With Gumbel noise, $\operatorname{argmax}(\mathrm{scores} + \mathrm{noise})$ is a sample.

    Args:
        k: number of values, at least 1.
        n: number of variables, at least 1; None is one variable without a variable dimension.

    Raises:
        ArgumentError: k < 1 or n < 1.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.Categorical(3).argmax(torch.tensor([0.5, 2.0, 1.0]))
        tensor([0., 1., 0.])
        >>> hm.Categorical(3).neighbours(torch.tensor([0.0, 1.0, 0.0]))
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
        >>> hm.Categorical(10, 4).size
        10000

    References:
        Gumbel-max: Lorberbom et al., 2019, eq. 3.
    """

    k: int
    n: int | None = None

    def __post_init__(self) -> None:
        if self.k < 1 or (self.n is not None and self.n < 1):
            raise ArgumentError(f"Categorical needs at least one value and one variable, got k={self.k}, n={self.n}")

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[k]`, or `[n, k]` if n was given."""
        return (self.k,) if self.n is None else (self.n, self.k)

    @property
    def variables(self) -> int:
        """N, the number of variables."""
        return self.n or 1

    @property
    def size(self) -> int:
        """$k^N$."""
        return self.k**self.variables

    @property
    def categories(self) -> int | None:
        """K if there is one variable, else None."""
        return self.k if self.variables == 1 else None

    def argmax(self, scores: Float[Tensor, "*_ {self.k}"]) -> Float[Tensor, "*_ {self.k}"]:
        """Return the best value of each variable, the first of equal ones."""
        return make_one_hot(find_largest(scores), self.k, scores.dtype)

    @property
    def draw_shape(self) -> tuple[int, ...]:
        """`[1]`, or `[n, 1]` if n was given: one uniform number for each variable."""
        return (*self.score_shape[:-1], 1)

    def draw(self, scores: Float[Tensor, "*_B {self.k}"], noise: Float[Tensor, "*_SB _"]) -> Float[Tensor, "*_SB _"]:
        """Turn noise into samples of q: Gumbel noise by its arg max, uniform noise by the inverse of the CDF."""
        if noise.shape[-1] == self.k:
            return super().draw(scores, noise)
        return self._invert_cdf(softmax(scores.to(noise.dtype)), noise).to(scores.dtype)

    def draw_with_marginals(
        self, scores: Float[Tensor, "*_B {self.k}"], noise: Float[Tensor, "*_SB _"]
    ) -> tuple[Float[Tensor, "*_SB _"], Float[Tensor, "*_B {self.k}"]]:
        """Return samples of q and its probabilities, computed once where uniform noise has the dtype of the scores."""
        if noise.shape[-1] == self.k or noise.dtype != scores.dtype:
            return super().draw_with_marginals(scores, noise)
        q = self.marginals(scores)
        return self._invert_cdf(q.detach(), noise), q

    def _invert_cdf(self, q: Tensor, uniform: Tensor) -> Tensor:
        """Return the values that uniform numbers `[S, *B, 1]` select from probabilities `[*B, k]`: `[S, *B, k]`."""
        cdf = q.cumsum(-1)
        total = cdf[..., -1:]
        # Below the total also after rounding: values of probability zero at the end are never drawn.
        threshold = torch.minimum(uniform * total, total.nextafter(total.new_zeros(())))
        threshold = threshold.squeeze(-1).movedim(0, -1).contiguous()  # all samples search the same CDF
        # Scores of NaN, where validation is off, would give k.
        index = torch.searchsorted(cdf, threshold, right=True).movedim(-1, 0).clamp_max(self.k - 1)
        return make_one_hot(index[..., None], self.k, q.dtype)

    def log_prob(
        self, scores: Float[Tensor, "*_B {self.k}"], z: Float[Tensor, "*_LB {self.k}"]
    ) -> Float[Tensor, "..."]:
        r"""Return $\sum_i \log \operatorname{softmax}(\mathrm{scores}_i)[z_i]$."""
        self.batch_shape(scores)
        log_q = log_softmax(scores)
        return self.dot(z, log_q.masked_fill((z == 0) & log_q.isneginf(), 0.0))

    def entropy(self, scores: Float[Tensor, "*_ {self.k}"]) -> Float[Tensor, "..."]:
        """Return the sum of the variables' entropies, in nats."""
        self.batch_shape(scores)
        log_q = _compute_log_q(scores)
        return -self.dot(log_q.exp(), log_q)

    def kl(
        self, scores: Float[Tensor, "*_ {self.k}"], prior: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        r"""Return $\mathrm{KL}(q \,\|\, p)$; p is given by its scores, or uniform."""
        self.batch_shape(scores)
        log_q = _compute_log_q(scores)
        q = log_q.exp()  # takes a third of the time of a softmax
        if prior is None:
            return self.dot(q, log_q + math.log(self.k))
        log_p = prior.log_softmax(-1)
        return self.dot(q, log_q - log_p.masked_fill((q == 0) & log_p.isneginf(), 0.0))

    def marginals(self, scores: Float[Tensor, "*_ {self.k}"]) -> Float[Tensor, "*_ {self.k}"]:
        """Return the probabilities of the values."""
        return softmax(scores)

    def uncertainty(self, scores: Float[Tensor, "*_ {self.k}"]) -> Float[Tensor, "*_ 1"]:
        r"""Return half the Gini index of each variable, $(1 - \sum_c q_c^2) / 2$."""
        q = softmax(scores)
        return (q * (1 - q)).sum(-1, keepdim=True) / 2

    def per_variable(self, values: Float[Tensor, "*_ {self.k}"]) -> Float[Tensor, "*_ 1"]:
        r"""Return $\sum_c \mathrm{values}_{ic}$."""
        return values.sum(-1, keepdim=True)

    def leftover(
        self,
        scores: Float[Tensor, "*_B {self.k}"],
        noise: Float[Tensor, "*_SB {self.k}"],
        z: Float[Tensor, "*_SB {self.k}"],
    ) -> Float[Tensor, "*_SB 1"]:
        r"""Return the CDF of the largest perturbed score, $\mathrm{Gumbel}(\log Z)$, independent of its index."""
        top = self.perturb(scores, noise).amax(-1, keepdim=True)
        return (-(scores.logsumexp(-1, keepdim=True) - top).exp()).exp()

    def conditional(
        self,
        scores: Float[Tensor, "*_B {self.k}"],
        noise: Float[Tensor, "*_SB {self.k}"],
        z: Float[Tensor, "*_SB {self.k}"],
    ) -> Float[Tensor, "*_SB {self.k}"]:
        r"""Return the maximum $\mathrm{Gumbel}(\log Z)$ at z, and for other values Gumbels truncated at that maximum.

        The maximum is $\mathrm{top} = \log Z + \mathrm{noise}_z$. Every other value c gets

        $$ -\log\big(\exp(-\mathrm{top}) + \exp(-\mathrm{scores}_c - \mathrm{noise}_c)\big) $$
        """
        top = scores.logsumexp(-1, keepdim=True) + (noise * z).sum(-1, keepdim=True)
        return torch.where(z > 0, top, -torch.logaddexp(-top, -(scores + noise)))

    def residual(
        self,
        scores: Float[Tensor, "*_B {self.k}"],
        noise: Float[Tensor, "*_SB {self.k}"],
        z: Float[Tensor, "*_SB {self.k}"],
    ) -> Float[Tensor, "*_SB {self.k}"]:
        r"""Return $\mathrm{top} - \log Z$ at z, and for all other values their positions below the top, as Gumbels."""
        perturbed = self.perturb(scores, noise)
        top = perturbed.amax(-1, keepdim=True)
        # A tie, of probability zero except for rounding, would give noise of minus infinity.
        below = (perturbed - top).clamp_max(-torch.finfo(noise.dtype).eps)
        rest = noise - torch.log(-torch.expm1(below))
        return torch.where(z > 0, top - scores.logsumexp(-1, keepdim=True), rest)

    def deduct_conditional(
        self,
        scores: Float[Tensor, "*_B {self.k}"],
        noise: Float[Tensor, "*_SB {self.k}"],
        z: Float[Tensor, "*_SB {self.k}"],
        slope: Float[Tensor, "*_SB {self.k}"],
    ) -> Float[Tensor, "*_B {self.k}"]:
        r"""Return the mean of $r \odot \mathrm{slope} - q \sum_c r_c \, \mathrm{slope}_c$, $r_c = e^{p_c - \max p}$.

        $r_c$ is the derivative of the perturbed score $p_c$ of `conditional` for the maximum, whose derivative for the
        scores is q; the derivative of $p_c$ for its own score is $1 - r_c$.
        """
        perturbed = self.perturb(scores, noise)
        weighted = ((perturbed - perturbed.amax(-1, keepdim=True)).exp() * slope).mean(0)
        return weighted - self.marginals(scores) * weighted.sum(-1, keepdim=True)

    def antithetic(self, noise: Float[Tensor, "*_ {self.k}"]) -> Float[Tensor, "*_ {self.k}"]:
        r"""Return $-\log(-\log(1 - F))$ with $F = \exp(-\exp(-\mathrm{noise}))$."""
        tiny = torch.finfo(noise.dtype).tiny
        return -(-torch.log((-torch.expm1(-torch.exp(-noise))).clamp_min(tiny))).clamp_min(tiny).log()

    def relax(self, scores: Float[Tensor, "*_ {self.k}"], tau: float) -> Float[Tensor, "*_ {self.k}"]:
        """Return `softmax(scores / tau)`."""
        return softmax(scores if tau == 1 else scores / tau)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M *_ {self.k}"]:
        """Return all $k^N$ members, counting up, the last variable fastest."""
        self.check_enumerable()
        if self.variables == 1:
            return torch.eye(self.k, dtype=dtype, device=device).view(self.k, *self.event_shape)
        place = self.k ** torch.arange(self.variables - 1, -1, -1, device=device)
        digits = torch.arange(self.size, device=device)[:, None] // place % self.k
        members = make_one_hot(digits[..., None], self.k, dtype or torch.get_default_dtype())
        return members.view(self.size, *self.event_shape)

    @property
    def changes(self) -> int:
        """$N (k - 1)$: every variable to every other value."""
        return self.variables * (self.k - 1)

    def change(self, z: Float[Tensor, "*_ {self.k}"], index: Tensor) -> Float[Tensor, "*_ {self.k}"]:
        """Move variable `index // (k - 1)` by `index % (k - 1) + 1` values, cyclically."""
        variable, shift = index[..., None] // (self.k - 1), index[..., None] % (self.k - 1) + 1
        category = (z if self.n else z[..., None, :]).argmax(-1)
        variable = variable.expand(*category.shape[:-1], 1)
        old = category.gather(-1, variable)
        first, new = variable * self.k, (old + shift) % self.k
        flat = z.reshape(*category.shape[:-1], self.variables * self.k)
        return flat.scatter(-1, first + old, 0.0).scatter(-1, first + new, 1.0).view(z.shape)

    def changes_between(
        self, z: Float[Tensor, "*_ {self.k}"], other: Float[Tensor, "*_ {self.k}"]
    ) -> Bool[Tensor, "*_ M"]:
        """Return the change of every variable that differs."""
        shift = (other.argmax(-1, keepdim=True) - z.argmax(-1, keepdim=True)) % self.k
        return (shift == torch.arange(1, self.k, device=z.device)).flatten(-2 if self.n else -1)

    def parts(self, z: Float[Tensor, "*_ {self.k}"], gains: Float[Tensor, "M *L"]) -> Float[Tensor, "*_ {self.k}"]:
        """Return $f(z_i = c) - f(z)$ for every variable i and value c: zero at the current value."""
        z = z if self.n else z[..., None, :]
        by_shift = gains.movedim(0, -1).reshape(*z.shape[:-1], self.k - 1)
        by_shift = torch.nn.functional.pad(by_shift, (1, 0))
        shift = (torch.arange(self.k, device=z.device) - z.argmax(-1, keepdim=True)) % self.k
        values = by_shift.gather(-1, shift)
        return values if self.n else values[..., 0, :]


def _compute_log_q(scores: Tensor) -> Tensor:
    """Return the log-probabilities, a very low number for zero: its product with the probability is zero, not NaN."""
    return log_softmax(scores).clamp_min(max(IMPOSSIBLE, torch.finfo(scores.dtype).min))
