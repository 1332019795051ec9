"""Metrics of discrete codes: how many are used, and how well categories agree with classes."""

import torch
from jaxtyping import Float, Int64, Shaped
from scipy.optimize import linear_sum_assignment
from torch import Tensor

_ALIVE = 0.1  # a code counts as alive if it is used at least a tenth as often as under uniform use


def perplexity(probabilities: Float[Tensor, "*_ K"]) -> Float[Tensor, "*_"]:
    """Return the exponential of the entropy: K if all probabilities are equal, 1 if one of them is 1.

    Example:
        >>> perplexity(torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]]))
        tensor([4., 1.])
    """
    return torch.special.entr(probabilities).sum(-1).exp()


def measure_alive(counts: Shaped[Tensor, " K"]) -> float:
    """Return the share of codes in use: those that occur at least a tenth as often as if all were used equally.

    A code that occurs once among a million tokens is not counted: it would overstate the share.

    Example:
        >>> measure_alive(torch.tensor([500, 480, 20, 0]))
        0.5
    """
    return float((counts >= _ALIVE * counts.double().mean()).logical_and(counts > 0).double().mean())


def count_contingency(
    categories: Int64[Tensor, "N"], classes: Int64[Tensor, "N"], k: int, c: int
) -> Int64[Tensor, "{k} {c}"]:
    """Count how often each category occurs with each class.

    Args:
        categories: `[N]`, in 0..k-1.
        classes: `[N]`, in 0..c-1; -1 (unknown) is not counted.
        k: number of categories.
        c: number of classes.

    Example:
        >>> count_contingency(torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]), 2, 2)
        tensor([[0, 2],
                [1, 0]])
    """
    known = classes >= 0
    pairs = categories[known] * c + classes[known]
    return torch.bincount(pairs, minlength=k * c).view(k, c)


def match_categories(counts: Int64[Tensor, "K C"]) -> tuple[list[int], float]:
    """Match each class to a distinct category, such that the largest number of images is classified correctly.

    The share of correct images is known as clustering accuracy. Uses the Hungarian method, which is exact.

    Args:
        counts: `[K, C]`, from `count_contingency`.

    Returns:
        The category of each class, -1 where there are fewer categories than classes; and the share of correct images.

    Example:
        >>> match_categories(torch.tensor([[0, 2], [1, 1]]))
        ([1, 0], 0.75)
    """
    categories, classes = linear_sum_assignment(counts.numpy(), maximize=True)
    category_of_class = [-1] * counts.shape[1]
    for category, label in zip(categories.tolist(), classes.tolist(), strict=True):
        category_of_class[label] = category
    correct = int(counts[categories, classes].sum())
    return category_of_class, correct / max(int(counts.sum()), 1)
