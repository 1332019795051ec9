"""Softmax over the last dimension, fast also for few values.

torch's kernel for the last dimension of a CPU tensor works with vectors along that dimension. Rows that are shorter
than a vector take its slow path: a softmax of 3,000 rows of 10 values takes 0.5 ms, the one over the first dimension of
the transposed tensor 0.08 ms, together with both transpositions.
"""

import torch
from torch import Tensor

_SHORT = 16  # float32 values in the longest vector
_FEWEST = 3000  # values of a tensor; for fewer the transpositions cost more than they save


def softmax(scores: Tensor) -> Tensor:
    """Return `scores.softmax(-1)`."""
    if _is_slow(scores):
        return scores.movedim(-1, 0).contiguous().softmax(0).movedim(0, -1).contiguous()
    return scores.softmax(-1)


def log_softmax(scores: Tensor) -> Tensor:
    """Return `scores.log_softmax(-1)`."""
    if _is_slow(scores):
        return scores.movedim(-1, 0).contiguous().log_softmax(0).movedim(0, -1).contiguous()
    return scores.log_softmax(-1)


def _is_slow(scores: Tensor) -> bool:
    """Whether torch's kernel has short rows to work on. A compiled program has kernels of its own."""
    return (
        scores.device.type == "cpu"
        and 1 < scores.shape[-1] < _SHORT
        and scores.numel() >= _FEWEST
        and not torch.compiler.is_compiling()
    )
