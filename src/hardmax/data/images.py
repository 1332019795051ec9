"""Images in three splits, stratified splitting, and the binary pixels that Bernoulli decoders need."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from hardmax.errors import ArgumentError, DataError, DtypeError


def rank_by_stratum(strata: Sequence[Hashable], stream: random.Random) -> list[int]:
    """Shuffle the images of each stratum, and return the position of each image within its stratum."""
    # Python guarantees the same numbers from random() in every version, which neither numpy nor torch does.
    order = [index for _, index in sorted((stream.random(), index) for index in range(len(strata)))]
    counts: Counter[Hashable] = Counter()
    ranks = [0] * len(strata)
    for index in order:
        ranks[index] = counts[strata[index]]
        counts[strata[index]] += 1
    return ranks


def deal_splits(strata: Sequence[Hashable], missing: Sequence[str], seed: int) -> dict[str, Int64[Tensor, "_"]]:
    """Deal images to "train" and to each missing part, which gets a tenth of all (at least one).

    Args:
        strata: one per image. Each part gets its share of every stratum, to within an image or two.
        missing: the missing parts, without "train".
        seed: seed of the shuffle.

    Returns:
        Indices, ascending, for "train" and each of `missing`.
    """
    stream = random.Random(seed)
    sizes = Counter(strata)
    # Relative position of an image in its stratum, from 0 to 1. The jitter makes it uniform for small strata too:
    # otherwise the images that are alone in theirs, all in the middle, would never be dealt to a small part.
    where = [
        (place + stream.random()) / sizes[s] for s, place in zip(strata, rank_by_stratum(strata, stream), strict=True)
    ]
    order = sorted(range(len(strata)), key=where.__getitem__)
    each = max(1, len(strata) // 10)
    dealt = {part: order[each * i : each * (i + 1)] for i, part in enumerate(missing)}
    dealt["train"] = order[each * len(missing) :]
    return {part: torch.tensor(sorted(dealt[part]), dtype=torch.int64) for part in PARTS if part in dealt}


def complete_splits(columns: dict[str, dict[str, Tensor]], *, seed: int, origin: str) -> dict[str, dict[str, Tensor]]:
    """Split "validation" and "test" off from "train" where they are missing, a tenth of it each.

    Args:
        columns: "images", and "labels" and "attributes" if there are any; each is `[N, ...]` for "train" and any
            other part. Each part gets its share of every combination of attributes.
        seed: seed of the shuffle.
        origin: name of the images in error messages.

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
    dealt = deal_splits(strata, missing, seed)
    return {
        name: parts | {part: parts["train"][index] for part, index in dealt.items()} for name, parts in columns.items()
    }


PARTS = ("train", "validation", "test")
UNKNOWN = -1  # an unknown label, or an unknown bit of an attribute


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images of one size, in three parts.

    Attributes:
        name: the name or path that was loaded.
        source: one line: the origin of the images, and how they were processed.
        train: `[N, channels, H, W]`, uint8.
        validation: `[N, channels, H, W]`, uint8.
        test: `[N, channels, H, W]`, uint8.
        labels: `[N]` int64 for each of "train", "validation" and "test", or None if there are none. The class of each
            image, counted from zero; -1 where it is unknown.
        attributes: `[N, A]` int64 for each of the three, or None if there are none. 1 where the image has the
            attribute, 0 where it does not, -1 where that is unknown.
        attribute_names: names of the A attributes; empty if there are none.
        class_names: names of the classes, in the order of their numbers; empty if they have no names.

    Example:
        >>> from hardmax.data import load
        >>> images = load("sample")
        >>> images
        Images(sample: 4,500 train, 500 validation, 1,000 test, 1x28x28, 2 attributes)
        >>> images.labels["test"][:5]
        tensor([0, 1, 2, 3, 4])
    """

    name: str
    source: str
    train: UInt8[Tensor, "train channels H W"]
    validation: UInt8[Tensor, "validation channels H W"]
    test: UInt8[Tensor, "test channels H W"]
    labels: dict[str, Int64[Tensor, "_"]] | None = None
    attributes: dict[str, Int64[Tensor, "_ A"]] | None = None
    attribute_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, H and W of one image."""
        channels, height, width = self.train.shape[1:]
        return channels, height, width

    @property
    def facts(self) -> dict[str, Any]:
        """Shape, classes and attributes, as recorded in `config.json`."""
        return {
            "shape": list(self.shape),
            "classes": list(self.class_names),
            "attributes": list(self.attribute_names),
        }

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in PARTS)
        attributes = f", {len(self.attribute_names)} attributes" if self.attribute_names else ""
        return f"Images({self.name}: {sizes}, {'x'.join(map(str, self.shape))}{attributes})"


def binarize(
    images: UInt8[Tensor, "*shape"],
    mode: Literal["threshold", "stochastic", "none"] = "threshold",
    generator: torch.Generator | None = None,
) -> Float32[Tensor, "*shape"]:
    """Turn grey values 0..255 into numbers in [0, 1], by default into zeros and ones.

    Args:
        images: `[*shape]`, uint8.
        mode: "threshold" is 1 where the pixel is above 127, rounding at one half; "stochastic" draws a Bernoulli
            of the grey value, again in each call; "none" is the grey value, pixel / 255.
        generator: random generator of "stochastic"; None is torch's global generator.

    Returns:
        `[*shape]`, float32 in [0, 1].

    Raises:
        DtypeError: the images are not uint8.
        ArgumentError: an unknown mode.

    Example:
        >>> import torch
        >>> binarize(torch.tensor([0, 127, 128, 255], dtype=torch.uint8))
        tensor([0., 0., 1., 1.])

    References:
        Salakhutdinov & Murray, "On the quantitative analysis of deep belief networks", 2008 (stochastic).
    """
    if images.dtype != torch.uint8:
        raise DtypeError(f"binarize takes uint8 images with values 0..255, got {images.dtype}")
    if mode == "threshold":
        return (images > 127).float()
    grey = images.float() / 255
    if mode == "none":
        return grey
    if mode == "stochastic":
        # rand is in [0, 1): a pixel of 0 is never 1, one of 255 always.
        return (torch.rand(grey.shape, generator=generator, device=grey.device) < grey).float()
    raise ArgumentError(f"mode must be 'threshold', 'stochastic' or 'none', got {mode!r}")
