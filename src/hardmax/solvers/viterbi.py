"""Best path through a chain, by the Viterbi algorithm."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.tracing import can_run_compiled


def viterbi(transitions: Float[Tensor, "*B T K K"]) -> Int64[Tensor, "*B length"]:
    """Return the states `c_0, ..., c_T` with the largest `sum_t transitions[t, c_t, c_{t+1}]`.

    O(T K^2), compiled on the CPU where Numba is installed.

    Args:
        transitions: `[*B, T, K, K]`, from state to state.

    Returns:
        `[*B, T + 1]`; the first of equally good states.

    Example:
        >>> import torch
        >>> viterbi(torch.tensor([[[0.0, 1.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 1.0]]]))
        tensor([0, 0, 0])

    References:
        Viterbi, 1967; from the end to the start, so that the states can be read off forwards.
    """
    transitions = transitions.detach()
    if can_run_compiled(transitions):
        from hardmax.solvers._compiled_chain import find_best_paths

        *batch, steps, states, _ = transitions.shape
        flat = transitions.reshape(math.prod(batch), steps, states, states)
        return find_best_paths(flat).view(*batch, steps + 1)
    value = transitions.new_zeros(
        (*transitions.shape[:-3], transitions.shape[-1])
    )  # of the remaining path, given its first state
    best_next = []
    for scores in reversed(transitions.unbind(-3)):
        value, state = (scores + value[..., None, :]).max(-1)
        best_next.append(state)
    path = [value.argmax(-1, keepdim=True)]
    for state in reversed(best_next):
        path.append(state.gather(-1, path[-1]))
    return torch.cat(path, -1)
