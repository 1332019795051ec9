"""The evidence lower bound (ELBO), and the importance-weighted bound (VIMCO), with estimated gradients."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError, ShapeError
from hardmax.estimators import AbstractEstimator, attach_gradient
from hardmax.estimators.abstract import mean_of_others
from hardmax.estimators.automatic import choose_bound_estimator
from hardmax.evaluator import Evaluator
from hardmax.expectations import estimate
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Estimate, Objective
from hardmax.validation import check_noise, check_scores


def check_prior(prior: Tensor | None, space: AbstractSpace) -> None:
    """Raise `ShapeError` unless prior is None (uniform) or has the shape of scores; torch would broadcast others."""
    if prior is not None and tuple(prior.shape[prior.dim() - len(space.score_shape) :]) != space.score_shape:
        raise ShapeError(f"prior has shape {list(prior.shape)}, but {space} needs {list(space.score_shape)}")


def log_prior(prior: Tensor | None, space: AbstractSpace, z: Tensor) -> Tensor | float:
    """Return log p(z) of a prior, given by its scores or uniform: `[..., *event] -> [...]`."""
    return -space.log_size if prior is None else space.log_prob(prior, z)


Kl = Literal["auto", "beside", "none"]


@dataclass(frozen=True)
class Elbo(Estimate):
    r"""An estimate of the evidence lower bound, and its two terms.

    Attributes:
        reconstruction: `[*B]`. Estimate of $\mathbb{E}_q[\log p(x \mid z)]$, detached.
        kl: `[*B]`. $\mathrm{KL}(q \,\|\, \mathrm{prior})$, detached.
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
    kl_weight: float = 1.0,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    chunk_size: int | None = None,
    validate: bool = True,
) -> Elbo:
    r"""Estimate the evidence lower bound of $\log p(x)$.

    $$ \mathbb{E}_q[\log p(x \mid z)] - \mathrm{KL}(q(z \mid \mathrm{scores}) \,\|\, p(z)) $$

    `kl` selects how the KL enters the gradient for scores:

    - `"beside"`: its analytic gradient is added to the estimator's gradient of the first term, as in the paper.
    - `"auto"`: as "beside", but for `Direct`, `AdaptiveDirect`, `AveragedDirect`, `ShortlistDirect`,
      `GibbsCovariance` and `ConditionalGradient` (those with `takes_integrand`) the objective is the full integrand,
      $F(z) = \log p(x \mid z) + \log p(z) - \log q(z)$, with $\log q$ held fixed. With `Direct` ("posterior direct"),
      $z(1)$ is a sample of the true posterior, the mean gradient is $p(z \mid x) - q(z)$ at epsilon = 1, and for one
      categorical the only fixed point is $q = p(z \mid x)$, for any epsilon up to 1. In the paper's form the direct
      gradient is at most $1 / \epsilon$ while the KL's is not scaled down, and training stalls.
    - `"none"`: the KL is in the value but not in the gradient for scores, as in the paper's released code.

    With a weight w of the KL the value is $\mathbb{E}_q[\log p(x \mid z)] - w \, \mathrm{KL}$, and the integrand
    $F(z) = \log p(x \mid z) + w \, (\log p(z) - \log q(z))$: a bound only for $w \ge 1$. A weight below 1 is useful
    early in training, where q would otherwise drop the information that the decoder has not learnt to use yet.

    $\log p(z) - \log q(z)$ is linear in the statistics up to a constant, so its gradient needs no normaliser.

    On a structured space, `Direct` and other estimators that perturb scores draw by perturb-and-MAP, whose KL has no
    closed form. With `PairwiseBinary` the value is then still a lower bound, from the pseudo-likelihood of the draws
    (`log_prob_bound`), at any n; with "beside", and with other structured spaces, the KL of q is used instead, and
    `exact_bounds` or `importance_weighted_bound` should be used to evaluate a model.

    Args:
        likelihood: $\log p(x \mid z)$, an objective as for `expectation`; `BernoulliLikelihood`, `GaussianLikelihood`.
        scores: `[*B, *score]`, the encoder's output.
        space: the space of z; it offers `kl`, or `log_prob_bound` for an estimator that perturbs scores.
        estimator: "auto" chooses by our measurements. One categorical: `Exact` if the likelihood gives all categories
            at once, otherwise `Direct` (posterior direct). Independent variables: `LocalExpectation`, with roulette if
            the likelihood has `rows`. Structured spaces: `GibbsCovariance` if they have exact samples, otherwise
            `ConditionalGradient` for interacting bits. `GibbsCovariance` also where the others would evaluate a
            decoder more than 20 times, unless it shares the work between these z.
        prior: scores of the prior `[*score]`, possibly learned; None is uniform.
        kl: how the KL enters the gradient for scores, see above.
        kl_weight: weight w of the KL, at least 0, see above.
        samples: S, the number of z drawn for each example; by default 1, for `GibbsCovariance` 16.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, to use instead of new noise.
        chunk_size: maximum number of candidates that the likelihood gets in one call.
        validate: check values for NaN and inf.

    Returns:
        The bound and its terms.

    Raises:
        ArgumentError: an argument is invalid.
        NotExactError: the space has no KL or log_prob, or the estimator does not support it.

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
    if not 0 <= kl_weight < math.inf:
        raise ArgumentError(f"kl_weight must be a number that is not negative, got {kl_weight}")
    if isinstance(estimator, str):
        estimator = choose_bound_estimator(estimator, likelihood, space)
    check_prior(prior, space)
    fixed_scores = scores.detach()
    kl_is_inside = kl == "auto" and estimator.takes_integrand
    linear = None
    if kl_is_inside:
        offset = -fixed_scores if prior is None else prior.detach() - fixed_scores
        linear = offset if kl_weight == 1 else kl_weight * offset
    out = estimate(
        likelihood,
        scores,
        space,
        estimator,
        linear=linear,
        samples=samples,
        generator=generator,
        noise=noise,
        chunk_size=chunk_size,
        validate=validate,
    )
    if kl_is_inside or kl == "none":
        divergence = _estimate_kl(fixed_scores, space, prior, estimator, out)
    else:
        divergence = space.kl(scores, prior)
    return Elbo(
        out.value - (divergence if kl_weight == 1 else kl_weight * divergence),
        out.z,
        out.evaluations,
        out.solves,
        out.auxiliary,
        out.log_prob,
        out.solver,
        reconstruction=out.value.detach(),
        kl=divergence.detach(),
    )


def _estimate_kl(
    scores: Tensor, space: AbstractSpace, prior: Tensor | None, estimator: AbstractEstimator, out: Estimate
) -> Tensor:
    """Return `KL(q || p)`, for structured spaces from the draws if that is cheaper.

    For perturb-and-MAP draws this is an upper bound of their KL. For draws from q it is `log q(z) - log p(z)` at the
    draws, whose noise cancels the noise of `log p(x | z)` near the posterior.
    """
    log_prob = out.log_prob
    if estimator.perturbs and space.offers("log_prob_bound") and not isinstance(space, AbstractFactorised):
        log_prob = space.log_prob_bound(scores, out.z)
    return space.kl(scores, prior) if log_prob is None else (log_prob - log_prior(prior, space, out.z)).mean(0)


def importance_weighted_elbo(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    samples: int = 8,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    chunk_size: int | None = None,
    validate: bool = True,
) -> Estimate:
    r"""Estimate the importance-weighted bound of S samples, which is tighter than the evidence lower bound.

    $$ L = \log \frac{1}{S} \sum_s w_s, \qquad w_s = \frac{p(x, z_s)}{q(z_s)} $$

    The gradient for scores is VIMCO's,

    $$ \mathrm{gradient} = \sum_s (L - L_{-s}) \, \nabla \log q(z_s)
       - \sum_s \frac{w_s}{\sum_j w_j} \, \nabla \log q(z_s), $$

    where $L_{-s}$ is the bound with $w_s$ replaced by the geometric mean of the other weights: a separate baseline for
    each sample. The gradient for the decoder (and a learned prior) is the ordinary gradient of L.

    Bias: none, as a gradient of $\mathbb{E}[L]$. Variance: low for few samples. With very many samples the signal for q
    falls faster than the noise, since the bound then hardly depends on q. Cost: one evaluation of f per sample.

    Args:
        likelihood: $\log p(x \mid z)$, an objective as for `expectation`.
        scores: `[*B, *score]`.
        space: a space that offers `draw` and `log_prob`.
        samples: S, the number of samples, at least 2.
        prior: scores of the prior `[*score]`, possibly learned; None is uniform.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, to use instead of new noise.
        chunk_size: maximum number of samples that the likelihood gets in one call.
        validate: check values for NaN and inf.

    Returns:
        The bound `[*B]`, the draws and their log q.

    Raises:
        ArgumentError: there are fewer than two samples, or another argument is invalid.
        NotExactError: the space has no exact samples or probabilities.

    Example:
        >>> import torch, hardmax as hm
        >>> encoder, decoder = torch.nn.Linear(784, 20), torch.nn.Linear(20, 784)
        >>> x = torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(decoder, x)
        >>> out = hm.importance_weighted_elbo(likelihood, encoder(x), hm.Binary(20), samples=4)
        >>> (-out.value.mean()).backward()
        >>> out.value.shape, out.evaluations
        (torch.Size([8]), 4.0)

    References:
        Mnih & Rezende, "Variational inference for Monte Carlo objectives", 2016; Burda, Grosse & Salakhutdinov,
        "Importance weighted autoencoders", 2016.
    """
    scores = check_scores(scores, space, values=validate and can_read_values())
    batch_shape = space.batch_shape(scores)
    check_prior(prior, space)
    for name in ("draw", "log_prob"):
        if not space.offers(name):
            raise NotExactError(f"importance_weighted_elbo needs {name}, which {space} does not offer; use elbo")
    if noise is None:
        noise = space.draw_noise((samples, *batch_shape), generator, dtype=scores.dtype, device=scores.device)
    else:
        samples = check_noise(noise, scores, None, 1, (*batch_shape, *space.draw_shape))
    if samples < 2:
        raise ArgumentError(f"importance_weighted_elbo needs at least two samples, got {samples}; for one, use elbo")
    f = Evaluator(likelihood, scores, space, chunk_size=chunk_size, validate=validate)
    z = space.draw(scores.detach(), noise)
    log_q = space.log_prob(scores, z)
    weights = f(z) + log_prior(prior, space, z) - log_q
    bound = weights.logsumexp(0) - math.log(samples)
    surrogate = ((bound - _leave_one_out_bounds(weights)).detach() * log_q).sum(0)
    return Estimate(attach_gradient(bound, surrogate), z, f.evaluations, float(samples), log_prob=log_q.detach())


def _leave_one_out_bounds(weights: Float[Tensor, "S ..."]) -> Float[Tensor, "S ..."]:
    """Return the bounds with one log weight replaced by the mean of the others, for each weight: `[S, *B]`."""
    samples, others = len(weights), mean_of_others(weights)
    diagonal = torch.eye(samples, dtype=torch.bool, device=weights.device).view(
        samples, samples, *(1 for _ in weights.shape[1:])
    )
    return torch.where(diagonal, others, weights).logsumexp(1) - math.log(samples)
