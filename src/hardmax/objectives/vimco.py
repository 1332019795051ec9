"""The importance-weighted bound as something to train, with VIMCO's gradient."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import carry
from hardmax.evaluator import Evaluator
from hardmax.objectives.prior import check_prior, log_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate, Objective
from hardmax.validation import check_noise, check_scores, values_readable


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
    """Estimate the importance-weighted bound of S samples, tighter than the evidence lower bound, to maximise it.

    `L = log 1/S sum_s w_s`, `w_s = p(x, z_s) / q(z_s)`. The gradient for scores is VIMCO's,

        gradient = sum_s (L - L_(-s)) grad log q(z_s) - sum_s (w_s / sum_j w_j) grad log q(z_s),

    with L_(-s) the bound where w_s is replaced by the geometric mean of the others: a baseline that each sample has for
    itself. The gradient for the decoder (and a learned prior) is the ordinary one of L.

    Bias: none, as a gradient of `E[L]`. Variance: low for few samples. With very many, the signal for q falls faster
    than the noise: the bound hardly depends on q then. Cost: one evaluation of f per sample.

    Args:
        likelihood: `log p(x | z)`, an objective as for `expectation`.
        scores: `[*B, *score]`.
        space: offers `draw` and `log_prob`.
        samples: S, at least 2.
        prior: scores of the prior `[*score]`, possibly learned; None is uniform.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, instead of drawing it.
        chunk_size: the most samples that the likelihood gets in one call.
        validate: look at values for NaN and inf.

    Returns:
        The bound `[*B]`, the draws and their log q.

    Raises:
        ArgumentError: fewer than two samples, or another argument that cannot be used.
        NotExactError: a space without exact samples and probabilities.

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
    batch_shape = check_scores(scores, space, values=validate and values_readable())
    check_prior(prior, space)
    for name in ("draw", "log_prob"):
        if not space.offers(name):
            raise NotExactError(f"importance_weighted_elbo needs {name}, which {space} does not offer; use elbo")
    if noise is None:
        noise = space.noise((samples, *batch_shape), generator=generator, dtype=scores.dtype, device=scores.device)
    else:
        samples = check_noise(noise, scores, None, 1)
    if samples < 2:
        raise ArgumentError(f"importance_weighted_elbo needs at least two samples, got {samples}; for one, use elbo")
    f = Evaluator(likelihood, scores, space, chunk_size=chunk_size, validate=validate)
    z = space.draw(scores.detach(), noise)
    log_q = space.log_prob(scores, z)
    weights = f(z) + log_prior(prior, space, z) - log_q
    bound = weights.logsumexp(0) - math.log(samples)
    surrogate = ((bound - _without_each(weights)).detach() * log_q).sum(0)
    return Estimate(carry(bound, surrogate), z, f.evaluations, float(samples), log_prob=log_q.detach())


def _without_each(weights: Float[Tensor, "S ..."]) -> Float[Tensor, "S ..."]:
    """Return the bound with each log weight replaced by the mean of the others, `[S, *B]`."""
    samples = len(weights)
    others = (weights.sum(0) - weights) / (samples - 1)
    own = torch.eye(samples, dtype=torch.bool, device=weights.device).view(
        samples, samples, *(1 for _ in weights.shape[1:])
    )
    return torch.where(own, others, weights).logsumexp(1) - math.log(samples)
