"""Bounds of a trained model: exact or importance-weighted, of perturb-and-MAP, and of the best z by greedy changes."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.evaluator import Evaluator
from hardmax.objectives.elbo import check_prior, log_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective
from hardmax.validation import can_read_values, check_samples, check_scores


@dataclass(frozen=True)
class Bounds:
    """Bounds of a model for each example, in nats.

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

    @classmethod
    def from_weights(
        cls, weights: Float[Tensor, "S *B"], reconstruction: Float[Tensor, "*B"], kl: Float[Tensor, "*B"]
    ) -> "Bounds":
        """Return the bounds with `log 1/S sum_s exp(weights_s)` for log p(x)."""
        return cls(reconstruction - kl, weights.logsumexp(0) - math.log(len(weights)), reconstruction, kl)


def exact_bounds(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    prior: Tensor | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    """Return the bound and `log p(x) = log sum_z p(z) p(x | z)` by enumerating every z.

    Args:
        likelihood: `log p(x | z)`; fast if it has `pairs`.
        scores: `[*B, *score]`.
        space: small enough to enumerate.
        prior: scores of the prior `[*score]`; None is uniform.
        chunk_size: the most z at a time.

    Returns:
        All fields are `[*B]`.

    Raises:
        NotExactError: too many z.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(10, 784), torch.rand(8, 784).round())
        >>> bounds = hm.exact_bounds(likelihood, torch.zeros(8, 10), hm.Categorical(10))
        >>> bool((bounds.elbo <= bounds.log_likelihood).all())
        True
    """
    check_scores(scores, space, values=can_read_values())
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

    The second is in expectation a lower bound of log p(x), and rises to it with S.

    Args:
        likelihood: `log p(x | z)`.
        scores: `[*B, *score]`.
        space: offers `draw`, `log_prob` and `kl`.
        samples: S.
        prior: scores of the prior `[*score]`; None is uniform.
        generator: where the samples come from; None is torch's global generator.
        chunk_size: the most samples at a time.

    Returns:
        All fields are `[*B]`; the KL is exact.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(40, 784), torch.rand(8, 784).round())
        >>> hm.importance_weighted_bound(likelihood, torch.zeros(8, 40), hm.Binary(40), samples=64).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    check_scores(scores, space, values=can_read_values())
    check_prior(prior, space)
    check_samples(samples)
    z = space.sample(scores, samples, generator=generator)
    values = Evaluator(likelihood, scores, space, chunk_size=chunk_size)(z)
    prior = scores.new_zeros(space.score_shape) if prior is None else prior
    weights = values + space.log_prob(prior, z) - space.log_prob(scores, z)
    return Bounds.from_weights(weights, values.mean(0), space.kl(scores, prior))


def perturb_and_map_bound(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    samples: int,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    """Return the bound of `z = argmax(perturb(scores, noise))`, whose probabilities P(z) have no closed form.

    The space bounds them from above, `P(z) <= PL(z)` (for interacting bits the pseudo-likelihood, `log_prob_bound`), so

        E_P[log p(x, z) - log PL(z)]  <=  E_P[log p(x, z) - log P(z)]  <=  log p(x)

    and `log E_P[p(x, z) / PL(z)] <= log p(x)` as well. The paper's released code uses only the unary scores as log
    P(z), which is not a bound. On six bits with random couplings of standard deviation 0.5 (1.0), log PL is 0.09 (0.26)
    nats above log P in the mean.

    Args:
        likelihood: `log p(x | z)`.
        scores: `[*B, *score]`.
        space: offers `log_prob_bound`.
        samples: S.
        prior: scores of the prior `[*score]`; None is uniform.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: the most samples at a time.

    Returns:
        All fields are `[*B]`, lower bounds in expectation; `kl` is the upper bound of the KL that belongs to them.

    Raises:
        NotExactError: the space has no such bound.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(30, 784), torch.rand(8, 784).round())
        >>> space = hm.PairwiseBinary(30, [(i, i + 1) for i in range(29)])
        >>> hm.perturb_and_map_bound(likelihood, torch.zeros(8, 59), space, samples=16).elbo.shape
        torch.Size([8])
    """
    batch = check_scores(scores, space, values=can_read_values())
    check_prior(prior, space)
    check_samples(samples)
    if not space.offers("log_prob_bound"):
        raise NotExactError(f"{space} has no bound for perturb-and-MAP; use importance_weighted_bound, of q")
    noise = space.noise((samples, *batch), generator=generator, dtype=scores.dtype, device=scores.device)
    z = space.argmax(space.perturb(scores.detach(), noise)).to(scores.dtype)
    values = Evaluator(likelihood, scores, space, chunk_size=chunk_size)(z)
    divergence = space.log_prob_bound(scores, z) - log_prior(prior, space, z)
    return Bounds.from_weights(values - divergence, values.mean(0), divergence.mean(0))


@torch.no_grad()
def greedy_bound(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    prior: Tensor | None = None,
    chunk_size: int | None = None,
) -> tuple[Float[Tensor, "*B"], Float[Tensor, "..."]]:
    """Return `log p(x, z)` of the z that greedy changes reach from the encoder's best one, and that z.

    A lower bound of log p(x), that of a point-mass q. It shows how much of the gap between the encoder's bound and log
    p(x) a search for every example closes (amortisation), so it is reported in addition to the encoder's bound and
    never in its place.

    Args:
        likelihood: `log p(x | z)`.
        scores: `[*B, *score]`.
        space: offers `change`.
        prior: scores of the prior `[*score]`; None is uniform.
        chunk_size: the most candidates at a time.

    Returns:
        `[*B]` the bound, and `[*B, *event]` z: no single change of it is better.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(12, 784), torch.rand(8, 784).round())
        >>> scores = torch.zeros(8, 12)
        >>> bound, z = hm.greedy_bound(likelihood, scores, hm.Binary(12))
        >>> exact = hm.exact_bounds(likelihood, scores, hm.Binary(12))
        >>> bool((bound <= exact.log_likelihood).all())
        True
    """
    check_scores(scores, space, values=can_read_values())
    check_prior(prior, space)
    f = Evaluator(likelihood, scores, space, chunk_size=chunk_size)

    def joint(z: Tensor) -> Tensor:
        return f(z) + log_prior(prior, space, z)

    z = space.argmax(scores).to(scores.dtype)
    best = joint(z[None])[0]
    while space.changes:
        candidates = space.neighbours(z)
        value, index = joint(candidates).max(0)
        better = value > best
        if not better.any():
            break
        moved = space.change(z, index)
        z = torch.where(better.view(*better.shape, *(1 for _ in space.event_shape)), moved, z)
        best = torch.where(better, value, best)
    return best, z
