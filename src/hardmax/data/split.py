"""Dealing images to train, validation and test: the same way every time."""

import random
from collections.abc import Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.images import PARTS
from hardmax.errors import DataError


def deal(count: int, missing: Sequence[str], seed: int) -> dict[str, Int64[Tensor, "_"]]:
    """Deal `count` images to "train" and to each missing part, which gets a tenth (at least one).

    Returns:
        Indices, ascending, for "train" and each of `missing`.
    """
    # Python promises that random() gives the same numbers in every version, which neither numpy nor torch does.
    stream = random.Random(seed)
    order = [index for _, index in sorted((stream.random(), index) for index in range(count))]
    each = max(1, count // 10)
    dealt = {part: order[each * i : each * (i + 1)] for i, part in enumerate(missing)}
    dealt["train"] = order[each * len(missing) :]
    return {part: torch.tensor(sorted(dealt[part]), dtype=torch.int64) for part in PARTS if part in dealt}


def complete(
    images: dict[str, Tensor], labels: dict[str, Tensor] | None, *, seed: int, origin: str
) -> tuple[dict[str, Tensor], dict[str, Tensor] | None]:
    """Make the missing ones of "validation" and "test" from "train", a tenth of it each.

    Args:
        images: `[N, ...]` for "train" and any other part.
        labels: `[N]` for the same parts.
        seed: of the shuffle.
        origin: what an error calls the images.

    Returns:
        Images and labels, each with all three parts.

    Raises:
        DataError: there are too few images to give each part one.
    """
    missing = [part for part in PARTS if part != "train" and part not in images]
    count = len(images["train"])
    if count <= len(missing):
        raise DataError(
            f"{origin}: {count} images are too few to take {' and '.join(missing) or 'train'} from; "
            f"at least {len(missing) + 1} are needed"
        )
    if not missing:
        return images, labels
    dealt = deal(count, missing, seed)
    images = images | {part: images["train"][index] for part, index in dealt.items()}
    if labels is not None:
        labels = labels | {part: labels["train"][index] for part, index in dealt.items()}
    return images, labels
