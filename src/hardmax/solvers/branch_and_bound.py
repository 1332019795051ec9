"""Branch and bound: find the best bits for couplings of any sign.

**The bound.** A coupling is split between its two ends: for w > 0, `w z_i z_j <= p z_i + (w - p) z_j`, and for w < 0,
`w z_i z_j <= q - q z_i - q z_j`, with 0 <= p, q <= |w|. With the splits added to the unary scores, the *fields* c,

    h(z) <= K + sum_i c_i z_i <= K + sum_i max(c_i, 0) = U.

The best splits give the roof dual, the bound of the linear relaxation. Up to a constant U is `sum_i |c_i| / 2`, and the
splits with the smallest sum of squares of c have the smallest U too, so we iterate over the edges and balance the
fields of both ends, exactly, one edge at a time. Children inherit the fields and splits of their parent: a few sweeps
at the root do most of the work.

**The search** is depth first and tries the likelier value of a bit first. It fixes a bit if the other value cannot beat
the best z so far (`U - |c_i| <= best`), or if the best value is the same for all values of its neighbours
(persistency).

Reference: P. Hammer, P. Hansen, B. Simeone (1984), Roof duality, complementation and persistency in quadratic 0-1
optimization; E. Boros, P. Hammer (2002), Pseudo-Boolean optimization, sections 4 and 5.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads
from hardmax.solvers.solution import ROUNDING, Solution
from hardmax.solvers.tabu import copy_bits, evaluate_code, run_tabu_search

ROOT_SWEEPS = 3  # measured: more, or more than one in a node, costs more than it saves


def solve_branch_and_bound(
    unary: Tensor,
    couplings: Tensor,
    edges: Tensor,
    *,
    node_limit: int,
    start: Tensor | None = None,
    give_up: bool = False,
) -> Solution:
    """Return the best z, for couplings of any sign.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, any sign.
        edges: `[E, 2]`, each pair once.
        node_limit: maximal number of nodes, per example. 1,000 nodes take a few milliseconds.
        start: `[B, n]`, a z to begin from, or None.
        give_up: skip the rest of the batch once an example has reached the limit.

    Returns:
        A solution; where the limit was reached, its bound is the largest bound of the remaining nodes.
    """
    batch, n = unary.shape
    z, value, bound = torch.empty_like(unary), unary.new_empty(batch), unary.new_empty(batch)
    starts = unary.new_empty(0, n) if start is None else start
    scores, weights, pairs, begins = unary.numpy(), couplings.numpy(), edges.numpy(), starts.numpy()
    codes, values, bounds, nodes = z.numpy(), value.numpy(), bound.numpy(), np.empty(batch, np.int64)

    def solve(part: slice) -> None:
        solve_batch(
            scores[part], weights[part], pairs, begins[part], node_limit, give_up,
            codes[part], values[part], bounds[part], nodes[part],
        )  # fmt: skip

    solve_in_threads(solve, batch, 5e-9 * n * n)
    return Solution(z, value, bound, "branch-and-bound")


@compile_solver
def solve_batch(unary, couplings, edges, starts, node_limit, give_up, z, value, bound, nodes):
    """Solve each example.

    Args:
        unary: `[B, n]`, float64.
        couplings: `[B, E]`, float64, any sign.
        edges: `[E, 2]`, int64, each pair once.
        starts: `[B, n]`, float64, or `[0, n]`: a z to begin from.
        node_limit: maximal number of nodes, per example.
        give_up: whether to stop at the first example that reaches the limit.
        z: `[B, n]`, float64, filled with the best known bits.
        value: `[B]`, filled with their score.
        bound: `[B]`, filled with the upper bound of the score: the value, unless the limit was reached.
        nodes: `[B]`, int64, filled with the number of nodes visited; 0 where persistency fixed every bit.
    """
    batch, n = unary.shape
    weights = np.zeros((n, n))
    flat = weights.reshape(-1)
    upper, lower = np.empty(len(edges), np.int64), np.empty(len(edges), np.int64)  # indices of w_ij and w_ji
    for e in range(len(edges)):
        upper[e], lower[e] = edges[e, 0] * n + edges[e, 1], edges[e, 1] * n + edges[e, 0]
    ids, free = np.empty((n + 1, n), np.int64), np.empty((n + 1, n), np.bool_)
    field, low, high = np.empty((n + 1, n)), np.empty((n + 1, n)), np.empty((n + 1, n))
    share = np.empty((n + 1, n, n))
    code, best_code, start = np.zeros(n, np.uint8), np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    gain, tabu = np.empty(n), np.empty(n, np.int64)
    failed = False
    for b in range(batch):
        if failed and give_up:
            z[b], value[b], bound[b], nodes[b] = 0.0, -np.inf, np.inf, 0
            continue
        scores = unary[b]
        scale = 0.0
        for i in range(n):
            scale += abs(scores[i])
        for e in range(len(edges)):
            flat[upper[e]] = couplings[b, e]
            flat[lower[e]] = couplings[b, e]
            scale += abs(couplings[b, e])
        count, constant = initialize_root(weights, scores, code, ids[0], free[0], field[0], low[0], high[0], share[0])
        copy_bits(code, best_code)
        best, bound[b], nodes[b] = constant, constant, 0
        if count > 0:
            for _ in range(ROOT_SWEEPS):
                constant = balance_fields(weights, ids[0], count, field[0], share[0], constant)
            copy_bits(code, start)
            for x in range(count):
                start[ids[0, x]] = field[0, x] > 0
            best = run_tabu_search(weights, scores, start, count, -np.inf, best_code, gain, tabu)
            if len(starts) > 0:
                copy_bits(starts[b], start)
                best = run_tabu_search(weights, scores, start, 2, best, best_code, gain, tabu)
            bound[b], nodes[b] = search_depth_first(
                weights, count, constant, best, ROUNDING * scale, node_limit,
                ids, free, field, low, high, share, code, best_code,
            )  # fmt: skip
            best = evaluate_code(weights, scores, best_code)
        copy_bits(best_code, z[b])
        value[b] = best
        # The search prunes with a little slack: a bound within it is the value.
        if bound[b] > best + ROUNDING * scale:
            failed = True
        else:
            bound[b] = best


@compile_solver
def initialize_root(weights, scores, code, ids, free, field, low, high, share):
    """Set up the root: fix bits by persistency (in `code`); return the number of free bits, and K.

    low and high are the least and the greatest field of a bit, `a_i + sum_j w_ij z_j` over all z. A bit with low >= 0
    is one and a bit with high <= 0 is zero in some best z, for any values of the other bits, whose ranges then shrink.
    """
    n = len(scores)
    for i in range(n):
        low[i], high[i], free[i] = scores[i], scores[i], True
    for i in range(n):
        for j in range(n):  # n sums at once: in this order the loop is vectorised
            low[j] += min(weights[i, j], 0.0)
            high[j] += max(weights[i, j], 0.0)
    changed = True
    while changed:
        changed = False
        for i in range(n):
            if free[i] and (low[i] >= 0 or not high[i] > 0):
                code[i], free[i], changed = low[i] >= 0, False, True
                if code[i]:
                    for j in range(n):
                        low[j] += max(weights[i, j], 0.0)
                        high[j] += min(weights[i, j], 0.0)
                else:
                    for j in range(n):
                        low[j] -= min(weights[i, j], 0.0)
                        high[j] -= max(weights[i, j], 0.0)
    constant = 0.0
    count = 0
    for i in range(n):
        if free[i]:
            ids[count], low[count], high[count] = i, low[i], high[i]
            count += 1
        elif code[i]:
            constant += scores[i]
            for j in range(i):
                if code[j] and not free[j]:
                    constant += weights[i, j]
    for x in range(count):
        free[x] = True
        field[x] = 0.5 * (low[x] + high[x])
        for y in range(x):
            w = weights[ids[x], ids[y]]
            share[x, y] = 0.5 * abs(w)
            constant -= min(0.5 * w, 0.0)
    return count, constant


@compile_solver
def balance_fields(weights, ids, count, field, share, constant):
    """Iterate once over all edges and make the fields of both ends as equal as the split allows; return the new K.

    `share[x, y]`, y < x, is the amount by which the field of x can still fall: p for w > 0, |w| - q for w < 0; it can
    rise by the rest of |w|. The other end rises where w > 0 and falls where w < 0.
    """
    for x in range(count):
        row = weights[ids[x]]
        mine = field[x]
        for y in range(x):
            w = row[ids[y]]
            room = share[x, y]
            if w > 0:
                step = min(max(0.5 * (mine - field[y]), room - w), room)
                field[y] += step
            else:
                step = min(max(0.5 * (mine + field[y]), room + w), room)
                field[y] -= step
                constant += step
            mine -= step
            share[x, y] = room - step
        field[x] = mine
    return constant


@compile_solver
def compute_node_bound(constant, count, free, field):
    """Return the bound U of a node."""
    for x in range(count):
        if free[x]:
            constant += max(field[x], 0.0)
    return constant


@compile_solver
def fix_bit(weights, ids, x, one, count, free, field, low, high, share):
    """Set bit x of a node and update the fields and ranges of its free bits; return the increase of K."""
    row = weights[ids[x]]
    gained = field[x] if one else 0.0
    for y in range(count):
        if not free[y]:
            continue
        w = row[ids[y]]
        down = share[x, y] if y < x else w - share[y, x] if w > 0 else share[y, x]
        up = abs(w) - down
        if one and w > 0:  # the split costs `down` if y is zero
            gained -= down
            field[y] += down
            low[y] += w
        elif one:  # ... if y is one
            field[y] -= down
            high[y] += w
        elif w > 0:
            field[y] -= up
            high[y] -= w
        else:
            gained -= up
            field[y] += up
            low[y] -= w
    return gained


@compile_solver
def fix_decided_bits(weights, ids, count, target, constant, free, field, low, high, share, code):
    """Fix the bits of a node that can be fixed; return the number of free bits, K, U; 0, K, -inf if U <= target."""
    left = count
    while True:
        total = compute_node_bound(constant, count, free, field)
        if not total > target:  # also where it is NaN
            return 0, constant, -np.inf
        chosen = -1
        for x in range(count):
            if free[x] and (total - abs(field[x]) <= target or low[x] >= 0 or high[x] <= 0):
                chosen = x
                break
        if chosen < 0:
            return left, constant, total
        one = field[chosen] > 0
        if total - abs(field[chosen]) > target:
            one = low[chosen] >= 0
        free[chosen] = False
        code[ids[chosen]] = one
        constant += fix_bit(weights, ids, chosen, one, count, free, field, low, high, share)
        left -= 1


@compile_solver
def create_child(weights, x, one, count, ids, free, field, low, high, share, level, kept):
    """Copy the free bits of a node to its child, the next row, and set bit x; return their number and the rise of K."""
    child, left = level + 1, 0
    for y in range(count):
        if free[level, y]:
            kept[left] = y
            left += 1
    for new in range(left):
        y = kept[new]
        ids[child, new], field[child, new], free[child, new] = ids[level, y], field[level, y], True
        low[child, new], high[child, new] = low[level, y], high[level, y]
        for other in range(new):
            share[child, new, other] = share[level, y, kept[other]]
        # x comes last, so that its splits are in one row for `fix_bit`
        w = weights[ids[level, x], ids[level, y]]
        share[child, left, new] = (
            share[level, x, y] if y < x else w - share[level, y, x] if w > 0 else share[level, y, x]
        )
    ids[child, left], field[child, left] = ids[level, x], field[level, x]
    gained = fix_bit(
        weights, ids[child], left, one, left, free[child], field[child], low[child], high[child], share[child]
    )
    return left, gained


@compile_solver
def search_depth_first(
    weights, count, constant, best, slack, node_limit, ids, free, field, low, high, share, code, best_code
):
    """Search depth first below the root, which is row 0 of every array; return the bound and the number of nodes."""
    n = len(code)
    counts, constants, bits = np.empty(n + 1, np.int64), np.empty(n + 1), np.empty(n + 1, np.int64)
    second_bounds = np.empty(n + 1)  # the bound of each level's second branch, until it is searched
    fresh, kept = np.empty(n + 1, np.bool_), np.empty(n, np.int64)
    counts[0], constants[0], fresh[0] = count, constant, True
    level = nodes = 0
    while level >= 0:
        count = counts[level]
        if fresh[level]:
            if nodes >= node_limit:
                break
            nodes += 1
            fresh[level] = False
            constant, left, total = constants[level], 0, -np.inf
            if compute_node_bound(constant, count, free[level], field[level]) > best + slack:
                if level > 0:
                    constant = balance_fields(weights, ids[level], count, field[level], share[level], constant)
                left, constant, total = fix_decided_bits(
                    weights, ids[level], count, best + slack, constant,
                    free[level], field[level], low[level], high[level], share[level], code,
                )  # fmt: skip
            if left == 0:
                if total > best:
                    best = total
                    copy_bits(code, best_code)
                level -= 1
                continue
            # Branch on the bit whose range has both ends farthest from zero: its value matters most to the other bits.
            x, most = -1, -np.inf
            for y in range(count):
                if free[level, y] and min(high[level, y], -low[level, y]) > most:
                    x, most = y, min(high[level, y], -low[level, y])
            if x < 0:  # only where scores are NaN
                level -= 1
                continue
            one = field[level, x] > 0
            constants[level], bits[level], second_bounds[level] = constant, x, total - abs(field[level, x])
            free[level, x] = False
        elif second_bounds[level] > best + slack:
            x = bits[level]
            one = not field[level, x] > 0
            second_bounds[level] = -np.inf
        else:
            second_bounds[level] = -np.inf
            level -= 1
            continue
        code[ids[level, x]] = one
        left, gained = create_child(weights, x, one, count, ids, free, field, low, high, share, level, kept)
        constants[level + 1] = constants[level] + gained
        level += 1
        counts[level], fresh[level] = left, True
    if level < 0:
        return best, nodes
    total = max(best, compute_node_bound(constants[level], counts[level], free[level], field[level]))
    for above in range(level):
        total = max(total, second_bounds[above])
    return total, nodes
