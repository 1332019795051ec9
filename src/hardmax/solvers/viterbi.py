"""Best path through a chain, by the Viterbi algorithm."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def viterbi(transitions: Float[Tensor, "*B T K K"]) -> Int64[Tensor, "*B length"]:
    """Return the states `c_0, ..., c_T` with the largest `sum_t transitions[t, c_t, c_{t+1}]`.

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
    value = transitions.new_zeros(
        (*transitions.shape[:-3], transitions.shape[-1])
    )  # of the remaining path, given its first state
    best_next = []
    for scores in reversed(transitions.detach().unbind(-3)):
        value, state = (scores + value[..., None, :]).max(-1)
        best_next.append(state)
    path = [value.argmax(-1, keepdim=True)]
    for state in reversed(best_next):
        path.append(state.gather(-1, path[-1]))
    return torch.cat(path, -1)
