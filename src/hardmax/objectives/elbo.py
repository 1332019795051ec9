"""The evidence lower bound, with the gradient that suits the estimator."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator, Direct, Exact, LocalExpectation
from hardmax.evaluator import Evaluator
from hardmax.expectations import expectation
from hardmax.objectives.prior import check_prior
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate, Objective

Kl = Literal["auto", "beside", "none"]


@dataclass(frozen=True)
class Elbo(Estimate):
    """An estimate of the evidence lower bound, and the two terms it is made of.

    Attributes:
        reconstruction: `[*B]`. Estimate of `E_q[log p(x | z)]`, detached.
        kl: `[*B]`. `KL(q || prior)`, detached.
    """

    reconstruction: Float[Tensor, "*B"] = field(kw_only=True)
    kl: Float[Tensor, "*B"] = field(kw_only=True)


def elbo(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractEstimator | Literal["auto"] = "auto",
    *,
    prior: Tensor | None = None,
    kl: Kl = "auto",
    samples: int = 1,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    chunk_size: int | None = None,
    validate: bool = True,
) -> Elbo:
    """Estimate the evidence lower bound `E_q[log p(x | z)] - KL(q(z | scores) || p(z))`.

    How the KL takes part in the gradient for scores:

    - `"beside"`: its own, analytic gradient is added to the estimator's for the first term: the paper's form.
    - `"auto"`: as "beside", but for `Direct` the whole integrand is its objective,
      `F(z) = log p(x | z) + log p(z) - log q(z)`, log q held fixed ("posterior direct"). Then z(1) is a sample of the
      true posterior, the mean gradient is `p(z | x) - q(z)` at epsilon = 1, and for one categorical the only fixed
      point is `q = p(z | x)`, for any epsilon up to 1. In the paper's form the direct gradient is at most 1/epsilon
      while the KL's is not scaled down, and training stalls.
    - `"none"`: the KL is in the value but not in the gradient for scores: what the paper's released code trains.

    Args:
        likelihood: `log p(x | z)`, an objective as for `expectation`; `BernoulliLikelihood`, `GaussianLikelihood`.
        scores: `[*B, *score]`, the encoder's output.
        space: what z may be; offers `kl` and `log_prob`.
        estimator: "auto", by what was measured: for one categorical `Exact` where the likelihood gives all
            categories at once, else `Direct` (posterior direct); for independent variables `LocalExpectation`, with
            roulette where the likelihood has rows.
        prior: scores of the prior `[*score]`, possibly learned; None is uniform.
        kl: see above.
        samples: S, how many z are drawn for each example.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, instead of drawing it.
        chunk_size: the most candidates that the likelihood gets in one call.
        validate: look at values for NaN and inf.

    Returns:
        The bound, and its terms beside it.

    Raises:
        ArgumentError: an argument that cannot be used.
        NotExactError: a space without KL or log_prob, or one that the estimator cannot serve.

    Example:
        >>> import torch, hardmax as hm
        >>> encoder, decoder = torch.nn.Linear(784, 10), torch.nn.Linear(10, 784)
        >>> x = torch.rand(8, 784).round()
        >>> out = hm.elbo(hm.BernoulliLikelihood(decoder, x), encoder(x), hm.Categorical(10), hm.Direct())
        >>> (-out.value.mean()).backward()
        >>> out.value.shape, bool(torch.allclose(out.value, out.reconstruction - out.kl))
        (torch.Size([8]), True)

    References:
        Lorberbom et al., 2019, eq. 1 and 9 (with the sign of the KL corrected). Posterior direct is ours.
    """
    if kl not in ("auto", "beside", "none"):
        raise ArgumentError(f"kl must be 'auto', 'beside' or 'none', got {kl!r}")
    if isinstance(estimator, str):
        estimator = _automatic(estimator, likelihood, space)
    inside = kl == "auto" and isinstance(estimator, Direct)
    check_prior(prior, space)
    f = _Integrand(likelihood, scores, space, prior, chunk_size) if inside else likelihood
    out = expectation(
        f,
        scores,
        space,
        estimator,
        samples=samples,
        generator=generator,
        noise=noise,
        chunk_size=chunk_size,
        validate=validate,
    )
    reconstruction = out.value.detach()
    divergence = space.kl(scores.detach() if inside or kl == "none" else scores, prior)
    if isinstance(f, _Integrand):
        # The gradient is the integrand's; the value takes the KL in closed form, without the noise of log q(z).
        value = out.value - (f.rest(out.z).mean(0) + divergence).detach()
        reconstruction = value.detach() + divergence.detach()
    else:
        value = out.value - divergence
    return Elbo(
        value, out.z, out.evaluations, out.solves, out.auxiliary, reconstruction=reconstruction, kl=divergence.detach()
    )


class _Integrand:
    """F(z) = log p(x | z) + log p(z) - log q(z), log q held fixed: its own gradient has mean zero."""

    def __init__(
        self,
        likelihood: Objective,
        scores: Tensor,
        space: AbstractSpace,
        prior: Tensor | None,
        chunk_size: int | None,
    ) -> None:
        self._likelihood = likelihood
        self._chunk_size = chunk_size
        self._uniform = -math.log(space.size)
        self._scores = scores.detach()
        self._space = space
        self._prior = prior
        self._rest_table: Tensor | None = None  # kept once the table has been asked for
        if space.categories is not None and hasattr(likelihood, "pairs"):
            self.table = self._table
            self.shares_rows = True

    def __call__(self, z: Tensor) -> Tensor:
        return self._likelihood(z) + self.rest(z)

    def rest(self, z: Tensor) -> Tensor:
        """Return log p(z) - log q(z)."""
        if self._rest_table is not None:
            return (z.view(len(z), *self._rest_table.shape) * self._rest_table).sum(-1)
        log_p = self._uniform if self._prior is None else self._space.log_prob(self._prior, z)
        return log_p - self._space.log_prob(self._scores, z)

    def _table(self) -> Tensor:
        space, scores = self._space, self._scores
        values = Evaluator(self._likelihood, scores, space, chunk_size=self._chunk_size, validate=False).table()
        log_p = self._uniform if self._prior is None else space.log_probs(self._prior)
        self._rest_table = log_p - space.log_probs(scores)
        return values + self._rest_table


def _automatic(name: str, likelihood: Objective, space: AbstractSpace) -> AbstractEstimator:
    if name != "auto":
        raise ArgumentError(f"estimator must be an estimator such as Direct() or 'auto', got {name!r}")
    if space.categories is not None:
        at_once = hasattr(likelihood, "pairs") or hasattr(likelihood, "table")
        return Exact() if at_once else Direct()
    if isinstance(space, AbstractFactorised):
        return LocalExpectation(roulette=hasattr(likelihood, "rows"))
    return Direct()
