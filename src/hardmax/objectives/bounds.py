"""How good is a model? The bound and log p(x), exactly where z can be enumerated, else by importance weights."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.evaluator import Evaluator
from hardmax.objectives.prior import check_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective
from hardmax.validation import check_samples, check_scores, values_readable


@dataclass(frozen=True)
class Bounds:
    """What a model gives to each example, in nats.

    Attributes:
        elbo: `[*B]`. `E_q[log p(x | z)] - KL(q || p)`.
        log_likelihood: `[*B]`. `log p(x)`, or a lower bound of it where z was sampled.
        reconstruction: `[*B]`. `E_q[log p(x | z)]`.
        kl: `[*B]`. `KL(q || p)`.
    """

    elbo: Float[Tensor, "*B"]
    log_likelihood: Float[Tensor, "*B"]
    reconstruction: Float[Tensor, "*B"]
    kl: Float[Tensor, "*B"]


def exact_bounds(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    prior: Tensor | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    """Return the bound and `log p(x) = log sum_z p(z) p(x | z)` by going through every z.

    Args:
        likelihood: `log p(x | z)`; fast if it has `pairs`.
        scores: `[*B, *score]`.
        space: small enough to enumerate.
        prior: scores of the prior `[*score]`; None is uniform.
        chunk_size: the most z at a time.

    Returns:
        All of it `[*B]`.

    Raises:
        NotExactError: too many z.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(10, 784), torch.rand(8, 784).round())
        >>> bounds = hm.exact_bounds(likelihood, torch.zeros(8, 10), hm.Categorical(10))
        >>> bool((bounds.elbo <= bounds.log_likelihood).all())
        True
    """
    check_scores(scores, space, values=values_readable())
    check_prior(prior, space)
    space.check_enumerable()
    table = Evaluator(likelihood, scores, space, chunk_size=chunk_size).table()
    log_q = space.log_probs(scores)
    log_p = space.log_probs(scores.new_zeros(space.score_shape) if prior is None else prior)
    q = log_q.exp()
    reconstruction, kl = (q * table).sum(-1), (q * (log_q - log_p)).sum(-1)
    return Bounds(reconstruction - kl, (table + log_p).logsumexp(-1), reconstruction, kl)


def importance_weighted_bound(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    samples: int,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    """Return sampled bounds: the mean over S samples, and `log 1/S sum_s p(x, z_s) / q(z_s)`.

    The second is in the mean a lower bound of log p(x), and rises to it with S.

    Args:
        likelihood: `log p(x | z)`.
        scores: `[*B, *score]`.
        space: offers `draw`, `log_prob` and `kl`.
        samples: S.
        prior: scores of the prior `[*score]`; None is uniform.
        generator: where the samples come from; None is torch's global generator.
        chunk_size: the most samples at a time.

    Returns:
        All of it `[*B]`; the KL is exact.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(40, 784), torch.rand(8, 784).round())
        >>> hm.importance_weighted_bound(likelihood, torch.zeros(8, 40), hm.Binary(40), samples=64).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    check_scores(scores, space, values=values_readable())
    check_prior(prior, space)
    check_samples(samples)
    z = space.sample(scores, samples, generator=generator)
    values = Evaluator(likelihood, scores, space, chunk_size=chunk_size)(z)
    prior = scores.new_zeros(space.score_shape) if prior is None else prior
    weights = values + space.log_prob(prior, z) - space.log_prob(scores, z)
    reconstruction, kl = values.mean(0), space.kl(scores, prior)
    return Bounds(reconstruction - kl, weights.logsumexp(0) - math.log(samples), reconstruction, kl)
