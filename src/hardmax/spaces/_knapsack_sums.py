"""Sums over all sets of a decision diagram: log Z, marginals and samples, compiled or in torch.

The sums are for *limited* scores. An item of score -c is chosen with probability below exp(-c), so a score of -1e30 is
replaced by one for which that underflows. For the same reason the largest score, of one or more items, exceeds the sum
of the smaller positive ones by no more than that: without the limit, 1e30 would swallow all other scores.
"""

import torch
from torch import Tensor

from hardmax.solvers.decision_diagram import DecisionDiagram
from hardmax.solvers.knapsack import limit_largest
from hardmax.spaces._compiled_sums import CompiledFunction
from hardmax.spaces.abstract import IMPOSSIBLE, log_add
from hardmax.tracing import can_run_compiled, is_eager


def limit_range(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores of the same q that are not too far apart, with the same derivatives, and the difference to scores.

    `[*B, n] -> [*B, n]` each; the difference has no gradient.
    """
    limit = 800.0 if scores.dtype == torch.float64 else 120.0
    values = scores.detach()
    if is_eager(values) and (values.numel() == 0 or values.abs().max() <= limit):
        return scores, torch.zeros_like(values)
    target = limit_largest(values, limit).clamp_min(-limit)
    limited = torch.where(target == values, scores, target + (scores - values))
    return limited, values - target


def sum_members(diagram: DecisionDiagram, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return log Z `[*B]` and the marginals `[*B, n]` for limited scores `[*B, n]`, differentiable."""

    def run_in_torch(scores: Tensor) -> tuple[Tensor, Tensor]:
        return _sum_in_logarithms(diagram, scores)

    if not can_run_compiled(scores):
        return run_in_torch(scores)

    def run(scores: Tensor) -> tuple[Tensor, Tensor]:
        return _run_compiled(diagram, scores)

    def differentiate(
        scores: Tensor, values: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
    ) -> Tensor | None:
        return _differentiate_compiled(diagram, scores, values, gradients)

    return CompiledFunction.apply(scores, run, run_in_torch, differentiate)


def draw_members(diagram: DecisionDiagram, scores: Tensor, log_uniform: Tensor) -> Tensor:
    """Return samples `[*SB, n]` from logarithms of uniform numbers `[*SB, n]`, for limited scores `[*B, n]`."""
    batch = scores.shape[:-1]
    lead = log_uniform.shape[: log_uniform.dim() - 1 - len(batch)]
    if not can_run_compiled(scores) or log_uniform.shape[len(lead) : -1] != batch:
        return _draw_in_logarithms(diagram, scores, log_uniform)
    from hardmax.solvers._compiled_knapsack import draw_sets

    flat = _flatten(scores, diagram)
    levels = log_uniform.reshape(lead.numel(), *flat.shape)
    z, is_accurate = draw_sets(diagram, flat, levels.double().exp())
    if not is_accurate.all():
        rest = ~is_accurate
        z[:, rest] = _draw_in_logarithms(diagram, flat[rest].double(), levels[:, rest]).to(z.dtype)
    return z.view(*lead, *scores.shape)


# ------------------------------------------------------------------------------- compiled
def _flatten(scores: Tensor, diagram: DecisionDiagram) -> Tensor:
    return scores.reshape(scores.shape[:-1].numel(), diagram.items)


def _run_compiled(diagram: DecisionDiagram, scores: Tensor) -> tuple[Tensor, Tensor]:
    from hardmax.solvers._compiled_knapsack import sum_sets

    flat = _flatten(scores, diagram)
    log_z, marginals, is_accurate = sum_sets(diagram, flat)
    if not is_accurate.all():
        rest = ~is_accurate
        sums = _sum_in_logarithms(diagram, flat[rest].double())
        log_z[rest], marginals[rest] = (values.to(flat.dtype) for values in sums)
    return log_z.view(scores.shape[:-1]), marginals.view(scores.shape)


def _differentiate_compiled(
    diagram: DecisionDiagram, scores: Tensor, values: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
) -> Tensor | None:
    """Return the gradient for scores: the marginals for log Z, and covariances for the marginals."""
    from hardmax.solvers._compiled_knapsack import compute_covariances

    for_log_z, for_marginals = gradients
    gradient = torch.zeros_like(scores) if for_log_z is None else for_log_z[..., None] * values[1]
    if for_marginals is None:
        return gradient
    flat = _flatten(for_marginals, diagram).contiguous()
    covariances, is_accurate = compute_covariances(diagram, _flatten(scores, diagram), flat)
    return gradient + covariances.view(scores.shape) if is_accurate.all() else None


# ------------------------------------------------------------------------------- in torch
def _sum_completions(diagram: DecisionDiagram, scores: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return for each item and node of its layer the log-sums of sets without the item, with it, and of both."""
    total, sums = torch.zeros_like(scores[..., :1]), []
    for item, (skips, takes, fits) in reversed(list(enumerate(diagram.list_layers(scores.device)))):
        without = total[..., skips]
        having = torch.where(fits, scores[..., item : item + 1] + total[..., takes], IMPOSSIBLE)
        total = log_add(without, having)
        sums.append((without, having, total))
    return sums[::-1]


def _sum_in_logarithms(diagram: DecisionDiagram, scores: Tensor) -> tuple[Tensor, Tensor]:
    sums = _sum_completions(diagram, scores)
    following = [torch.zeros_like(total) for _, _, total in sums[1:]] + [torch.zeros_like(scores[..., :1])]
    reached, marginals = torch.ones_like(scores[..., :1]), []
    layers = diagram.list_layers(scores.device)
    for (skips, takes, _), (without, having, total), zeros in zip(layers, sums, following, strict=True):
        with_item = reached * (having - total).exp()
        marginals.append(with_item.sum(-1, keepdim=True))
        reached = zeros.index_add(-1, skips, reached * (without - total).exp()).index_add(-1, takes, with_item)
    return sums[0][2][..., 0], torch.cat(marginals, -1)


def _draw_in_logarithms(diagram: DecisionDiagram, scores: Tensor, log_uniform: Tensor) -> Tensor:
    node, bits = torch.zeros_like(log_uniform[..., :1], dtype=torch.int64), []
    sums, layers = _sum_completions(diagram, scores), diagram.list_layers(scores.device)
    for item, ((skips, takes, fits), (_, having, total)) in enumerate(zip(layers, sums, strict=True)):
        chance = (having - total).expand(*node.shape[:-1], total.shape[-1]).gather(-1, node)
        bits.append((log_uniform[..., item : item + 1] < chance) & fits[node])
        node = torch.where(bits[-1], takes[node], skips[node])
    return torch.cat(bits, -1).to(scores.dtype)
