"""Samples without replacement from a product of independent variables."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from hardmax.random import from_exponential
from hardmax.spaces import AbstractFactorised, Binary


def without_replacement(
    scores: Float[Tensor, "..."], space: AbstractFactorised, noise: Float[Tensor, "S ..."]
) -> Float[Tensor, "S ..."]:
    """Draw S different z, each from q without those before it.

    The S largest of `log q(z) + Gumbel` over the whole space, found variable by variable. A beam element is a value
    of the first variables; its perturbed log-probability G is the largest of all z that begin so. Given G, one of its
    children has it too, child c with probability q_i(c), and the others are Gumbels cut off at G:

        G_c = -log(exp(-G) + exp(-log q(z_1..i-1, c) - gumbel_c)).

    The S largest children make the next beam. In which order z come is independent of the largest G of all: it is 0.

    Args:
        scores: `[*B, *score]`, detached.
        space: a factorised space with S members or more.
        noise: `[S, *B, *score]`. The beam element of rank s is divided by `noise[s]`: what it draws is the child with
            the same G, what it holds beyond that makes the Gumbels of the others.

    Returns:
        `[S, *B, *event]`, in the order in which they are drawn.
    """
    log_q, drawn, gumbels = _branches(scores.to(noise.dtype), space, noise)
    samples, (variables, values) = len(noise), log_q.shape[-2:]
    log_prob = top = log_q.new_zeros(*log_q.shape[:-2], 1)
    parents, chosen = [], []
    for i in range(variables):
        width = top.shape[-1]
        child = log_prob[..., None] + log_q[..., i, None, :]
        cut = -torch.logaddexp(-top[..., None], -(child + gumbels[:width, ..., i, :].movedim(0, -2)))
        perturbed = torch.where(drawn[:width, ..., i, :].movedim(0, -2), top[..., None], cut)
        top, index = perturbed.flatten(-2).topk(min(samples, width * values), dim=-1)
        log_prob = child.flatten(-2).gather(-1, index)
        parents.append(index // values)
        chosen.append(index % values)
    digits, place = [], torch.arange(samples, device=scores.device).expand(top.shape)
    for parent, value in zip(reversed(parents), reversed(chosen), strict=True):
        digits.append(value.gather(-1, place))
        place = parent.gather(-1, place)
    found = torch.stack(digits[::-1], -1).movedim(-2, 0)
    if not isinstance(space, Binary):
        found = found[..., None] == torch.arange(values, device=scores.device)
    return found.reshape(samples, *space.batch_shape(scores), *space.event_shape).to(scores.dtype)


def _branches(scores: Tensor, space: AbstractFactorised, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log q of each value `[*B, N, K]`; which one noise draws and a Gumbel for the others `[S, *B, N, K]`."""
    z = space.draw(scores, noise)
    if isinstance(space, Binary):
        gumbel = from_exponential(-space.leftover(scores, noise, z).log())
        log_q = torch.stack([logsigmoid(-scores), logsigmoid(scores)], -1)
        return log_q, torch.stack([z < 1, z > 0], -1), torch.stack([gumbel, gumbel], -1)
    batch = space.batch_shape(scores)
    shape = (space.variables, space.score_shape[-1])
    rest = space.residual(scores, noise, z)
    return (
        scores.log_softmax(-1).view(*batch, *shape),
        (z > 0).view(len(noise), *batch, *shape),
        rest.view(len(noise), *batch, *shape),
    )
