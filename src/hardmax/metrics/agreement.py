"""How well do categories agree with classes, where nobody has said which is which?"""

import torch
from jaxtyping import Int64
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def contingency(
    categories: Int64[Tensor, "N"], classes: Int64[Tensor, "N"], k: int, c: int
) -> Int64[Tensor, "{k} {c}"]:
    """Count how often each category meets each class.

    Args:
        categories: `[N]`, in 0..k-1.
        classes: `[N]`, in 0..c-1; a -1 is not counted.
        k: number of categories.
        c: number of classes.

    Example:
        >>> contingency(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]), 2, 2)
        tensor([[0, 2],
                [1, 0]])
    """
    known = classes >= 0
    pairs = categories[known] * c + classes[known]
    return torch.bincount(pairs, minlength=k * c).view(k, c)


def best_matching(counts: Int64[Tensor, "K C"]) -> tuple[list[int], float]:
    """Give each class a category of its own, so that as many pictures as possible are right.

    The share that is right is also called clustering accuracy. By the Hungarian method, which is exact.

    Args:
        counts: `[K, C]`, from `contingency`.

    Returns:
        The category of each class, -1 where there are fewer categories than classes; and the share that is right.

    Example:
        >>> best_matching(torch.tensor([[0, 2], [1, 1]]))
        ([1, 0], 0.75)
    """
    categories, classes = linear_sum_assignment(counts.numpy(), maximize=True)
    matched = [-1] * counts.shape[1]
    for category, one in zip(categories.tolist(), classes.tolist(), strict=True):
        matched[one] = category
    right = int(counts[categories, classes].sum())
    return matched, right / max(int(counts.sum()), 1)
