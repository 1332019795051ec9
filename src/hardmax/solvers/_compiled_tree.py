"""Spanning trees, compiled: the best tree, sums over trees and marginals.

Eliminating the nodes one after the other uses weights `exp(scores - max)`, not logarithms: ten times faster, and as
accurate, since no weight is subtracted. What underflows is lost, though, which matters where the trees that count
contain edges with scores 640 below the largest. Each example reports whether it may have lost something.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads

FLOOR = 1e-280  # of the weight that joins a node to the others: what underflows is 1e-28 of it
SECONDS_PER_STEP = 5e-10


def find_best_trees(scores: Tensor, n: int) -> Tensor:
    """Return the best trees: `[*B, E] -> [*B, E]`, zeros and ones."""
    z = torch.zeros_like(scores, memory_format=torch.contiguous_format)
    inputs = scores.numpy().reshape(-1, scores.shape[-1])
    outputs = z.numpy().reshape(inputs.shape)
    solve_in_threads(lambda part: _run_prim(inputs[part], n, outputs[part]), len(inputs), 1e-9 * n * n)
    return z


def sum_trees(scores: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return log Z `[B]`, the marginals `[B, E]` and which examples are accurate `[B]`."""
    wide = scores.double()
    top = wide.amax(-1, keepdim=True)
    marginals = (wide - top).exp_()
    log_z, is_accurate = wide.new_empty(len(scores)), torch.empty(len(scores), dtype=torch.bool)
    outputs = marginals.numpy(), log_z.numpy(), is_accurate.numpy()
    seconds = SECONDS_PER_STEP * n**3
    solve_in_threads(lambda part: _eliminate_batch(n, *(out[part] for out in outputs)), len(scores), seconds)
    return (log_z + (n - 1) * top[:, 0]).to(scores.dtype), marginals.to(scores.dtype), is_accurate


def differentiate_marginals(scores: Tensor, direction: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the derivative of the marginals along a direction `[B, E]`, and which examples are accurate `[B]`.

    The Jacobian is symmetric, the second derivative of log Z, so this is also the gradient of `<direction, marginals>`.
    """
    wide = scores.double()
    weights = (wide - wide.amax(-1, keepdim=True)).exp_()
    derivative, is_accurate = direction.double().clone(), torch.empty(len(scores), dtype=torch.bool)
    arrays = weights.numpy(), derivative.numpy(), is_accurate.numpy()
    seconds = 3 * SECONDS_PER_STEP * n**3
    solve_in_threads(lambda part: _differentiate_batch(n, *(array[part] for array in arrays)), len(scores), seconds)
    return derivative.to(scores.dtype), is_accurate


@compile_solver
def _run_prim(scores, n, z):
    """Add the outside node with the heaviest edge to the tree, n - 1 times."""
    key, edge, outside = np.empty(n, scores.dtype), np.empty(n, np.int64), np.empty(n, np.int64)
    start = np.empty(n, np.int64)  # edge (i, j), i < j, is number start[i] + j
    for i in range(n):
        start[i] = i * (2 * n - i - 1) // 2 - i - 1
    for b in range(len(scores)):
        # The nodes outside the tree, ascending, with their heaviest edges to it: those of node 0 at first.
        row, best = scores[b], 0
        for j in range(n - 1):
            outside[j], key[j], edge[j] = j + 1, row[j], j
            if key[j] > key[best]:
                best = j
        for count in range(n - 2, -1, -1):
            z[b, edge[best]] = 1
            node, removed, best = outside[best], best, 0
            for j in range(count):
                old = j + 1 if j >= removed else j
                other = outside[old]
                heaviest, number = key[old], edge[old]
                e = start[min(node, other)] + max(node, other)
                if row[e] > heaviest:
                    heaviest, number = row[e], e
                outside[j], key[j], edge[j] = other, heaviest, number
                if heaviest > key[best]:
                    best = j


@compile_solver
def _eliminate_batch(n, values, log_z, is_accurate):
    r"""Replace the weights of the edges by their marginals, weight times resistance.

    Eliminating node k changes the weights to `w_ij + w_ik w_jk / d_k`, with `d_k = sum_j w_jk`, and `Z = prod_k d_k`.
    The resistance between two nodes is the derivative of log Z for their weight. It is the same in the smaller graph;
    for the eliminated node, with `q_i = w_ik / d_k`, it is `1 / d_k + sum_i q_i R_ij - sum_ij q_i q_j R_ij / 2`.
    """
    weights, resistance = np.empty((n, n)), np.zeros((n, n))  # of the weights only i > j
    q, mean, degree = np.empty(n), np.empty(n), np.empty(n)
    for b in range(len(values)):
        e = 0
        for i in range(n):
            for j in range(i + 1, n):
                weights[j, i] = values[b, e]
                e += 1
        accurate, total = True, 0.0
        for k in range(n - 1, 0, -1):
            row, d = weights[k], 0.0
            for j in range(k):
                d += row[j]
            degree[k] = d
            accurate &= d >= FLOOR
            total += np.log(d)
            for i in range(1, k):
                factor = row[i] / d
                other = weights[i]
                for j in range(i):
                    other[j] += factor * row[j]
        for k in range(1, n):
            d, row = degree[k], weights[k]
            mean[:k] = 0
            for i in range(k):
                q[i] = row[i] / d
                other = resistance[i]
                for j in range(k):
                    mean[j] += q[i] * other[j]
            half = 0.0
            for j in range(k):
                half += q[j] * mean[j]
            for j in range(k):
                resistance[k, j] = resistance[j, k] = 1 / d - half / 2 + mean[j]
        e = 0
        for i in range(n):
            for j in range(i + 1, n):
                values[b, e] *= resistance[i, j]
                e += 1
        log_z[b], is_accurate[b] = total, accurate


@compile_solver
def _differentiate_batch(n, values, directions, is_accurate):
    """Replace directions by derivatives of the marginals: as `_eliminate_batch`, each number with its derivative."""
    weights, d_weights = np.empty((n, n)), np.empty((n, n))  # only i > j
    resistance, d_resistance = np.zeros((n, n)), np.zeros((n, n))
    q, d_q, mean, d_mean = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    degree, d_degree = np.empty(n), np.empty(n)
    for b in range(len(values)):
        e = 0
        for i in range(n):
            for j in range(i + 1, n):
                weights[j, i], d_weights[j, i] = values[b, e], values[b, e] * directions[b, e]
                e += 1
        accurate = True
        for k in range(n - 1, 0, -1):
            row, d_row = weights[k], d_weights[k]
            degree[k], d_degree[k] = row[:k].sum(), d_row[:k].sum()
            accurate &= degree[k] >= FLOOR
            for i in range(1, k):
                factor = row[i] / degree[k]
                d_factor = (d_row[i] - factor * d_degree[k]) / degree[k]
                other, d_other = weights[i], d_weights[i]
                for j in range(i):
                    other[j] += factor * row[j]
                    d_other[j] += factor * d_row[j] + d_factor * row[j]
        for k in range(1, n):
            mean[:k], d_mean[:k] = 0, 0
            for i in range(k):
                q[i] = weights[k, i] / degree[k]
                d_q[i] = (d_weights[k, i] - q[i] * d_degree[k]) / degree[k]
                other, d_other = resistance[i], d_resistance[i]
                for j in range(k):
                    mean[j] += q[i] * other[j]
                    d_mean[j] += q[i] * d_other[j] + d_q[i] * other[j]
            half, d_half = 0.0, 0.0
            for j in range(k):
                half += q[j] * mean[j] / 2
                d_half += (q[j] * d_mean[j] + d_q[j] * mean[j]) / 2
            own, d_own = 1 / degree[k] - half, -d_degree[k] / degree[k] / degree[k] - d_half
            for j in range(k):
                resistance[k, j] = resistance[j, k] = own + mean[j]
                d_resistance[k, j] = d_resistance[j, k] = d_own + d_mean[j]
        e = 0
        for i in range(n):
            for j in range(i + 1, n):
                directions[b, e] = values[b, e] * (directions[b, e] * resistance[i, j] + d_resistance[i, j])
                e += 1
        is_accurate[b] = accurate
