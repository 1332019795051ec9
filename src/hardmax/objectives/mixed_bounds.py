"""How good is a model with a discrete and a Gaussian latent? Exact in z, or from samples."""

import math

import torch
from torch import Tensor

from hardmax.evaluator import Evaluator
from hardmax.objectives.bounds import Bounds
from hardmax.objectives.gaussian import gaussian_kl
from hardmax.objectives.joins import AbstractJoin
from hardmax.objectives.likelihoods import AbstractLikelihood
from hardmax.objectives.mixed import MixedObjective
from hardmax.objectives.prior import check_prior, log_prior
from hardmax.validation import check_samples, check_scores, values_readable


def exact_mixed_bounds(
    likelihood: AbstractLikelihood,
    join: AbstractJoin,
    scores: Tensor,
    mean: Tensor,
    log_variance: Tensor,
    *,
    samples: int,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
) -> Bounds:
    """Return the bound and log p(x), going through every z; the Gaussians are sampled.

    With S draws `z_c` of the Gaussians, log p(x) is taken as

        log sum_z p(z) 1/S sum_(z_c) p(x | z, z_c) p(z_c) / q(z_c | x, z)

    in the mean a lower bound of it that rises to it with S. The KL divergences are exact.

    Args:
        likelihood: `log p(x | .)`; its decoder maps `[R, join.width]` to pixels.
        join: how z and the Gaussians go together; its space is small enough to enumerate.
        scores: `[*B, *score]`.
        mean: `[*B, rows, c]`.
        log_variance: `[*B, rows, c]`.
        samples: S.
        prior: scores of p(z) `[*score]`; None is uniform.
        generator: where the samples come from; None is torch's global generator.
        chunk_size: the most z at a time.

    Returns:
        All of it `[*B]`.

    Raises:
        NotExactError: too many z.

    Example:
        >>> import torch, hardmax as hm
        >>> join, x = hm.GaussianRows(hm.Categorical(4), 2), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> zeros = torch.zeros(8, join.rows, 2)
        >>> hm.exact_mixed_bounds(likelihood, join, torch.zeros(8, 4), zeros, zeros, samples=16).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    space = join.space
    batch = _checked(scores, join, prior, samples)
    space.check_enumerable()
    log_q = space.log_probs(scores)
    log_p = space.log_probs(scores.new_zeros(space.score_shape) if prior is None else prior)
    q, event = log_q.exp(), space.event_shape
    members = space.enumerate(dtype=scores.dtype, device=scores.device)
    members = members.view(-1, *(1 for _ in batch), *event).expand(-1, *batch, *event)
    reconstruction, weights = torch.zeros_like(q), []
    for _ in range(samples):
        f = MixedObjective(likelihood, join, mean, log_variance, generator=generator)
        values = Evaluator(f.reconstruction, scores, space, chunk_size=chunk_size).table()
        reconstruction = reconstruction + values / samples
        ratio = join.used(members, _log_ratio(f, log_variance)).movedim(0, -1)
        weights.append((values - ratio + log_p).logsumexp(-1))
    divergence = join.used(members, gaussian_kl(mean, log_variance)).movedim(0, -1)
    reconstruction, kl = (q * reconstruction).sum(-1), (q * (divergence + log_q - log_p)).sum(-1)
    return Bounds(reconstruction - kl, _log_mean(weights), reconstruction, kl)


def sampled_mixed_bounds(
    likelihood: AbstractLikelihood,
    join: AbstractJoin,
    scores: Tensor,
    mean: Tensor,
    log_variance: Tensor,
    *,
    samples: int,
    prior: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Bounds:
    """Return the bound and log p(x) from S samples of both latents, for spaces of any size.

    log p(x) is taken as `log 1/S sum p(x, z, z_c) / q(z, z_c | x)`, in the mean a lower bound of it.

    Args:
        likelihood: `log p(x | .)`; its decoder maps `[R, join.width]` to pixels.
        join: how z and the Gaussians go together; its space offers `draw`, `log_prob` and `kl`.
        scores: `[*B, *score]`.
        mean: `[*B, rows, c]`.
        log_variance: `[*B, rows, c]`.
        samples: S.
        prior: scores of p(z) `[*score]`; None is uniform.
        generator: where the samples come from; None is torch's global generator.

    Returns:
        All of it `[*B]`; the KL of z is exact, that of the Gaussians is at the samples.

    Raises:
        NotExactError: a space without exact samples and probabilities.

    Example:
        >>> import torch, hardmax as hm
        >>> join, x = hm.GaussianBeside(hm.Binary(40), 2), torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(join.width, 784), x)
        >>> zeros = torch.zeros(8, join.rows, 2)
        >>> hm.sampled_mixed_bounds(likelihood, join, torch.zeros(8, 40), zeros, zeros, samples=16).elbo.shape
        torch.Size([8])

    References:
        Burda, Grosse & Salakhutdinov, "Importance weighted autoencoders", 2016.
    """
    space = join.space
    _checked(scores, join, prior, samples)
    reconstruction, kl, weights = scores.new_zeros(()), space.kl(scores, prior), []
    for z in space.sample(scores, samples, generator=generator):
        f = MixedObjective(likelihood, join, mean, log_variance, generator=generator)
        values = Evaluator(f.reconstruction, scores, space)(z[None])[0]
        reconstruction, kl = reconstruction + values / samples, kl + join.used(z, f.divergence) / samples
        ratio = join.used(z, _log_ratio(f, log_variance)) + space.log_prob(scores, z) - log_prior(prior, space, z)
        weights.append(values - ratio)
    return Bounds(reconstruction - kl, _log_mean(weights), reconstruction, kl)


def _checked(scores: Tensor, join: AbstractJoin, prior: Tensor | None, samples: int) -> tuple[int, ...]:
    check_prior(prior, join.space)
    check_samples(samples)
    return check_scores(scores, join.space, values=values_readable())


def _log_ratio(f: MixedObjective, log_variance: Tensor) -> Tensor:
    """Return log q - log p of each Gaussian's value, `[*B, rows]`: (value - mean)^2 / variance is noise^2."""
    return (f.z_c.square() - f.noise.square() - log_variance).sum(-1) / 2


def _log_mean(weights: list[Tensor]) -> Tensor:
    return torch.stack(weights).logsumexp(0) - math.log(len(weights))
