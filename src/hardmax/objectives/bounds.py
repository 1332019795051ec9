"""Lower bounds of log p(x) for a trained model, to evaluate it.

They are exact by enumeration, importance-weighted, for perturb-and-MAP draws, or for the best z of a greedy search.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.evaluator import Evaluator
from hardmax.objectives.elbo import check_prior, log_prior
from hardmax.spaces import AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Objective
from hardmax.validation import check_samples, check_scores


@dataclass(frozen=True)
class Bounds:
    r"""Bounds of a model for each example, in nats.

    Attributes:
        elbo: `[*B]`. $\mathbb{E}_q[\log p(x \mid z)] - \mathrm{KL}(q \,\|\, p)$.
        log_likelihood: `[*B]`. $\log p(x)$, or a lower bound of it if z was sampled.
        reconstruction: `[*B]`. $\mathbb{E}_q[\log p(x \mid z)]$.
        kl: `[*B]`. $\mathrm{KL}(q \,\|\, p)$.
    """

    elbo: Float[Tensor, "*B"]
    log_likelihood: Float[Tensor, "*B"]
    reconstruction: Float[Tensor, "*B"]
    kl: Float[Tensor, "*B"]

    @classmethod
    def from_weights(
        cls, weights: Float[Tensor, "S *B"], reconstruction: Float[Tensor, "*B"], kl: Float[Tensor, "*B"]
    ) -> "Bounds":
        r"""Return the bounds; $\log \frac{1}{S} \sum_s \exp(\mathrm{weights}_s)$ is the lower bound of $\log p(x)$."""
        return cls(reconstruction - kl, weights.logsumexp(0) - math.log(len(weights)), reconstruction, kl)


def exact_bounds(
    likelihood: Objective,
    scores: Tensor,
    space: AbstractSpace,
    *,
    prior: Tensor | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    r"""Return the evidence lower bound and $\log p(x)$, by enumerating every z.

    $$ \log p(x) = \log \sum_z p(z) \, p(x \mid z) $$

    Args:
        likelihood: $\log p(x \mid z)$; fast if it has `pairs`.
        scores: `[*B, *score]`.
        space: a space small enough to enumerate.
        prior: scores of the prior `[*score]`; None is uniform.
        chunk_size: maximum number of z at a time.

    Returns:
        The bounds; all fields are `[*B]`.

    Raises:
        NotExactError: there are too many z.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(10, 784), torch.rand(8, 784).round())
        >>> bounds = hm.exact_bounds(likelihood, torch.zeros(8, 10), hm.Categorical(10))
        >>> bool((bounds.elbo <= bounds.log_likelihood).all())
        True
    """
    scores = check_scores(scores, space, values=can_read_values())
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
    r"""Return bounds from S samples of z: the evidence lower bound, and the importance-weighted bound.

    $$ \log \frac{1}{S} \sum_s \frac{p(x, z_s)}{q(z_s)} $$

    In expectation, the second is a lower bound of $\log p(x)$, which it approaches as S grows.

    Args:
        likelihood: $\log p(x \mid z)$.
        scores: `[*B, *score]`.
        space: a space that offers `draw`, `log_prob` and `kl`.
        samples: S, the number of samples.
        prior: scores of the prior `[*score]`; None is uniform.
        generator: where the samples come from; None is torch's global generator.
        chunk_size: maximum number of samples at a time.

    Returns:
        The bounds; all fields are `[*B]`, and the KL is exact.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(40, 784), torch.rand(8, 784).round())
        >>> hm.importance_weighted_bound(likelihood, torch.zeros(8, 40), hm.Binary(40), samples=64).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    scores = check_scores(scores, space, values=can_read_values())
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
    r"""Return the bound for draws `z = argmax(perturb(scores, noise))`, whose probabilities $P(z)$ have no closed form.

    The space has an upper bound of them, $P(z) \le \mathrm{PL}(z)$ (`log_prob_bound`; for interacting bits the
    pseudo-likelihood). Therefore

    $$ \mathbb{E}_P[\log p(x, z) - \log \mathrm{PL}(z)] \le \mathbb{E}_P[\log p(x, z) - \log P(z)] \le \log p(x) $$

    and $\log \mathbb{E}_P[p(x, z) / \mathrm{PL}(z)] \le \log p(x)$ as well. The paper's released code uses only the
    unary scores as $\log P(z)$, which does not give a bound. On six bits with random couplings of standard deviation
    0.5 (1.0), $\log \mathrm{PL}$ is 0.09 (0.26) nats above $\log P$ in the mean.

    Args:
        likelihood: $\log p(x \mid z)$.
        scores: `[*B, *score]`.
        space: a space that offers `log_prob_bound`.
        samples: S, the number of samples.
        prior: scores of the prior `[*score]`; None is uniform.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: maximum number of samples at a time.

    Returns:
        The bounds; all fields are `[*B]`. They are lower bounds in expectation, and `kl` is the corresponding upper
        bound of the KL.

    Raises:
        NotExactError: the space does not offer `log_prob_bound`.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(30, 784), torch.rand(8, 784).round())
        >>> space = hm.PairwiseBinary(30, [(i, i + 1) for i in range(29)])
        >>> hm.perturb_and_map_bound(likelihood, torch.zeros(8, 59), space, samples=16).elbo.shape
        torch.Size([8])
    """
    scores = check_scores(scores, space, values=can_read_values())
    batch = space.batch_shape(scores)
    check_prior(prior, space)
    check_samples(samples)
    if not space.offers("log_prob_bound"):
        raise NotExactError(
            f"{space} has no bound for perturb-and-MAP; use importance_weighted_bound, for draws from q"
        )
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
    r"""Return $\log p(x, z)$ for a z from greedy search, and that z.

    The search starts at the encoder's best z and makes the best single change until none is an improvement. The result
    is a lower bound of $\log p(x)$, that of a point-mass q. It shows how much of the gap between the encoder's bound
    and $\log p(x)$ is closed by a search for each example (the amortisation gap). Report it in addition to the
    encoder's bound, never in its place.

    Args:
        likelihood: $\log p(x \mid z)$.
        scores: `[*B, *score]`.
        space: a space that offers `change`.
        prior: scores of the prior `[*score]`; None is uniform.
        chunk_size: maximum number of candidates at a time.

    Returns:
        The bound `[*B]`, and z `[*B, *event]`; no single change of z is better.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(12, 784), torch.rand(8, 784).round())
        >>> scores = torch.zeros(8, 12)
        >>> bound, z = hm.greedy_bound(likelihood, scores, hm.Binary(12))
        >>> exact = hm.exact_bounds(likelihood, scores, hm.Binary(12))
        >>> bool((bound <= exact.log_likelihood).all())
        True
    """
    scores = check_scores(scores, space, values=can_read_values())
    check_prior(prior, space)
    f = Evaluator(likelihood, scores, space, chunk_size=chunk_size)

    def log_joint(z: Tensor) -> Tensor:
        return f(z) + log_prior(prior, space, z)

    z = space.argmax(scores).to(scores.dtype)
    best = log_joint(z[None])[0]
    while space.changes:
        candidates = space.neighbours(z)
        value, index = log_joint(candidates).max(0)
        better = value > best
        if not better.any():
            break
        changed = space.change(z, index)
        z = torch.where(better.view(*better.shape, *(1 for _ in space.event_shape)), changed, z)
        best = torch.where(better, value, best)
    return best, z
