"""How good is a model whose encoder is perturb-and-MAP? A bound without a normaliser, at any n."""

import math

import torch
from torch import Tensor

from hardmax.errors import NotExactError
from hardmax.evaluator import Evaluator
from hardmax.objectives.bounds import Bounds
from hardmax.objectives.prior import check_prior, log_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective
from hardmax.validation import check_samples, check_scores, values_readable


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
    """Return the bound of `z = argmax(perturb(scores, noise))`, whose probabilities P(z) have no formula.

    The space bounds them from above, `P(z) <= PL(z)` (for interacting bits the pseudo-likelihood, `log_prob_bound`), so

        E_P[log p(x, z) - log PL(z)]  <=  E_P[log p(x, z) - log P(z)]  <=  log p(x)

    and `log E_P[p(x, z) / PL(z)] <= log p(x)` as well. The paper's released code took the unary scores alone for
    log P(z), which bounds nothing. On six bits with random couplings of standard deviation 0.5 (1.0), log PL is 0.09
    (0.26) nats above log P in the mean.

    Args:
        likelihood: `log p(x | z)`.
        scores: `[*B, *score]`.
        space: offers `log_prob_bound`.
        samples: S.
        prior: scores of the prior `[*score]`; None is uniform.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: the most samples at a time.

    Returns:
        All of it `[*B]`, lower bounds in the mean; `kl` is the upper bound of the KL that belongs to them.

    Raises:
        NotExactError: the space has no such bound.

    Example:
        >>> import torch, hardmax as hm
        >>> likelihood = hm.BernoulliLikelihood(torch.nn.Linear(30, 784), torch.rand(8, 784).round())
        >>> space = hm.PairwiseBinary(30, [(i, i + 1) for i in range(29)])
        >>> hm.perturb_and_map_bound(likelihood, torch.zeros(8, 59), space, samples=16).elbo.shape
        torch.Size([8])
    """
    batch = check_scores(scores, space, values=values_readable())
    check_prior(prior, space)
    check_samples(samples)
    if not space.offers("log_prob_bound"):
        raise NotExactError(f"{space} has no bound for perturb-and-MAP; use importance_weighted_bound, of q")
    noise = space.noise((samples, *batch), generator=generator, dtype=scores.dtype, device=scores.device)
    z = space.argmax(space.perturb(scores.detach(), noise)).to(scores.dtype)
    values = Evaluator(likelihood, scores, space, chunk_size=chunk_size)(z)
    divergence = space.log_prob_bound(scores, z) - log_prior(prior, space, z)
    reconstruction, kl = values.mean(0), divergence.mean(0)
    weights = (values - divergence).logsumexp(0) - math.log(samples)
    return Bounds(reconstruction - kl, weights, reconstruction, kl)
