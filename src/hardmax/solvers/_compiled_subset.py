"""Subsets of k of n items, compiled: sums over subsets, marginals and samples.

The items are treated as independent bits with `p_i = sigmoid(scores_i - shift)`, given that k of them are one: any
shift gives the same distribution. The table of `P(j of the first i bits are one)` has entries in [0, 1], so no
logarithms are needed and nothing overflows. With the k-th largest score plus `log((n - k) / k)` as shift, the
probability of k ones is at least `(k / n)^k ((n - k) / n)^(n - k)`. An example where it is too small for float64 is
reported.
"""

import math

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads

FLOOR = 1e-200  # of the probability of k ones: what underflows is 1e-100 of it
SECONDS_PER_ENTRY = 2e-9


def sum_subsets(scores: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return log Z `[B]`, the marginals `[B, n]` and which examples are accurate `[B]`, for 1 <= k <= n."""
    log_z, marginals = scores.new_empty(len(scores)), torch.empty_like(scores)
    is_accurate = torch.empty(len(scores), dtype=torch.bool)
    arrays = scores.numpy(), _compute_shifts(scores, k), log_z.numpy(), marginals.numpy(), is_accurate.numpy()
    seconds = SECONDS_PER_ENTRY * scores.shape[1] * k
    solve_in_threads(lambda part: _sum_batch(k, *(array[part] for array in arrays)), len(scores), seconds)
    return log_z, marginals, is_accurate


def draw_subsets(scores: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return samples `[S, B, n]` from uniform numbers `[S, B, k]`, and which examples are accurate `[B]`."""
    count, batch, k = uniform.shape
    z, is_accurate = torch.zeros(count, *scores.shape, dtype=scores.dtype), torch.empty(batch, dtype=torch.bool)
    inputs, shifts, flags = scores.numpy(), _compute_shifts(scores, k), is_accurate.numpy()
    levels, samples = uniform.numpy(), z.numpy()

    def draw(part: slice) -> None:
        _draw_batch(inputs[part], shifts[part], levels[:, part], samples[:, part], flags[part])

    solve_in_threads(draw, batch, SECONDS_PER_ENTRY * scores.shape[1] * (k + 2 * count))
    return z, is_accurate


def _compute_shifts(scores: Tensor, k: int) -> np.ndarray:
    """Return the shift of each example in float64, `[B, n] -> [B]`."""
    n = scores.shape[1]
    pivots = np.partition(scores.numpy(), n - k)[:, n - k]  # outside the kernel: NumPy's is 5 times as fast
    return pivots.astype(np.float64) + math.log((n - k + 0.5) / (k + 0.5))


@compile_solver
def _compute_bits(scores, shift, ones, zeros):
    """Fill the probabilities of one and of zero of each bit."""
    for i in range(len(scores)):
        x = scores[i] - shift
        small = np.exp(-abs(x))
        large = 1 / (1 + small)
        small *= large
        ones[i], zeros[i] = (large, small) if x > 0 else (small, large)


@compile_solver
def _add_bit(old, one, zero, new):
    """Fill the distribution of the number of ones, 0 ... k, with one more bit."""
    new[0] = zero * old[0]
    for j in range(1, len(old)):
        new[j] = zero * old[j] + one * old[j - 1]


@compile_solver
def _sum_batch(k, scores, shifts, log_z, marginals, is_accurate):
    batch, n = scores.shape
    ones, zeros, before = np.empty(n), np.empty(n), np.zeros((n + 1, k + 1))
    after, new = np.empty(k + 1), np.empty(k + 1)
    before[0, 0] = 1
    for b in range(batch):
        shift = shifts[b]
        _compute_bits(scores[b], shift, ones, zeros)
        softplus, product = 0.0, 1.0  # sum of log(1 + exp(scores - shift)), some of it as a product
        for i in range(n):
            _add_bit(before[i], ones[i], zeros[i], before[i + 1])
            softplus += max(scores[b, i] - shift, 0.0)
            product *= max(ones[i], zeros[i])
            if product < FLOOR:
                softplus -= np.log(product)
                product = 1.0
        total = before[n, k]
        is_accurate[b] = total >= FLOOR
        log_z[b] = k * shift + softplus + np.log(total / product)
        after[:] = 0
        after[0] = 1
        expected = 0.0
        for i in range(n - 1, -1, -1):
            chosen = 0.0
            for j in range(k):
                chosen += before[i, j] * after[k - 1 - j]
            chosen *= ones[i] / total
            marginals[b, i] = chosen
            expected += chosen
            _add_bit(after, ones[i], zeros[i], new)
            after, new = new, after
        for i in range(n):  # so that the marginals sum to k however the total is rounded
            marginals[b, i] *= k / expected


@compile_solver
def _draw_batch(scores, shifts, uniform, z, is_accurate):
    batch, n = scores.shape
    k = uniform.shape[2]
    ones, zeros, after = np.empty(n), np.empty(n), np.zeros((n + 1, k + 1))
    after[n, 0] = 1
    for b in range(batch):
        _compute_bits(scores[b], shifts[b], ones, zeros)
        for i in range(n - 1, -1, -1):
            _add_bit(after[i + 1], ones[i], zeros[i], after[i])
        is_accurate[b] = after[0, k] >= FLOOR
        for s in range(len(uniform)):
            missing, i = k, 0
            while missing > 0:
                # The next item is the first i with level < P(the next item is at most i); sums in units of after[i].
                level = uniform[s, b, k - missing] * after[i, missing]
                last = n - missing
                while i < last:
                    chosen = ones[i] * after[i + 1, missing - 1]
                    if level < chosen:
                        break
                    level = (level - chosen) / zeros[i] if zeros[i] > 0 else 0.0
                    i += 1
                z[s, b, i] = 1
                missing -= 1
                i += 1
