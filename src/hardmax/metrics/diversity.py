"""How different are several completions of one picture? By pixels, and by what a classifier takes them for."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax.metrics.similarity import hidden_mean


def pairwise_distance(
    completed: Float[Tensor, "S B channels H W"], hidden: Bool[Tensor, "B 1 H W"]
) -> Float[Tensor, "B"]:
    """Return the mean absolute difference of the hidden pixels between two of S completions; 0 where S is 1.

    Example:
        >>> completed = torch.stack([torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 4, 4)])
        >>> pairwise_distance(completed, torch.ones(1, 1, 4, 4, dtype=torch.bool))
        tensor([1.])
    """
    count = len(completed)
    total = completed.new_zeros(completed.shape[1])
    for first in range(count):
        for second in range(first):
            total += hidden_mean((completed[first] - completed[second]).abs(), hidden)
    return total / max(count * (count - 1) // 2, 1)


@final
@dataclass(frozen=True)
class Classes:
    """What a classifier takes completions for, means over pictures.

    Attributes:
        distinct: classes among the completions of a picture.
        entropy: of the classes of the completions of a picture, in nats.
        sure: share of completions that one class gets at least 0.9 of. Diversity without it may be rubbish.
        right: share of completions that are taken for the picture's own class; None where that is not known.
    """

    distinct: float
    entropy: float
    sure: float
    right: float | None


def classes_of(logits: Float[Tensor, "S B K"], labels: Tensor | None = None, confidence: float = 0.9) -> Classes:
    """Return how many classes completions belong to, and how surely.

    Args:
        logits: `[S, B, K]`, of a classifier, for S completions of B pictures.
        labels: `[B]`, of the pictures; None where they are not known.
        confidence: from which on it is sure.

    Example:
        >>> logits = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]])  # two completions of one picture, two classes
        >>> found = classes_of(logits, torch.tensor([1]))
        >>> found.distinct, round(found.entropy, 4), found.sure, found.right
        (2.0, 0.6931, 1.0, 0.5)
    """
    found = logits.argmax(-1)
    shares = torch.nn.functional.one_hot(found, logits.shape[-1]).double().mean(0)
    taken = logits.isfinite().all(-1)  # a picture that is none is taken for nothing
    right = None if labels is None else float(((found == labels) & taken).double().mean())
    return Classes(
        distinct=float((shares > 0).double().sum(-1).mean()),
        entropy=float(torch.special.entr(shares).sum(-1).mean()),
        sure=float((logits.softmax(-1).amax(-1) >= confidence).double().mean()),
        right=right,
    )
