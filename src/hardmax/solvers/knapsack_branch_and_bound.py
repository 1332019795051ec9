"""Branch and bound for knapsacks with several constraints, where the dynamic program has too many states.

**The bounds.** Any multipliers u >= 0 turn the constraints `W z <= c` into one, the *surrogate* `(u W) z <= u c`. Its
linear relaxation is solved by filling the capacity with the items of largest value per surrogate weight, the last one
in part. So is that of each single constraint, which is another bound. The multipliers come from the Lagrange dual,

    L(u) = u c + sum_i max(0, s_i - (u W)_i),

the bound of the linear relaxation at the best u; it is minimised one multiplier at a time, exactly. An item whose
reduced value `|s_i - (u W)_i|` exceeds the distance of L(u) to the best known set has in every better set the value
that it has in the relaxation, and is fixed.

**The search** is depth first in the order of value per surrogate weight, and takes an item before it leaves it out. In
the bounds of a node, items that no longer fit are left out.

Reference: S. Martello, P. Toth (1990), Knapsack problems, chapter 2; H. Kellerer, U. Pferschy, D. Pisinger (2004),
Knapsack problems, chapter 9.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads
from hardmax.solvers._compiled_knapsack import copy_limited_scores
from hardmax.solvers.solution import ROUNDING, Solution

DUAL_SWEEPS = 4


def solve_knapsack_branch_and_bound(
    scores: Tensor, weights: Tensor, capacities: Tensor, *, node_limit: int, give_up: bool = False
) -> Solution:
    """Return the best set of items that fits.

    Args:
        scores: `[B, n]`, float64, finite.
        weights: `[d, n]`, float64, at least zero; no item is heavier than a capacity.
        capacities: `[d]`, float64.
        node_limit: maximal number of nodes, per example. A million nodes take about a second.
        give_up: skip the rest of the batch once an example has reached the limit.

    Returns:
        A solution; where the limit was reached, its bound is the largest bound of the remaining nodes.
    """
    batch = len(scores)
    z, value, bound = torch.zeros_like(scores), scores.new_empty(batch), scores.new_empty(batch)
    inputs, rows, limits = scores.numpy(), weights.numpy(), capacities.numpy()
    sets, values, bounds = z.numpy(), value.numpy(), bound.numpy()

    def solve(part: slice) -> None:
        solve_batch(inputs[part], rows, limits, node_limit, give_up, sets[part], values[part], bounds[part])

    solve_in_threads(solve, batch, 2e-7 * weights.numel())
    return Solution(z, value, bound, "branch-and-bound")


@compile_solver
def solve_batch(scores, weights, capacities, node_limit, give_up, z, value, bound):
    """Solve each example; fill z `[B, n]` (zeros before), its value `[B]` and the upper bound `[B]`."""
    batch, n = scores.shape
    limited = np.empty(n)
    failed = False
    for b in range(batch):
        if failed and give_up:
            value[b], bound[b] = -np.inf, np.inf
            continue
        copy_limited_scores(scores[b], limited)
        items = np.flatnonzero(limited > 0)
        profits = limited[items]
        loads = np.ascontiguousarray(weights[:, items])
        chosen = np.zeros(len(items), np.bool_)
        proved = True
        best, limit = 0.0, 0.0
        if len(items) > 0:
            best, limit = solve_example(profits, loads, capacities, node_limit, chosen)
            proved = limit <= best
        value[b] = 0
        for i in range(len(items)):
            if chosen[i]:
                z[b, items[i]] = 1
                value[b] += scores[b, items[i]]
        bound[b] = value[b]
        if not proved:
            failed = True
            # The gap of the limited scores; a small gap above a value of 1e30 is lost in their sum, but still a gap.
            bound[b] = max(value[b] + (limit - best), np.nextafter(value[b], np.inf))


@compile_solver
def solve_example(profits, weights, capacities, node_limit, chosen):
    """Fill the best set of items, all of positive profit; return its value and the bound, equal if it is proved."""
    n = len(profits)
    constraints = len(capacities)
    slack = ROUNDING * profits.sum()
    multipliers, dual = minimise_dual(profits, weights, capacities)
    surrogate = np.zeros(n)
    for k in range(constraints):
        for i in range(n):
            surrogate[i] += multipliers[k] * weights[k, i]
    order = np.argsort(-profits / np.maximum(surrogate, 1e-300))
    # The greedy set in this order, then items that the dual decides.
    left = capacities.copy()
    best = fill_greedily(profits, weights, order, left, chosen)
    kept = np.empty(n, np.int64)
    count, base = 0, 0.0
    fixed = np.zeros(n, np.bool_)
    left[:] = capacities
    for position in range(n):
        i = order[position]
        reduced = profits[i] - surrogate[i]
        if dual - abs(reduced) > best + slack:
            kept[count] = i
            count += 1
        elif reduced > 0:
            fixed[i] = True
            base += profits[i]
            for k in range(constraints):
                left[k] -= weights[k, i]
    if count == 0 or left.min() < 0:  # what the dual decides is the greedy set, or no set is better
        if count == 0 and left.min() >= 0 and base > best:
            best = base
            chosen[:] = fixed
        return best, best
    kept = kept[:count]
    selected = np.zeros(count, np.bool_)
    value, bound = search_depth_first(
        profits[kept], weights[:, kept], left, surrogate[kept], multipliers, best - base, slack, node_limit, selected
    )
    if value > best - base:
        chosen[:] = fixed
        for position in range(count):
            chosen[kept[position]] = selected[position]
        best = value + base
    return best, max(best, bound + base) if bound > value else best


@compile_solver
def minimise_dual(profits, weights, capacities):
    """Return multipliers u with a small L(u), and L(u)."""
    n = len(profits)
    constraints = len(capacities)
    multipliers = np.zeros(constraints)
    loads, left = np.zeros(n), np.empty(n)
    for k in range(constraints):
        for i in range(n):
            loads[i] += weights[k, i] / max(capacities[k], 1e-300)
    scale = find_multiplier(profits, loads, float(constraints))
    for k in range(constraints):
        multipliers[k] = scale / max(capacities[k], 1e-300)
    for _ in range(DUAL_SWEEPS if constraints > 1 else 1):
        for k in range(constraints):
            left[:] = profits
            for other in range(constraints):
                if other != k:
                    for i in range(n):
                        left[i] -= multipliers[other] * weights[other, i]
            multipliers[k] = find_multiplier(left, weights[k], capacities[k])
    dual = 0.0
    for i in range(n):
        reduced = profits[i]
        for k in range(constraints):
            reduced -= multipliers[k] * weights[k, i]
        dual += max(reduced, 0.0)
    for k in range(constraints):
        dual += multipliers[k] * capacities[k]
    return multipliers, dual


@compile_solver
def find_multiplier(profits, weights, capacity):
    """Return the u >= 0 that minimises `u capacity + sum_i max(0, profits_i - u weights_i)`: a ratio of an item."""
    ratios = np.zeros(len(profits))
    for i in range(len(profits)):
        if profits[i] > 0 and weights[i] > 0:
            ratios[i] = profits[i] / weights[i]
    order = np.argsort(-ratios)
    for i in order:
        if ratios[i] <= 0:
            return 0.0
        capacity -= weights[i]
        if capacity < 0:
            return ratios[i]
    return 0.0


@compile_solver
def fill_greedily(profits, weights, order, left, chosen):
    """Take each item that fits, in this order; reduce what is left and return the value."""
    total = 0.0
    for i in order:
        fits = True
        for k in range(len(left)):
            fits &= weights[k, i] <= left[k]
        if fits:
            chosen[i] = True
            total += profits[i]
            for k in range(len(left)):
                left[k] -= weights[k, i]
    return total


@compile_solver
def bound_completions(first, left, profits, weights, surrogate, multipliers, ranks, target):
    """Return an upper bound of the value of items `first ... n - 1` in the capacity that is left.

    It is the smallest of the bounds of the surrogate and of each constraint, or the first that is at most the target.

    Args:
        first: position of the first item that is not decided.
        left: `[d]`.
        profits: `[n]`, in the order of profit per surrogate weight.
        weights: `[d, n]`.
        surrogate: `[n]`, the surrogate weights.
        multipliers: `[d]`.
        ranks: `[d, n]`, the items in the order of profit per weight of each constraint.
        target: a bound this small suffices.
    """
    n, constraints = len(profits), len(left)
    room = 0.0
    for k in range(constraints):
        room += multipliers[k] * left[k]
    smallest = 0.0
    for i in range(first, n):
        fits = True
        for k in range(constraints):
            fits &= weights[k, i] <= left[k]
        if fits:
            if surrogate[i] > room:
                smallest += profits[i] * (room / surrogate[i])
                break
            smallest += profits[i]
            room -= surrogate[i]
    if smallest <= target:
        return smallest
    for constraint in range(constraints):
        room, total = left[constraint], 0.0
        for position in range(n):
            i = ranks[constraint, position]
            if i < first:
                continue
            fits = True
            for k in range(constraints):
                fits &= weights[k, i] <= left[k]
            if fits:
                if weights[constraint, i] > room:
                    total += profits[i] * (room / weights[constraint, i])
                    break
                total += profits[i]
                room -= weights[constraint, i]
        smallest = min(smallest, total)
        if smallest <= target:
            break
    return smallest


@compile_solver
def search_depth_first(profits, weights, capacities, surrogate, multipliers, best, slack, node_limit, chosen):
    """Look for a set better than `best`; fill it, and return its value, or `best`, and the bound.

    The items are in the order of profit per surrogate weight.
    """
    n, constraints = len(profits), len(capacities)
    weights = np.ascontiguousarray(weights)
    ranks = np.empty((constraints, n), np.int64)
    for k in range(constraints):
        ranks[k] = np.argsort(-profits / np.maximum(weights[k], 1e-300))
    left = np.empty((n + 1, constraints))  # the capacity at each depth, the number of items taken
    values, path = np.zeros(n + 1), np.empty(n, np.int64)
    left[0] = capacities
    depth, first, nodes = 0, 0, 0
    while True:
        for i in range(first, n):
            fits = True
            for k in range(constraints):
                fits &= weights[k, i] <= left[depth, k]
            if fits:
                for k in range(constraints):
                    left[depth + 1, k] = left[depth, k] - weights[k, i]
                values[depth + 1] = values[depth] + profits[i]
                path[depth] = i
                depth += 1
        if values[depth] > best:
            best = values[depth]
            chosen[:] = False
            for level in range(depth):
                chosen[path[level]] = True
        while True:  # leave out the last item that was taken, until that may lead to a better set
            if depth == 0:
                return best, best
            depth -= 1
            first = path[depth] + 1
            nodes += 1
            target = best + slack - values[depth]
            rest = bound_completions(first, left[depth], profits, weights, surrogate, multipliers, ranks, target)
            if nodes >= node_limit:
                bound = max(best, values[depth] + rest) if rest > target else best
                while depth > 0:
                    depth -= 1
                    target = best + slack - values[depth]
                    rest = bound_completions(
                        path[depth] + 1, left[depth], profits, weights, surrogate, multipliers, ranks, target
                    )
                    if rest > target:
                        bound = max(bound, values[depth] + rest)
                return best, bound
            if rest > target:
                break
