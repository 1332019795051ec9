"""Estimators as the leanest PyTorch code that computes the same estimate, without checks and for one layout only.

Every function takes scores (`[B, N, K]` of categories, `[B, N]` of bits) and f (`z [C, B, ...] -> [C, B]`) and returns
a tensor whose sum has the estimated gradient.
"""

from collections.abc import Callable

import torch
from torch import Tensor

F = Callable[[Tensor], Tensor]


def draw_gumbel(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64).log_().neg_().float().log_().neg_()


def draw_logistic(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64).logit_(eps=2.0**-54).float()


def draw_index(q: Tensor, samples: int = 1) -> Tensor:
    """Return indices `[S, B, N, 1]` of categories, by the inverse of the CDF."""
    cdf = q.cumsum(-1)
    u = torch.rand(*q.shape[:-1], samples) * cdf[..., -1:]
    return torch.searchsorted(cdf, u, right=True).clamp_max_(q.shape[-1] - 1).movedim(-1, 0)[..., None]


def make_one_hot(index: Tensor, k: int) -> Tensor:
    return torch.zeros(*index.shape[:-1], k).scatter_(-1, index, 1.0)


def attach(hard: Tensor, soft: Tensor) -> Tensor:
    return hard + (soft - soft.detach())


# ------------------------------------------------------------------------------- categories
def gumbel_softmax(scores: Tensor, f: F) -> Tensor:
    return f((scores + draw_gumbel(1, *scores.shape)).softmax(-1))


def straight_through(scores: Tensor, f: F) -> Tensor:
    q = scores.softmax(-1)
    return f(attach(make_one_hot(draw_index(q.detach()), scores.shape[-1]), q))


def reinmax(scores: Tensor, f: F) -> Tensor:
    q = scores.softmax(-1)
    z = make_one_hot(draw_index(q.detach()), scores.shape[-1])
    shifted = ((z + q.detach()) / 2).log() + (scores - scores.detach())
    return f(attach(z, 2 * shifted.softmax(-1) - q / 2))


def gumbel_rao(scores: Tensor, f: F, draws: int = 10, tau: float = 0.5) -> Tensor:
    """The perturbed scores given z: the largest is Gumbel(log Z), the others are truncated at it."""
    with torch.no_grad():
        z = make_one_hot(draw_index(scores.softmax(-1))[0], scores.shape[-1])
        rates = (-scores).exp()
        times = torch.empty(draws, *scores.shape).exponential_()  # exp(-Gumbel)
        first = (times * z).sum(-1, keepdim=True) / scores.exp().sum(-1, keepdim=True)
        perturbed = (first + times * rates * (1 - z)).log_().neg_()
        shift = perturbed - scores
    return f(attach(z, ((scores + shift) / tau).softmax(-1).mean(0))[None])


def leave_one_out(scores: Tensor, f: F, samples: int = 2) -> Tensor:
    log_q = scores.log_softmax(-1)
    index = draw_index(log_q.detach().exp(), samples)
    values = f(make_one_hot(index, scores.shape[-1]))
    with torch.no_grad():
        advantage = (values - values.mean(0)) * (samples / (samples - 1))
    log_prob = log_q.expand(samples, *scores.shape).gather(-1, index).flatten(2).sum(-1)
    return (values + advantage * log_prob).mean(0)


def exact(scores: Tensor, f: F) -> Tensor:
    k = scores.shape[-1]
    table = f(torch.eye(k)[:, None, None].expand(k, len(scores), 1, k))
    return (scores[:, 0].softmax(-1) * table.T).sum(-1)


def shortlist(scores: Tensor, f: F, size: int = 4, variables: int = 6) -> Tensor:
    """Averaged direct on the `size` largest perturbed scores of some variables."""
    batch, n, k = scores.shape
    with torch.no_grad():
        top = (scores + draw_gumbel(*scores.shape)).topk(size, -1).indices  # [B, n, size]
        chosen = torch.rand(batch, n).topk(variables, -1).indices  # [B, m]
        lists = top.gather(1, chosen[..., None].expand(-1, -1, size))  # [B, m, size]
        z = make_one_hot(top[..., :1], k)
        others = z.expand((size - 1) * variables, -1, -1, -1).clone()
        rows = others.view(size - 1, variables, batch, n, k)
        for j in range(variables):
            at = chosen[:, j, None, None].expand(-1, 1, k)
            new = make_one_hot(lists[:, j, 1:, None].movedim(1, 0)[:, :, None], k)
            rows[:, j].scatter_(2, at.expand(size - 1, -1, -1, -1), new)
    value = f(z[None])[0]
    with torch.no_grad():
        values = torch.cat([value.expand(1, variables, -1), f(others).view(size - 1, variables, batch)]).permute(
            2, 1, 0
        )
        log_q = scores.gather(1, chosen[..., None].expand(-1, -1, k)).gather(-1, lists)
        change = (log_q + values).softmax(-1) - log_q.softmax(-1)
        index = (chosen[..., None] * k + lists).flatten(1)
        gradient = torch.zeros(batch, n * k).scatter_(1, index, change.flatten(1) * (n / variables))
    return value + (gradient.view_as(scores) * scores).sum((1, 2))


def disarm_categories(scores: Tensor, f: F) -> Tensor:
    """Stick-breaking in increasing order of the scores, with antithetic logistic noise."""
    k = scores.shape[-1]
    ordered, order = scores.sort(-1)
    ordered = ordered - ordered[..., -1:].detach()
    rest = ordered.flip(-1).logcumsumexp(-1).flip(-1)
    log_odds = ordered[..., :-1] - rest[..., 1:]
    with torch.no_grad():
        noise, q = draw_logistic(*log_odds.shape), log_odds.sigmoid()
        ones = torch.ones(*scores.shape[:-1], 1, dtype=torch.bool)
        bits = torch.stack([log_odds + noise > 0, log_odds - noise > 0])
        first = torch.cat([bits, ones.expand(2, *ones.shape)], -1).int().argmax(-1, keepdim=True)
        z = make_one_hot(order.expand(2, *order.shape).gather(-1, first), k)
        reached = torch.arange(k - 1) <= first
        score = torch.where(reached, bits.float() - q, 0.0)
        weight = torch.where(reached[0] & reached[1], log_odds.abs().sigmoid(), 1.0) * (score[0] - score[1]) / 2
    values = f(z[:1])
    with torch.no_grad():
        difference = (values - f(z[1:]))[0, :, None, None]
    return values[0] + (difference * weight * log_odds).sum((1, 2))


def rebar(scores: Tensor, f: F, tau: float = 0.5) -> Tensor:
    with torch.no_grad():
        noise, again = draw_gumbel(*scores.shape), draw_gumbel(*scores.shape)
    leaf = scores.detach().requires_grad_()
    perturbed = leaf + noise
    z = make_one_hot(perturbed.detach().argmax(-1, keepdim=True), scores.shape[-1])
    top = leaf.logsumexp(-1, keepdim=True) + (again * z).sum(-1, keepdim=True)
    conditional = torch.where(z > 0, top, -torch.logaddexp(-top, -(leaf + again)))
    values = f(z[None])[0]
    free, fixed = f((perturbed / tau).softmax(-1)[None])[0], f((conditional / tau).softmax(-1)[None])[0]
    (slope,) = torch.autograd.grad((free - fixed).sum(), leaf)
    with torch.no_grad():
        residue = (values - fixed)[:, None, None]
        gradient = residue * (z - scores.softmax(-1)) + slope
    return values + (gradient * scores).sum((1, 2))


# ------------------------------------------------------------------------------- bits
def gumbel_softmax_bits(scores: Tensor, f: F) -> Tensor:
    return f((scores + draw_logistic(1, *scores.shape)).sigmoid())


def straight_through_bits(scores: Tensor, f: F) -> Tensor:
    q = scores.sigmoid()
    return f(attach(torch.bernoulli(q.detach())[None], q))


def leave_one_out_bits(scores: Tensor, f: F, samples: int = 2) -> Tensor:
    with torch.no_grad():
        z = torch.bernoulli(scores.sigmoid().expand(samples, *scores.shape))
    values = f(z)
    with torch.no_grad():
        advantage = (values - values.mean(0)) * (samples / (samples - 1))
    log_prob = (z * scores).sum(-1) - torch.nn.functional.softplus(scores).sum(-1)
    return (values + advantage * log_prob).mean(0)


def disarm(scores: Tensor, f: F) -> Tensor:
    with torch.no_grad():
        noise = draw_logistic(*scores.shape)
        z, opposite = (scores + noise > 0).float(), (scores - noise > 0).float()
    values = f(z[None])
    with torch.no_grad():
        gradient = (values - f(opposite[None]))[0, :, None] / 2 * (z - opposite) * scores.abs().sigmoid()
    return values[0] + (gradient * scores).sum(-1)
