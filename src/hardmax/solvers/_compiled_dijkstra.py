"""Dijkstra's algorithm with a binary heap, compiled, for a batch of costs on the same graph."""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads

SECONDS_PER_ARC = 2e-8


def run_dijkstra(scores: Tensor, starts: Tensor, heads: Tensor, prices: Tensor, source: int, target: int) -> Tensor:
    """Return which scores the shortest paths use: `[B, D] -> [B, D]`. Arguments as for `find_shortest_paths`."""
    z = torch.zeros_like(scores, memory_format=torch.contiguous_format)
    inputs, outputs, arrays = scores.numpy(), z.numpy(), (starts.numpy(), heads.numpy(), prices.numpy())
    solve_in_threads(
        lambda part: _run_dijkstra(inputs[part], *arrays, source, target, outputs[part]),
        len(scores),
        SECONDS_PER_ARC * len(heads),
    )
    return z


@compile_solver
def _is_before(distance, step, other_distance, other_step):
    return distance < other_distance or (distance == other_distance and step < other_step)


@compile_solver
def _push(distances, steps, nodes, size, distance, step, node):
    """Add an entry to a heap of `size` entries; the smallest distance is first, then the smallest number of steps."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not _is_before(distance, step, distances[above], steps[above]):
            break
        distances[at], steps[at], nodes[at] = distances[above], steps[above], nodes[above]
        at = above
    distances[at], steps[at], nodes[at] = distance, step, node


@compile_solver
def _remove_first(distances, steps, nodes, size):
    """Remove the first of `size` entries: move the last one down from its place."""
    last = size - 1
    distance, step, node, at = distances[last], steps[last], nodes[last], 0
    while 2 * at + 1 < last:
        below = 2 * at + 1
        if below + 1 < last and _is_before(distances[below + 1], steps[below + 1], distances[below], steps[below]):
            below += 1
        if not _is_before(distances[below], steps[below], distance, step):
            break
        distances[at], steps[at], nodes[at] = distances[below], steps[below], nodes[below]
        at = below
    distances[at], steps[at], nodes[at] = distance, step, node


@compile_solver
def _run_dijkstra(scores, starts, heads, prices, source, target, z):
    """Sort nodes by distance, then by number of steps; of equal nodes before a node, keep the smallest."""
    nodes, arcs = len(starts) - 1, len(heads)
    distances, steps = np.empty(nodes), np.empty(nodes, np.int64)
    parents, price_of = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    is_done = np.empty(nodes, np.bool_)
    heap_distances, heap_steps = np.empty(arcs + 1), np.empty(arcs + 1, np.int64)
    heap_nodes = np.empty(arcs + 1, np.int64)
    for b in range(len(scores)):
        distances[:], steps[:], is_done[:] = np.inf, 0, False
        distances[source], steps[source] = 0, 0
        heap_distances[0], heap_steps[0], heap_nodes[0], size = 0, 0, source, 1
        while size > 0:
            node = heap_nodes[0]
            _remove_first(heap_distances, heap_steps, heap_nodes, size)
            size -= 1
            if is_done[node]:  # an entry with a longer distance than the one it was done with
                continue
            is_done[node] = True
            if node == target:
                break
            step = steps[node] + 1
            for k in range(starts[node], starts[node + 1]):
                head = heads[k]
                if is_done[head]:
                    continue
                distance = distances[node] - np.float64(scores[b, prices[k]])
                if _is_before(distance, step, distances[head], steps[head]):
                    distances[head], steps[head], parents[head], price_of[head] = distance, step, node, prices[k]
                    _push(heap_distances, heap_steps, heap_nodes, size, distance, step, head)
                    size += 1
                elif distance == distances[head] and step == steps[head] and node < parents[head]:
                    parents[head], price_of[head] = node, prices[k]
        node = target
        while node != source:
            z[b, price_of[node]] = 1
            node = parents[node]
