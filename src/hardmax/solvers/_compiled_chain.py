"""Chains, compiled: the best path, marginals and samples.

Sums over paths use weights `exp(scores - max)`, not logarithms: five times faster, and as accurate, since nothing is
subtracted. What underflows is lost, though, which matters where the scores of one step differ by more than 27 in
float32 or 270 in float64 and the paths through the small ones count. Each example reports whether it may have lost
something.
"""

import numpy as np
import torch
from torch import Tensor

from hardmax.solvers._compilation import compile_solver, solve_in_threads

FLOORS = {torch.float32: 1e-12, torch.float64: 1e-120}  # below its third power numbers underflow
SECONDS_PER_TRANSITION = 2e-9


def find_best_paths(scores: Tensor) -> Tensor:
    """Return the best paths: `[B, T, K, K] -> [B, T + 1]`, the first of equally good states."""
    batch, steps, states, _ = scores.shape
    paths = torch.empty(batch, steps + 1, dtype=torch.int64)
    inputs, outputs = scores.numpy(), paths.numpy()
    seconds = SECONDS_PER_TRANSITION * steps * states**2
    solve_in_threads(lambda part: _run_viterbi(inputs[part], outputs[part]), batch, seconds)
    return paths


def compute_marginals(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probabilities of the transitions `[B, T, K, K]`, and which examples are accurate `[B]`."""
    batch, steps, states, _ = scores.shape
    weights = _compute_weights(scores)
    floor = FLOORS[scores.dtype]
    is_accurate = torch.empty(batch, dtype=torch.bool)
    inputs, flags = weights.numpy(), is_accurate.numpy()
    seconds = SECONDS_PER_TRANSITION * steps * states**2
    solve_in_threads(lambda part: _sum_paths(inputs[part], floor, flags[part]), batch, seconds)
    return weights, is_accurate  # the weights were replaced


def compute_covariances(joint: Tensor, weights: Tensor) -> Tensor:
    """Return the covariances of the transitions and their weighted sum: `[B, T, K, K]` twice `-> [B, T, K, K]`.

    That is the gradient of `<weights, marginals>` for the scores, from the marginals (`joint`) alone: with F the sum of
    the weights of a path, `joint[t, c, d] (E[F | c, d] - E[F])`.
    """
    batch, steps, states, _ = joint.shape
    gradient = torch.empty_like(joint, memory_format=torch.contiguous_format)
    inputs, factors, outputs = joint.numpy(), weights.contiguous().numpy(), gradient.numpy()
    seconds = 2 * SECONDS_PER_TRANSITION * steps * states**2
    solve_in_threads(lambda part: _compute_covariances(inputs[part], factors[part], outputs[part]), batch, seconds)
    return gradient


def draw_paths(scores: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return samples `[S, B, T + 1, K]` from uniform numbers `[S, B, T + 1]`, and which examples are accurate `[B]`."""
    batch, steps, states, _ = scores.shape
    floor = FLOORS[scores.dtype]
    z, is_accurate = torch.zeros(*uniform.shape, states, dtype=scores.dtype), torch.empty(batch, dtype=torch.bool)
    weights, levels, samples, flags = _compute_weights(scores).numpy(), uniform.numpy(), z.numpy(), is_accurate.numpy()

    def draw(part: slice) -> None:
        _draw_paths(weights[part], levels[:, part], floor, samples[:, part], flags[part])

    solve_in_threads(draw, batch, SECONDS_PER_TRANSITION * steps * states * (states + 4 * len(uniform)))
    return z, is_accurate


def _compute_weights(scores: Tensor) -> Tensor:
    return (scores - scores.amax((-2, -1), keepdim=True)).exp_()


@compile_solver
def _run_viterbi(scores, paths):
    """From the end to the start, so that the states can be read off forwards."""
    batch, steps, states, _ = scores.shape
    best_next = np.empty((steps, states), np.int64)
    value, new = np.empty(states, scores.dtype), np.empty(states, scores.dtype)
    for b in range(batch):
        value[:] = 0
        for t in range(steps - 1, -1, -1):
            for c in range(states):
                row = scores[b, t, c]
                best, at = row[0] + value[0], 0
                for d in range(1, states):
                    x = row[d] + value[d]
                    if x > best:
                        best, at = x, d
                new[c], best_next[t, c] = best, at
            value, new = new, value
        paths[b, 0] = np.argmax(value)
        for t in range(steps):
            paths[b, t + 1] = best_next[t, paths[b, t]]


@compile_solver
def _sum_backward(weights, floor, sums, messages):
    """Fill `sums[t] = weights[t] messages[t + 1]`, over all continuations, and `messages[t]`, these over their total.

    Returns whether no total is below the floor.
    """
    steps, states, _ = weights.shape
    is_accurate = True
    messages[steps] = 1
    for t in range(steps - 1, -1, -1):
        total = weights.dtype.type(0)
        onwards = messages[t + 1]
        for c in range(states):
            row, x = weights[t, c], weights.dtype.type(0)
            for d in range(states):
                x += row[d] * onwards[d]
            sums[t, c] = x
            total += x
        is_accurate &= total >= floor
        for c in range(states):
            messages[t, c] = sums[t, c] / total
    return is_accurate


@compile_solver
def _sum_paths(weights, floor, is_accurate):
    """Replace the weights `[B, T, K, K]` by marginals."""
    batch, steps, states, _ = weights.shape
    sums, messages = np.empty((steps, states), weights.dtype), np.empty((steps + 1, states), weights.dtype)
    here, there = np.empty(states, weights.dtype), np.empty(states, weights.dtype)  # probabilities of the states
    for b in range(batch):
        accurate = _sum_backward(weights[b], floor, sums, messages)
        here[:] = messages[0]
        for t in range(steps):
            there[:] = 0
            onwards = messages[t + 1]
            for c in range(states):
                row = weights[b, t, c]
                accurate &= sums[t, c] >= floor or here[c] <= floor
                factor = here[c] / sums[t, c] if sums[t, c] > 0 else weights.dtype.type(0)
                for d in range(states):
                    x = factor * row[d] * onwards[d]
                    row[d] = x
                    there[d] += x
            here, there = there, here
        is_accurate[b] = accurate


@compile_solver
def _compute_covariances(joint, weights, gradient):
    batch, steps, states, _ = joint.shape
    later = np.zeros((steps + 1, states), joint.dtype)  # expected weight of the path from a state on
    earlier, new, total = np.empty(states, joint.dtype), np.empty(states, joint.dtype), np.empty(states, joint.dtype)
    for b in range(batch):
        mean = joint.dtype.type(0)
        for t in range(steps - 1, -1, -1):
            onwards = later[t + 1]
            mean = joint.dtype.type(0)
            for c in range(states):
                row, factors = joint[b, t, c], weights[b, t, c]
                probability = value = joint.dtype.type(0)
                for d in range(states):
                    probability += row[d]
                    value += row[d] * (factors[d] + onwards[d])
                mean += value
                later[t, c] = value / probability if probability > 0 else joint.dtype.type(0)
        earlier[:] = -mean  # expected weight of the path up to a state, minus that of all paths
        for t in range(steps):
            new[:], total[:] = 0, 0
            onwards = later[t + 1]
            for c in range(states):
                row, factors, out, before = joint[b, t, c], weights[b, t, c], gradient[b, t, c], earlier[c]
                for d in range(states):
                    value = row[d] * (before + factors[d])
                    new[d] += value
                    total[d] += row[d]
                    out[d] = value + row[d] * onwards[d]
            for d in range(states):
                earlier[d] = new[d] / total[d] if total[d] > 0 else joint.dtype.type(0)


@compile_solver
def _draw_paths(weights, uniform, floor, z, is_accurate):
    """Fill samples `[S, B, T + 1, K]` by inverting the distribution function of each state given the previous one."""
    batch, steps, states, _ = weights.shape
    sums, messages = np.empty((steps, states), weights.dtype), np.empty((steps + 1, states), weights.dtype)
    ones = np.ones(states, weights.dtype)
    for b in range(batch):
        accurate = _sum_backward(weights[b], floor, sums, messages)
        for s in range(len(uniform)):
            row, total = ones, messages[0].sum()
            for t in range(steps + 1):
                level, below, state = uniform[s, b, t] * total, weights.dtype.type(0), 0
                for c in range(states):
                    x = row[c] * messages[t, c]
                    below += x
                    if x > 0:
                        state = c  # the last possible state, if rounding leaves all sums below the level
                        if below > level:
                            break
                z[s, b, t, state] = 1
                if t < steps:
                    row, total = weights[b, t, state], sums[t, state]
                    accurate &= total >= floor
        is_accurate[b] = accurate
