"""Queries of a split, and the images that are searched for them, by the option `searched`."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.applications.hashing.config import HashingConfig
from hardmax.data import Images
from hardmax.data.images import UNKNOWN
from hardmax.training.task import Split, prepare_split


@dataclass(frozen=True, eq=False)
class Queries:
    """Images of a split to search for, and images that are searched in addition to all training images.

    Attributes:
        images: `[Q, *shape]`, the queries.
        labels: `[Q]`, their labels; None if there are none.
        others: `[M, *shape]`, images that are searched in addition to the training images; there may be none.
        other_labels: `[M]`, their labels; None if there are none.
    """

    images: Float[Tensor, "Q ..."]
    labels: Int64[Tensor, "Q"] | None
    others: Float[Tensor, "M ..."]
    other_labels: Int64[Tensor, "M"] | None


def prepare_queries(config: HashingConfig, images: Images, split: Split, count: int | None) -> Queries:
    """Return at most `count` queries of a split; None: all, or with `searched` "rest" the number of the run.

    With `searched` "train", they are its first images. With "rest", they are its first images of each class, and all
    other images are searched; those of the test set only for queries of the test set, so that the choice of options by
    the validation set does not depend on test images.

    Args:
        config: the options of the run.
        images: the data.
        split: the split that the queries are from, "validation" or "test".
        count: number of queries; with "rest", it is divided by the number of classes and rounded down.
    """
    pixels = prepare_split(config, images, split)
    if images.labels is None:
        return Queries(pixels[:count].clone(), None, pixels[:0].clone(), None)
    labels = images.labels[split]
    if config.searched == "train":
        # Clones, which do not keep the memory of the whole split.
        return Queries(pixels[:count].clone(), labels[:count], pixels[:0].clone(), labels[:0])
    chosen = choose_of_each_class(labels, config.evaluate_images if count is None else count)
    rest, rest_labels = [pixels[~chosen]], [labels[~chosen]]
    if split == "test":
        rest.append(prepare_split(config, images, "validation"))
        rest_labels.append(images.labels["validation"])
    return Queries(pixels[chosen], labels[chosen], torch.cat(rest), torch.cat(rest_labels))


def choose_of_each_class(labels: Int64[Tensor, "N"], count: int) -> Tensor:
    """Return a mask of the first images of each class, as many of each, `count` in all if they divide it.

    Example:
        >>> choose_of_each_class(torch.tensor([0, 0, 1, 0, -1, 1, 1]), 4)
        tensor([ True,  True,  True, False, False,  True, False])
    """
    classes = labels[labels != UNKNOWN].unique()
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in classes:
        chosen[(labels == label).nonzero().squeeze(1)[: max(count // len(classes), 1)]] = True
    return chosen
