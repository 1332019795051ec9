"""Paths of acyclic graphs, compiled: the best path, sums over paths, marginals and samples.

Sums over paths use weights, not logarithms, of *shifted* scores: those plus the difference of the best sums to the
target at both ends of an edge. Every path keeps its score, up to a constant. The best edge out of a node gets the score
zero and all others less, so the sum over the paths from a node is between one and their number: nothing underflows
that counts. It overflows float64 in graphs with more than 1e308 paths; each example reports whether it is finite.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads
from hardmax.solvers.acyclic_graph import AcyclicGraph

SECONDS_PER_EDGE = 2e-9
SECONDS_PER_WEIGHT = 8e-9  # with an exponential


def find_best_paths(scores: Tensor, graph: AcyclicGraph) -> Tensor:
    """Return the best paths: `[B, E] -> [B, E]`, the first of equally good edges out of a node."""
    z = torch.zeros_like(scores, memory_format=torch.contiguous_format)
    inputs, outputs, arrays = scores.numpy(), z.numpy(), _convert(graph)
    seconds = SECONDS_PER_EDGE * len(graph.out_edges)
    solve_in_threads(lambda part: _find_best_paths(inputs[part], *arrays, outputs[part]), len(scores), seconds)
    return z


def shift_scores(scores: Tensor, graph: AcyclicGraph) -> tuple[Tensor, Tensor]:
    """Return the shifted scores `[B, E]`, zero for edges on no path, and the best sums `[B]` in float64."""
    shifted = torch.zeros_like(scores, memory_format=torch.contiguous_format)
    best = torch.empty(len(scores), dtype=torch.float64)
    inputs, outputs, sums, arrays = scores.numpy(), shifted.numpy(), best.numpy(), _convert(graph)
    seconds = 2 * SECONDS_PER_EDGE * len(graph.out_edges)
    solve_in_threads(lambda part: _shift_scores(inputs[part], *arrays, outputs[part], sums[part]), len(scores), seconds)
    return shifted, best


def sum_paths(shifted: Tensor, graph: AcyclicGraph) -> tuple[Tensor, Tensor, Tensor]:
    """Return log Z `[B]`, the marginals `[B, E]` and which examples are finite `[B]`, for shifted scores."""
    log_z, marginals = shifted.new_empty(len(shifted)), torch.zeros_like(shifted)
    is_finite = torch.empty(len(shifted), dtype=torch.bool)
    inputs, arrays = shifted.numpy(), _convert(graph)
    outputs = log_z.numpy(), marginals.numpy(), is_finite.numpy()
    seconds = SECONDS_PER_WEIGHT * len(graph.out_edges)
    solve_in_threads(
        lambda part: _sum_paths(inputs[part], *arrays, *(out[part] for out in outputs)), len(shifted), seconds
    )
    return log_z, marginals, is_finite


def compute_covariances(marginals: Tensor, weights: Tensor, graph: AcyclicGraph) -> Tensor:
    """Return the covariances of the edges and their weighted sum: `[B, E]` twice `-> [B, E]`.

    That is the gradient of `<weights, marginals>` for the scores, from the marginals alone: with F the sum of the
    weights of a path, `marginal_e (E[F | e] - E[F])`.
    """
    gradient = torch.zeros_like(marginals, memory_format=torch.contiguous_format)
    inputs, factors, outputs, arrays = marginals.numpy(), weights.numpy(), gradient.numpy(), _convert(graph)
    seconds = 2 * SECONDS_PER_EDGE * len(graph.out_edges)
    solve_in_threads(
        lambda part: _compute_covariances(inputs[part], factors[part], *arrays, outputs[part]), len(inputs), seconds
    )
    return gradient


def draw_paths(shifted: Tensor, uniform: Tensor, graph: AcyclicGraph) -> tuple[Tensor, Tensor]:
    """Return samples `[S, B, E]` from uniform numbers `[S, B, decisions]`, and which examples are finite `[B]`."""
    z = torch.zeros(len(uniform), *shifted.shape, dtype=shifted.dtype)
    is_finite = torch.empty(len(shifted), dtype=torch.bool)
    inputs, levels, samples, flags = shifted.numpy(), uniform.numpy(), z.numpy(), is_finite.numpy()
    arrays = *_convert(graph), graph.numbers.numpy()

    def draw(part: slice) -> None:
        _draw_paths(inputs[part], levels[:, part], *arrays, samples[:, part], flags[part])

    seconds = SECONDS_PER_WEIGHT * (len(graph.out_edges) + graph.longest * len(uniform))
    solve_in_threads(draw, len(shifted), seconds)
    return z, is_finite


def _convert(graph: AcyclicGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return graph.starts.numpy(), graph.out_edges.numpy(), graph.heads.numpy()


@compile_solver
def _find_best_paths(scores, starts, edges, heads, z):
    nodes = len(starts) - 1
    value, best = np.zeros(nodes, scores.dtype), np.zeros(nodes, np.int64)
    for b in range(len(scores)):
        row = scores[b]
        for v in range(1, nodes):
            k = starts[v]
            largest, at = row[edges[k]] + value[heads[k]], k
            for k in range(starts[v] + 1, starts[v + 1]):
                x = row[edges[k]] + value[heads[k]]
                if x > largest:
                    largest, at = x, k
            value[v], best[v] = largest, at
        v = nodes - 1
        while v > 0:
            z[b, edges[best[v]]] = 1
            v = heads[best[v]]


@compile_solver
def _shift_scores(scores, starts, edges, heads, shifted, best):
    nodes = len(starts) - 1
    value = np.zeros(nodes)
    for b in range(len(scores)):
        row = scores[b]
        for v in range(1, nodes):
            largest = -np.inf
            for k in range(starts[v], starts[v + 1]):
                largest = max(largest, row[edges[k]] + value[heads[k]])
            value[v] = largest
            for k in range(starts[v], starts[v + 1]):
                shifted[b, edges[k]] = row[edges[k]] + value[heads[k]] - largest
        best[b] = value[nodes - 1]


@compile_solver
def _sum_backward(shifted, starts, edges, heads, weights, sums):
    """Fill the sum over all paths from each position, and the part of it for each edge out of the position."""
    sums[0] = 1
    for v in range(1, len(sums)):
        total = 0.0
        for k in range(starts[v], starts[v + 1]):
            weights[k] = np.exp(np.float64(shifted[edges[k]])) * sums[heads[k]]
            total += weights[k]
        sums[v] = total
    return np.isfinite(sums[-1])


@compile_solver
def _sum_paths(shifted, starts, edges, heads, log_z, marginals, is_finite):
    nodes = len(starts) - 1
    weights, sums, mass = np.empty(len(edges)), np.empty(nodes), np.empty(nodes)
    for b in range(len(shifted)):
        is_finite[b] = _sum_backward(shifted[b], starts, edges, heads, weights, sums)
        log_z[b] = np.log(sums[-1])
        mass[:] = 0
        mass[-1] = 1
        for v in range(nodes - 1, 0, -1):
            factor = mass[v] / sums[v]
            for k in range(starts[v], starts[v + 1]):
                x = factor * weights[k]
                marginals[b, edges[k]] = x
                mass[heads[k]] += x


@compile_solver
def _compute_covariances(marginals, factors, starts, edges, heads, gradient):
    nodes = len(starts) - 1
    later, earlier, mass = np.zeros(nodes), np.empty(nodes), np.empty(nodes)
    for b in range(len(marginals)):
        for v in range(1, nodes):
            probability, value = 0.0, 0.0
            for k in range(starts[v], starts[v + 1]):
                p = np.float64(marginals[b, edges[k]])
                probability += p
                value += p * (factors[b, edges[k]] + later[heads[k]])
            later[v] = value / probability if probability > 0 else 0.0  # expected weight of the path from here on
        earlier[:], mass[:] = 0, 0
        earlier[-1], mass[-1] = -later[-1], 1  # of the path up to here, minus that of all paths; a sum until divided
        for v in range(nodes - 1, 0, -1):
            before = earlier[v] / mass[v] if mass[v] > 0 else 0.0
            for k in range(starts[v], starts[v + 1]):
                p = np.float64(marginals[b, edges[k]])
                value = p * (before + factors[b, edges[k]])
                earlier[heads[k]] += value
                mass[heads[k]] += p
                gradient[b, edges[k]] = value + p * later[heads[k]]


@compile_solver
def _draw_paths(shifted, uniform, starts, edges, heads, numbers, z, is_finite):
    """Fill samples by inverting the distribution function of the edge out of each node."""
    nodes = len(starts) - 1
    weights, sums = np.empty(len(edges)), np.empty(nodes)
    for b in range(len(shifted)):
        is_finite[b] = _sum_backward(shifted[b], starts, edges, heads, weights, sums)
        for s in range(len(uniform)):
            v = nodes - 1
            while v > 0:
                at = starts[v]
                if starts[v + 1] > at + 1:
                    level, below = uniform[s, b, numbers[v]] * sums[v], 0.0
                    for k in range(starts[v], starts[v + 1]):
                        below += weights[k]
                        if weights[k] > 0:
                            at = k  # the last possible edge, if rounding leaves all sums below the level
                            if below > level:
                                break
                z[s, b, edges[at]] = 1
                v = heads[at]
