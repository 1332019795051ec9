"""What an encoder leaves on the table: its best z, improved by single changes."""

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.evaluator import Evaluator
from hardmax.objectives.prior import check_prior, log_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective
from hardmax.validation import check_scores, values_readable


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

    A lower bound of log p(x), that of a q which is a point. It says how much of the gap between the encoder's bound
    and log p(x) a search for every example closes (amortisation), so it is reported beside the encoder's bound and
    never as it.

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
    check_scores(scores, space, values=values_readable())
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
