"""Min-cut on sparse graphs, especially grids: find the best bits where no coupling is negative.

Two search trees grow, one from the source (bits with positive fields) and one from the sink. Where they meet, flow is
sent along the path until one of its edges is used up. The nodes that this cuts off, the orphans, look for a new parent
in the same tree. The trees are kept from one path to the next: therefore this is fast on graphs with short paths.

Reference: Y. Boykov, V. Kolmogorov (2004), An experimental comparison of min-cut/max-flow algorithms for energy
minimization in vision. Written from the paper.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads
from hardmax.solvers.solution import Solution, certify_solution

NOTHING, TERMINAL, ORPHAN = -1, -2, -3  # values of a node's parent, other than an arc
FAR = 1 << 60
PATHS_PER_ARC = 100  # measured on grids: below 1


def solve_min_cut_sparse(unary: Tensor, couplings: Tensor, edges: Tensor) -> Solution:
    """Return the best z for couplings >= 0, on a sparse graph.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, none negative.
        edges: `[E, 2]`.

    Returns:
        A solution. Its bound is the flow, and above the value only if the flow needs more paths than the limit, which
        exists because no polynomial bound is known.
    """
    batch, n = unary.shape
    z, value, bound = torch.empty_like(unary), unary.new_empty(batch), unary.new_empty(batch)
    scores, weights, pairs = unary.numpy(), couplings.numpy(), edges.numpy()
    codes, values, bounds = z.numpy(), value.numpy(), bound.numpy()
    limit = PATHS_PER_ARC * (n + 2 * len(pairs))

    def solve(part: slice) -> None:
        solve_batch(scores[part], weights[part], pairs, limit, codes[part], values[part], bounds[part])

    solve_in_threads(solve, batch, 1e-7 * (n + len(pairs)))
    return certify_solution(z, value, bound, unary.abs().sum(1) + couplings.sum(1), "min-cut-sparse")


@compile_solver
def solve_batch(unary, couplings, edges, path_limit, z, value, bound):
    """Solve each example.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, none negative.
        edges: `[E, 2]`, int64.
        path_limit: maximal number of paths of flow, per example; there is no polynomial bound on their number.
        z: `[B, n]`, float64, filled with the best bits.
        value: `[B]`, filled with their score: the cut.
        bound: `[B]`, filled with the upper bound of the score: the flow. Equal to the value up to rounding, below the
            limit.
    """
    batch, n = unary.shape
    count = len(edges)
    first, head, edge = build_adjacency(n, edges)
    sister = np.empty(2 * count, np.int64)
    place = np.full(count, -1)
    for arc in range(2 * count):
        if place[edge[arc]] < 0:
            place[edge[arc]] = arc
        else:
            sister[arc] = place[edge[arc]]
            sister[sister[arc]] = arc
    residual, terminal = np.empty(2 * count), np.empty(n)
    parent, in_sink = np.empty(n, np.int64), np.empty(n, np.bool_)
    stamp, distance = np.empty(n, np.int64), np.empty(n, np.int64)
    queue, orphans, queued = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.bool_)
    for b in range(batch):
        # w z_i z_j = w (z_i + z_j) / 2 - w |z_i - z_j| / 2: half of each coupling is an edge, half goes to the fields
        for arc in range(2 * count):
            residual[arc] = 0.5 * couplings[b, edge[arc]]
        total = 0.0
        for i in range(n):
            terminal[i] = unary[b, i]
            for arc in range(first[i], first[i + 1]):
                terminal[i] += residual[arc]
            total += max(terminal[i], 0.0)
        total -= compute_max_flow(
            first,
            head,
            sister,
            residual,
            terminal,
            parent,
            in_sink,
            stamp,
            distance,
            queue,
            orphans,
            queued,
            path_limit,
        )
        score = 0.0
        for i in range(n):
            z[b, i] = parent[i] != NOTHING and not in_sink[i]
            if z[b, i]:
                score += unary[b, i]
        for e in range(count):
            if z[b, edges[e, 0]] and z[b, edges[e, 1]]:
                score += couplings[b, e]
        value[b], bound[b] = score, total


@compile_solver
def build_adjacency(n, edges):
    """Return the index of the first arc of each node `[n + 1]`, and the head and the edge of each arc `[2 E]`."""
    first = np.zeros(n + 1, np.int64)
    for e in range(len(edges)):
        first[edges[e, 0] + 1] += 1
        first[edges[e, 1] + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    head, edge = np.empty(2 * len(edges), np.int64), np.empty(2 * len(edges), np.int64)
    after = first.copy()
    for e in range(len(edges)):
        for side in range(2):
            arc = after[edges[e, side]]
            head[arc], edge[arc] = edges[e, 1 - side], e
            after[edges[e, side]] += 1
    return first, head, edge


@compile_solver
def compute_max_flow(
    first, head, sister, residual, terminal, parent, in_sink, stamp, distance, queue, orphans, queued, path_limit
):
    """Send flow until the trees no longer touch; return the total flow. A node is in a tree if it has a parent."""
    n = len(terminal)
    ring = n + 1
    begin = end = 0  # of the queue of nodes whose arcs are still to be visited
    for i in range(n):
        stamp[i], distance[i], queued[i], parent[i] = 0, 1, False, NOTHING
        in_sink[i] = terminal[i] < 0
        if terminal[i] != 0:
            parent[i], queued[i], queue[end] = TERMINAL, True, i
            end += 1
    flow, time, paths = 0.0, 0, 0
    while begin != end and paths < path_limit:
        i = queue[begin]
        if parent[i] == NOTHING:
            queued[i] = False
            begin = (begin + 1) % ring
            continue
        # ---- grow
        sink, meeting = in_sink[i], -1
        for arc in range(first[i], first[i + 1]):
            if not residual[sister[arc] if sink else arc] > 0:
                continue
            j = head[arc]
            if parent[j] == NOTHING:
                in_sink[j], parent[j], stamp[j], distance[j] = sink, sister[arc], stamp[i], distance[i] + 1
                if not queued[j]:
                    queued[j], queue[end] = True, j
                    end = (end + 1) % ring
            elif in_sink[j] != sink:
                meeting = sister[arc] if sink else arc
                break
            elif stamp[j] <= stamp[i] and distance[j] > distance[i]:  # i is nearer to the terminal than j's parent
                parent[j], stamp[j], distance[j] = sister[arc], stamp[i], distance[i] + 1
        if meeting < 0:
            queued[i] = False
            begin = (begin + 1) % ring
            continue
        # ---- send; i stays at the front of the queue
        time += 1
        paths += 1
        amount, lost = augment_path(meeting, head, sister, residual, terminal, parent, orphans)
        flow += amount
        # ---- adopt
        front = 0
        while front != lost:
            i = orphans[front]
            front = (front + 1) % ring
            sink, nearest, best = in_sink[i], NOTHING, FAR
            for arc in range(first[i], first[i + 1]):
                j = head[arc]
                if residual[arc if sink else sister[arc]] > 0 and in_sink[j] == sink and parent[j] != NOTHING:
                    far = find_terminal_distance(j, time, head, parent, stamp, distance)
                    if far < best:
                        nearest, best = arc, far
            parent[i] = nearest
            if nearest != NOTHING:
                stamp[i], distance[i] = time, best + 1
                continue
            for arc in range(first[i], first[i + 1]):
                j = head[arc]
                if in_sink[j] != sink or parent[j] == NOTHING:
                    continue
                if residual[arc if sink else sister[arc]] > 0 and not queued[j]:
                    queued[j], queue[end] = True, j
                    end = (end + 1) % ring
                if parent[j] >= 0 and head[parent[j]] == i:
                    parent[j], orphans[lost] = ORPHAN, j
                    lost = (lost + 1) % ring
    return flow


@compile_solver
def augment_path(meeting, head, sister, residual, terminal, parent, orphans):
    """Saturate the path through an arc between the trees; return the amount sent, and the number of orphans."""
    amount = residual[meeting]
    i = head[sister[meeting]]
    while parent[i] != TERMINAL:
        amount = min(amount, residual[sister[parent[i]]])
        i = head[parent[i]]
    amount = min(amount, terminal[i])
    i = head[meeting]
    while parent[i] != TERMINAL:
        amount = min(amount, residual[parent[i]])
        i = head[parent[i]]
    amount = min(amount, -terminal[i])

    lost = 0
    residual[meeting] -= amount
    residual[sister[meeting]] += amount
    for side in range(2):
        i = head[sister[meeting]] if side == 0 else head[meeting]
        while True:
            arc = parent[i]
            if arc == TERMINAL:
                terminal[i] += amount if side == 1 else -amount
                empty = terminal[i] == 0
            else:
                forward = sister[arc] if side == 0 else arc
                residual[forward] -= amount
                residual[sister[forward]] += amount
                empty = not residual[forward] > 0
            if empty:
                parent[i], orphans[lost] = ORPHAN, i
                lost += 1
            if arc == TERMINAL:
                break
            i = head[arc]
    return amount, lost


@compile_solver
def find_terminal_distance(i, time, head, parent, stamp, distance):
    """Return the distance from a node to its terminal along its parents, FAR if one is an orphan; mark the path."""
    j, far = i, 0
    while stamp[j] != time:
        arc = parent[j]
        far += 1
        if arc == TERMINAL:
            stamp[j], distance[j] = time, 1
            break
        if arc < 0:
            return FAR
        j = head[arc]
    else:
        far += distance[j]
    steps = far
    while stamp[i] != time:
        stamp[i], distance[i] = time, steps
        steps -= 1
        i = head[parent[i]]
    return far
