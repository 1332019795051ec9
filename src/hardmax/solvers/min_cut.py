"""Min-cut on small dense graphs: find the best bits where no coupling is negative.

Persistency comes first: it fixes the bits that are one even if all undecided neighbours are zero, or zero even if they
are one. For the other bits, push-relabel computes the maximum flow in waves. Sets of nodes are words of 64 bits, so
that a breadth-first search costs little more than a push; it precedes each wave and gives every node its exact distance
to the sink.

Reference: A. Goldberg, R. Tarjan (1988), A new approach to the maximum-flow problem; R. Tarjan (1984), A simple version
of Karzanov's blocking flow algorithm (waves).
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, find_lowest_bit, solve_in_threads
from hardmax.solvers.solution import ROUNDING, Solution

ONE = np.uint64(1)
NONE = np.uint64(0)


def solve_min_cut(unary: Tensor, couplings: Tensor, edges: Tensor) -> Solution:
    """Return the best z for couplings >= 0.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, none negative.
        edges: `[E, 2]`, each pair once.
    """
    batch, n = unary.shape
    z, value, bound = torch.empty_like(unary), unary.new_empty(batch), unary.new_empty(batch)
    scores, weights, pairs = unary.numpy(), couplings.numpy(), edges.numpy()
    codes, values, bounds, rounding = z.numpy(), value.numpy(), bound.numpy(), np.empty(batch)

    def solve(part: slice) -> None:
        solve_batch(scores[part], weights[part], pairs, codes[part], values[part], bounds[part], rounding[part])

    solve_in_threads(solve, batch, 5e-9 * n * n)
    np.copyto(bounds, values, where=~(bounds > values + rounding))
    return Solution(z, value, bound, "min-cut")


@compile_solver
def solve_batch(unary, couplings, edges, z, value, bound, rounding):
    """Solve each example.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, none negative.
        edges: `[E, 2]`, int64.
        z: `[B, n]`, float64, filled with the best bits.
        value: `[B]`, filled with their score: the cut.
        bound: `[B]`, filled with the upper bound of the score: the flow.
        rounding: `[B]`, filled with the tolerance for the difference of the two.
    """
    batch, n = unary.shape
    words = (n + 63) // 64
    weights = np.zeros((n, n))
    residual = np.empty((n, n))
    outward, inward = np.empty((n, words), np.uint64), np.empty((n, words), np.uint64)
    layers = np.empty((n + 2, words), np.uint64)
    active, unreached = np.empty(words, np.uint64), np.empty(words, np.uint64)
    low, high, excess, sink = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    fixed, free = np.empty(n, np.int8), np.empty(n, np.int64)
    flat = weights.reshape(-1)
    upper, lower = np.empty(len(edges), np.int64), np.empty(len(edges), np.int64)  # indices of w_ij and w_ji
    for e in range(len(edges)):
        upper[e], lower[e] = edges[e, 0] * n + edges[e, 1], edges[e, 1] * n + edges[e, 0]
    for b in range(batch):
        scale = 0.0
        for e in range(len(edges)):
            flat[upper[e]] = couplings[b, e]
            flat[lower[e]] = couplings[b, e]
            scale += couplings[b, e]
        for i in range(n):
            scale += abs(unary[b, i])
        fix_persistent_bits(unary[b], weights, low, high, fixed, free)
        left = 0
        for i in range(n):
            z[b, i] = fixed[i] == 1
            if fixed[i] == 0:
                free[left] = i
                left += 1
        constant = 0.0
        for i in range(n):
            if fixed[i] == 1:
                constant += 0.5 * (low[i] + unary[b, i])
        total = constant
        if left:
            used = (left + 63) // 64
            constant += build_network(
                left, used, weights, low, high, free, residual, excess, sink, outward, inward, active
            )
            constant -= push_excess(left, used, residual, excess, sink, outward, inward, layers, active, unreached)
            for x in range(left):
                z[b, free[x]] = (unreached[x >> 6] >> np.uint64(x & 63)) & ONE != NONE
            for x in range(left):
                i = free[x]
                if z[b, i]:
                    total += low[i]
                    for y in range(x):
                        total += weights[i, free[y]] * z[b, free[y]]
        value[b], bound[b], rounding[b] = total, constant, ROUNDING * scale


@compile_solver
def fix_persistent_bits(unary, weights, low, high, fixed, queue):
    """Fix bits that are 1 with all undecided neighbours at 0, or 0 with all at 1; repeat until no more can be fixed.

    low and high are the fields `a_i + sum_j w_ij z_j` with all undecided neighbours at zero and at one.
    """
    n = len(unary)
    tail = 0
    for i in range(n):
        low[i], high[i], fixed[i] = unary[i], unary[i], 0
    for i in range(n):
        for j in range(n):  # n independent sums at once: vectorised, unlike a single sum
            high[j] += weights[i, j]
    for i in range(n):
        if low[i] > 0:
            fixed[i] = 1
        elif high[i] <= 0:
            fixed[i] = -1
        if fixed[i] != 0:
            queue[tail] = i
            tail += 1
    head = 0
    while head < tail:
        i = queue[head]
        head += 1
        if fixed[i] == 1:
            for j in range(n):
                low[j] += weights[i, j]
            for j in range(n):
                if fixed[j] == 0 and low[j] > 0:
                    fixed[j] = 1
                    queue[tail] = j
                    tail += 1
        else:
            for j in range(n):
                high[j] -= weights[i, j]
            for j in range(n):
                if fixed[j] == 0 and high[j] <= 0:
                    fixed[j] = -1
                    queue[tail] = j
                    tail += 1


@compile_solver
def build_network(left, words, weights, low, high, free, residual, excess, sink, outward, inward, active):
    """Build the network of the undecided bits; return the total flow from the source.

    `w z_i z_j = w (z_i + z_j) / 2 - w |z_i - z_j| / 2`, so with `c_i = (low_i + high_i) / 2` a cut costs w / 2 per
    edge and |c_i| at the source (c_i > 0: excess) or at the sink.
    """
    for q in range(words):
        active[q] = NONE
    sent = 0.0
    for x in range(left):
        for q in range(words):
            outward[x, q] = NONE
        i = free[x]
        for y in range(left):
            residual[x, y] = 0.5 * weights[i, free[y]]
            if residual[x, y] > 0:
                outward[x, y >> 6] |= ONE << np.uint64(y & 63)
        for q in range(words):
            inward[x, q] = outward[x, q]
        centre = 0.5 * (low[i] + high[i])
        excess[x], sink[x] = max(centre, 0.0), max(-centre, 0.0)
        sent += excess[x]
        if centre > 0:
            active[x >> 6] |= ONE << np.uint64(x & 63)
    return sent


@compile_solver
def push_excess(left, words, residual, excess, sink, outward, inward, layers, active, unreached):
    """Push excess to the sink until the rest cannot reach it; return the flow, and the bits that are 1 in `unreached`.

    Push-relabel by waves (Tarjan 1984): exact distances to the sink by a breadth-first search, then every active node
    from the farthest layer down pushes to the next layer, and so on. A node that keeps excess has used up its
    arcs to the next layer, so its distance grows: at most n^2 waves. Sets of nodes are words of 64 bits, which
    makes the search about as cheap as one push.
    """
    flow = 0.0
    for _ in range((left + 1) * (left + 1)):  # never reached unless scores are NaN or infinite
        # ---- distances
        for q in range(words):
            unreached[q] = ~NONE
            layers[1, q] = NONE
        unreached[words - 1] = ~NONE >> np.uint64(64 * words - left)
        for x in range(left):
            if sink[x] > 0:
                layers[1, x >> 6] |= ONE << np.uint64(x & 63)
        depth, farthest = 1, 0
        while True:
            reached = NONE
            for q in range(words):
                unreached[q] &= ~layers[depth, q]
                reached |= layers[depth, q]
                if layers[depth, q] & active[q]:
                    farthest = depth
            if reached == NONE:
                break
            for q in range(words):
                layers[depth + 1, q] = NONE
            for q in range(words):
                word = layers[depth, q]
                while word:
                    y = 64 * q + find_lowest_bit(word)
                    word &= word - ONE
                    for p in range(words):
                        layers[depth + 1, p] |= inward[y, p] & unreached[p]
            depth += 1
        if farthest == 0:
            return flow
        # ---- one wave
        for layer in range(farthest, 0, -1):
            for q in range(words):
                word = layers[layer, q] & active[q]
                while word:
                    place = find_lowest_bit(word)
                    word &= word - ONE
                    x = 64 * q + place
                    rest = excess[x]
                    if layer == 1:
                        amount = min(rest, sink[x])
                        sink[x] -= amount
                        flow += amount
                        rest -= amount
                    else:
                        for p in range(words):
                            targets = outward[x, p] & layers[layer - 1, p]
                            while targets and rest > 0:
                                at = find_lowest_bit(targets)
                                targets &= targets - ONE
                                y = 64 * p + at
                                amount = min(rest, residual[x, y])
                                rest -= amount
                                residual[x, y] -= amount
                                residual[y, x] += amount
                                excess[y] += amount
                                active[p] |= ONE << np.uint64(at)
                                outward[y, q] |= ONE << np.uint64(place)
                                inward[x, p] |= ONE << np.uint64(at)
                                if not residual[x, y] > 0:
                                    outward[x, p] &= ~(ONE << np.uint64(at))
                                    inward[y, q] &= ~(ONE << np.uint64(place))
                    excess[x] = rest
                    if not rest > 0:
                        active[q] &= ~(ONE << np.uint64(place))
    return flow
