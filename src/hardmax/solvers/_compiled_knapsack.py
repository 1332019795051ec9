"""Dynamic programs on the decision diagram of a knapsack, compiled: the best set, sums over sets, marginals, samples.

Sums use weights `exp(scores)`, not logarithms: no sum of a node is below one, the weight of taking nothing more, so
nothing underflows. What may overflow, where log Z exceeds 575, is reported. All computation is in float64.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads
from hardmax.solvers.decision_diagram import DecisionDiagram

SECONDS_PER_NODE = 2e-9
LARGEST_SUM = 1e250
_BLOCK = 8  # examples solved at once, so that the inner loop is one or two machine instructions


def find_best_sets(diagram: DecisionDiagram, scores: Tensor) -> Tensor:
    """Return the best sets: `[B, n] -> [B, n]`, without items that add nothing."""
    z = torch.empty_like(scores, memory_format=torch.contiguous_format)
    graph, inputs, outputs = _list_arrays(diagram), scores.numpy(), z.numpy()
    seconds = SECONDS_PER_NODE * diagram.nodes
    solve_in_threads(lambda part: _find_best(*graph, inputs[part], outputs[part]), len(scores), seconds)
    return z


def sum_sets(diagram: DecisionDiagram, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log Z `[B]`, the marginals `[B, n]` and which examples are accurate `[B]`."""
    log_z = scores.new_empty(len(scores))
    marginals = torch.empty_like(scores, memory_format=torch.contiguous_format)
    is_accurate = torch.empty(len(scores), dtype=torch.bool)
    graph, inputs = _list_arrays(diagram), scores.numpy()
    outputs = log_z.numpy(), marginals.numpy(), is_accurate.numpy()
    seconds = 4 * SECONDS_PER_NODE * diagram.nodes
    solve_in_threads(
        lambda part: _sum_batch(*graph, inputs[part], *(out[part] for out in outputs)), len(scores), seconds
    )
    return log_z, marginals, is_accurate


def compute_covariances(diagram: DecisionDiagram, scores: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of `<weights, marginals>` for the scores, `[B, n]`, and which examples are accurate `[B]`.

    With F the sum of the weights of a set, it is the covariance of F and each item.
    """
    gradient = torch.empty_like(scores, memory_format=torch.contiguous_format)
    is_accurate = torch.empty(len(scores), dtype=torch.bool)
    graph, inputs, factors = _list_arrays(diagram), scores.numpy(), weights.numpy()
    outputs = gradient.numpy(), is_accurate.numpy()
    seconds = 8 * SECONDS_PER_NODE * diagram.nodes
    solve_in_threads(
        lambda part: _compute_covariances(*graph, inputs[part], factors[part], *(out[part] for out in outputs)),
        len(scores),
        seconds,
    )
    return gradient, is_accurate


def draw_sets(diagram: DecisionDiagram, scores: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return samples `[S, B, n]` from uniform numbers `[S, B, n]`, and which examples are accurate `[B]`."""
    z, is_accurate = torch.empty(uniform.shape, dtype=scores.dtype), torch.empty(len(scores), dtype=torch.bool)
    graph, inputs, levels = _list_arrays(diagram), scores.numpy(), uniform.numpy()
    samples, flags = z.numpy(), is_accurate.numpy()

    def draw(part: slice) -> None:
        _draw_batch(*graph, inputs[part], levels[:, part], samples[:, part], flags[part])

    seconds = SECONDS_PER_NODE * (diagram.nodes + 4 * diagram.items * len(uniform))
    solve_in_threads(draw, len(scores), seconds)
    return z, is_accurate


def _list_arrays(diagram: DecisionDiagram) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return diagram.starts, diagram.skips, diagram.takes


@compile_solver
def copy_limited_scores(scores, limited):
    """Copy scores, reducing the largest so that sums keep the others: twice their sum is as good as any larger score.

    A set with an item of that score, or with more of them, is better than any without, however large the score is.
    """
    largest, rest = 0.0, 0.0
    for i in range(len(scores)):
        largest = max(largest, scores[i])
    for i in range(len(scores)):
        if 0 < scores[i] < largest:
            rest += scores[i]
    for i in range(len(scores)):
        limited[i] = 2 * rest if rest > 0 and scores[i] == largest and largest > 2 * rest else scores[i]


@compile_solver
def _find_best(starts, skips, takes, scores, z):
    batch, n = scores.shape
    nodes = len(skips)
    limited = np.zeros((n, _BLOCK))
    row = np.empty(n)
    value = np.zeros((nodes + 1, _BLOCK))  # of the best completion of each node
    value[nodes] = -np.inf
    for first in range(0, batch, _BLOCK):
        count = min(_BLOCK, batch - first)
        for j in range(count):
            copy_limited_scores(scores[first + j], row)
            for i in range(n):
                limited[i, j] = row[i]
        for i in range(n - 1, -1, -1):
            score = limited[i]
            for x in range(starts[i], starts[i + 1]):
                without, having, best = value[skips[x]], value[takes[x]], value[x]
                for j in range(_BLOCK):
                    best[j] = max(without[j], score[j] + having[j])
        for j in range(count):
            x = 0
            for i in range(n):
                is_taken = limited[i, j] + value[takes[x], j] > value[skips[x], j]
                z[first + j, i] = is_taken
                x = takes[x] if is_taken else skips[x]


@compile_solver
def _sum_completions(starts, skips, takes, weights, sums):
    """Fill the sum over all completions of each node; return whether none overflows."""
    nodes, n = len(skips), len(weights)
    sums[nodes - 1], sums[nodes] = 1, 0
    for i in range(n - 1, -1, -1):
        for x in range(starts[i], starts[i + 1]):
            sums[x] = sums[skips[x]] + weights[i] * sums[takes[x]]
    return sums[0] <= LARGEST_SUM


@compile_solver
def _compute_weights(scores, weights):
    for i in range(len(scores)):
        weights[i] = np.exp(np.float64(scores[i]))


@compile_solver
def _sum_batch(starts, skips, takes, scores, log_z, marginals, is_accurate):
    batch, n = scores.shape
    nodes = len(skips)
    weights, sums, reached = np.empty(n), np.empty(nodes + 1), np.empty(nodes + 1)
    for b in range(batch):
        _compute_weights(scores[b], weights)
        is_accurate[b] = _sum_completions(starts, skips, takes, weights, sums)
        log_z[b] = np.log(sums[0])
        if not is_accurate[b]:
            continue
        reached[:] = 0  # probability of each node, divided by its sum
        reached[0] = 1 / sums[0]
        for i in range(n):
            total = 0.0
            for x in range(starts[i], starts[i + 1]):
                here = reached[x]
                taken = weights[i] * here
                reached[skips[x]] += here
                reached[takes[x]] += taken
                total += taken * sums[takes[x]]
            marginals[b, i] = total


@compile_solver
def _compute_covariances(starts, skips, takes, scores, factors, gradient, is_accurate):
    batch, n = scores.shape
    nodes = len(skips)
    weights, sums, reached = np.empty(n), np.empty(nodes + 1), np.empty(nodes + 1)
    later = np.zeros(nodes + 1)  # expected F of the items from a node on
    earlier = np.empty(nodes + 1)  # F of the items before a node minus its mean, times `reached`, summed over paths
    for b in range(batch):
        _compute_weights(scores[b], weights)
        is_accurate[b] = _sum_completions(starts, skips, takes, weights, sums)
        if not is_accurate[b]:
            continue
        for i in range(n - 1, -1, -1):
            for x in range(starts[i], starts[i + 1]):
                chance = weights[i] * sums[takes[x]] / sums[x]
                stays = sums[skips[x]] / sums[x]
                later[x] = stays * later[skips[x]] + chance * (factors[b, i] + later[takes[x]])
        reached[:] = 0
        earlier[:] = 0
        reached[0] = 1 / sums[0]
        earlier[0] = -later[0] / sums[0]
        for i in range(n):
            total = 0.0
            for x in range(starts[i], starts[i + 1]):
                taken = weights[i] * reached[x]
                sum_taken = weights[i] * earlier[x] + taken * factors[b, i]
                reached[skips[x]] += reached[x]
                earlier[skips[x]] += earlier[x]
                reached[takes[x]] += taken
                earlier[takes[x]] += sum_taken
                total += (sum_taken + taken * later[takes[x]]) * sums[takes[x]]
            gradient[b, i] = total
            is_accurate[b] &= np.isfinite(total)


@compile_solver
def _draw_batch(starts, skips, takes, scores, uniform, z, is_accurate):
    batch, n = scores.shape
    weights, sums = np.empty(n), np.empty(len(skips) + 1)
    for b in range(batch):
        _compute_weights(scores[b], weights)
        is_accurate[b] = _sum_completions(starts, skips, takes, weights, sums)
        for s in range(len(uniform)):
            x = 0
            for i in range(n):
                is_taken = uniform[s, b, i] * sums[x] < weights[i] * sums[takes[x]]
                z[s, b, i] = is_taken
                x = takes[x] if is_taken else skips[x]
