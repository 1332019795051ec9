"""Dealing images to train, validation and test: the same way every time."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.images import PARTS
from hardmax.errors import DataError


def rank(strata: Sequence[Hashable], stream: random.Random) -> list[int]:
    """Put the images of each stratum into a random order, and return the place of each image in that of its own."""
    # Python promises that random() gives the same numbers in every version, which neither numpy nor torch does.
    order = [index for _, index in sorted((stream.random(), index) for index in range(len(strata)))]
    seen: Counter[Hashable] = Counter()
    ranks = [0] * len(strata)
    for index in order:
        ranks[index] = seen[strata[index]]
        seen[strata[index]] += 1
    return ranks


def deal(strata: Sequence[Hashable], missing: Sequence[str], seed: int) -> dict[str, Int64[Tensor, "_"]]:
    """Deal images to "train" and to each missing part, which gets a tenth of all (at least one).

    Args:
        strata: one per image. Each part gets its share of every stratum, to within an image or two.
        missing: which parts, apart from "train".
        seed: of the shuffle.

    Returns:
        Indices, ascending, for "train" and each of `missing`.
    """
    stream = random.Random(seed)
    sizes = Counter(strata)
    # Where an image stands in its stratum, from 0 to 1. The jitter is what makes it uniform for small strata too:
    # otherwise the images that are alone in theirs, all in the middle, would never be dealt to a small part.
    where = [(place + stream.random()) / sizes[s] for s, place in zip(strata, rank(strata, stream), strict=True)]
    order = sorted(range(len(strata)), key=where.__getitem__)
    each = max(1, len(strata) // 10)
    dealt = {part: order[each * i : each * (i + 1)] for i, part in enumerate(missing)}
    dealt["train"] = order[each * len(missing) :]
    return {part: torch.tensor(sorted(dealt[part]), dtype=torch.int64) for part in PARTS if part in dealt}


def complete(columns: dict[str, dict[str, Tensor]], *, seed: int, origin: str) -> dict[str, dict[str, Tensor]]:
    """Make the missing ones of "validation" and "test" from "train", a tenth of it each.

    Args:
        columns: "images", and of "labels" and "attributes" what there is; of each, `[N, ...]` for "train" and any
            other part. Each part gets its share of every combination of attributes.
        seed: of the shuffle.
        origin: what an error calls the images.

    Returns:
        The same columns, each with all three parts.

    Raises:
        DataError: there are too few images to give each part one.
    """
    missing = [part for part in PARTS if part != "train" and part not in columns["images"]]
    count = len(columns["images"].get("train", ()))
    if count <= len(missing):
        raise DataError(
            f"{origin}: {count} images are too few to take {' and '.join(missing) or 'train'} from; "
            f"at least {len(missing) + 1} are needed"
        )
    if not missing:
        return columns
    attributes = columns.get("attributes")
    strata = [()] * count if attributes is None else [tuple(row) for row in attributes["train"].tolist()]
    dealt = deal(strata, missing, seed)
    return {
        name: parts | {part: parts["train"][index] for part, index in dealt.items()} for name, parts in columns.items()
    }
