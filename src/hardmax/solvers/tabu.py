"""Tabu search for pairwise bits: repeatedly flip the best bit that was not flipped recently.

Reference: F. Glover, G. Kochenberger, B. Alidaee (1998), Adaptive memory tabu search for binary quadratic programs.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads


def improve_by_tabu_search(unary: Tensor, couplings: Tensor, edges: Tensor, z: Tensor, steps: int) -> Tensor:
    """Return the best z among `steps` flips from each z: all `[B, n]`, float64; couplings of any sign."""
    best = torch.empty_like(z)
    arrays = [tensor.contiguous().numpy() for tensor in (unary, couplings, z.to(torch.uint8), best)]

    def solve(part: slice) -> None:
        scores, weights, starts, codes = (array[part] for array in arrays)
        search_batch(scores, weights, edges.numpy(), starts, steps, codes)

    solve_in_threads(solve, len(z), 2e-9 * steps * unary.shape[1])
    return best


@compile_solver
def search_batch(unary, couplings, edges, starts, steps, best):
    """Search from each start; fill `best` with the best bits."""
    batch, n = unary.shape
    weights, gain, tabu = np.zeros((n, n)), np.empty(n), np.empty(n, np.int64)
    code, best_code = np.empty(n, np.uint8), np.empty(n, np.uint8)
    for b in range(batch):
        for e in range(len(edges)):
            weights[edges[e, 0], edges[e, 1]] = couplings[b, e]
            weights[edges[e, 1], edges[e, 0]] = couplings[b, e]
        copy_bits(starts[b], code)
        copy_bits(starts[b], best_code)
        run_tabu_search(weights, unary[b], code, steps, -np.inf, best_code, gain, tabu)
        copy_bits(best_code, best[b])


@compile_solver
def run_tabu_search(weights, scores, code, steps, best, best_code, gain, tabu):
    """Repeatedly flip the best bit that was not flipped recently, even if the score falls; return the best score."""
    n = len(scores)
    for i in range(n):
        gain[i], tabu[i] = scores[i], 0
    for i in range(n):
        if code[i]:
            for j in range(n):
                gain[j] += weights[i, j]
    total = evaluate_code(weights, scores, code)
    if total > best:
        best = total
        copy_bits(code, best_code)
    for step in range(1, steps + 1):
        flip, most = -1, -np.inf
        for i in range(n):
            change = -gain[i] if code[i] else gain[i]
            if change > most and (tabu[i] < step or total + change > best):
                flip, most = i, change
        if flip < 0:
            continue
        total += most
        code[flip] ^= 1
        sign = 1.0 if code[flip] else -1.0
        for j in range(n):
            gain[j] += sign * weights[flip, j]
        tabu[flip] = step + 3 + (7 * step + flip) % 5 + n // 20
        if total > best:
            best = total
            copy_bits(code, best_code)
    return best


@compile_solver
def evaluate_code(weights, scores, code):
    """Return h(z)."""
    total = 0.0
    for i in range(len(code)):
        if code[i]:
            total += scores[i]
            for j in range(i):
                total += weights[i, j] * code[j]
    return total


@compile_solver
def copy_bits(bits, into):
    """Copy bits into another array (an assignment of slices takes Numba seconds to compile)."""
    for i in range(len(bits)):
        into[i] = bits[i]
