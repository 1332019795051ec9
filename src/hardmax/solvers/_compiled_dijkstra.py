"""Dijkstra's algorithm with a binary heap, compiled, for a batch of costs on the same graph."""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads

SECONDS_PER_ARC = 2e-8


def run_dijkstra(scores: Tensor, starts: Tensor, heads: Tensor, prices: Tensor, source: int, target: int) -> Tensor:
    """Return which scores the shortest paths use: `[B, D] -> [B, D]`. Arguments as for `find_shortest_paths`."""
    z = torch.zeros_like(scores, memory_format=torch.contiguous_format)
    # Unsigned indices need no check for negative ones.
    arrays = starts.numpy(), heads.numpy().astype(np.uint32), prices.numpy().astype(np.uint32)
    inputs, outputs = scores.numpy(), z.numpy()
    solve_in_threads(
        lambda part: _run_dijkstra(inputs[part], *arrays, source, target, outputs[part]),
        len(scores),
        SECONDS_PER_ARC * len(heads),
    )
    return z


@compile_solver
def _is_before(distance, entry, other_distance, other_entry):
    """Compare by distance, then by entry; without a branch, since none would be predictable."""
    return (distance < other_distance) | ((distance == other_distance) & (entry < other_entry))


@compile_solver
def _insert(distances, entries, at, distance, entry):
    """Store an entry of a heap at an empty place, or above it if that is where it belongs."""
    while at > 0:
        above = (at - 1) >> 1
        if not _is_before(distance, entry, distances[above], entries[above]):
            break
        distances[at], entries[at] = distances[above], entries[above]
        at = above
    distances[at], entries[at] = distance, entry


@compile_solver
def _remove_first(distances, entries, size):
    """Remove the first of `size` entries: move the empty place down to the end of the heap, and fill it by the last."""
    last, at = size - 1, 0
    while 2 * at + 2 < last:
        below = 2 * at + 1
        below += np.int64(_is_before(distances[below + 1], entries[below + 1], distances[below], entries[below]))
        distances[at], entries[at] = distances[below], entries[below]
        at = below
    if 2 * at + 1 < last:
        distances[at], entries[at] = distances[2 * at + 1], entries[2 * at + 1]
        at = 2 * at + 1
    _insert(distances, entries, at, distances[last], entries[last])


@compile_solver
def _run_dijkstra(scores, starts, heads, prices, source, target, z):
    """Sort nodes by distance, then by number of steps; of equal nodes before a node, keep the smallest.

    An entry of the heap is `steps * 2^32 + node`.
    """
    nodes, arcs = len(starts) - 1, len(heads)
    distances, steps = np.empty(nodes), np.empty(nodes, np.int64)
    parents, price_of = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    heap_distances, heap_entries = np.empty(arcs + 1), np.empty(arcs + 1, np.int64)
    for b in range(len(scores)):
        row = scores[b]
        distances[:], steps[:] = np.inf, 0
        distances[source] = 0
        heap_distances[0], heap_entries[0], size = 0, source, 1
        while size > 0:
            here, entry = heap_distances[0], heap_entries[0]
            _remove_first(heap_distances, heap_entries, size)
            size -= 1
            step, node = entry >> 32, entry & 0xFFFFFFFF
            if here > distances[node] or step > steps[node]:  # a shorter distance has been pushed later
                continue
            if node == target:
                break
            step += 1
            for k in range(starts[node], starts[node + 1]):
                head = heads[k]
                distance = here - np.float64(row[prices[k]])
                if distance > distances[head]:
                    continue
                if distance < distances[head] or step < steps[head]:
                    distances[head], steps[head], parents[head], price_of[head] = distance, step, node, prices[k]
                    _insert(heap_distances, heap_entries, size, distance, (step << 32) | head)
                    size += 1
                elif step == steps[head] and node < parents[head]:
                    parents[head], price_of[head] = node, prices[k]
        node = target
        while node != source:
            z[b, price_of[node]] = 1
            node = parents[node]
