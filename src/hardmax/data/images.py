"""Images in three splits: the class `Images`, stratified splitting, and binary pixels for Bernoulli decoders."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, UInt8
from torch import Tensor

from hardmax.errors import ArgumentError, DataError, DtypeError


def rank_by_stratum(strata: Sequence[Hashable], stream: random.Random) -> Int64[np.ndarray, "N"]:
    """Shuffle the images of each stratum, and return the position of each image within its stratum."""
    codes: dict[Hashable, int] = {}
    stratum = np.fromiter((codes.setdefault(s, len(codes)) for s in strata), np.int64, len(strata))
    # Sorted by stratum, and within one by a random number. Ranks count from the first image of the stratum.
    order = np.lexsort((_draw_numbers(stream, len(strata)), stratum))
    first = np.concatenate([[0], np.bincount(stratum).cumsum()]) if len(strata) else np.zeros(1, np.int64)
    ranks = np.empty(len(strata), np.int64)
    ranks[order] = np.arange(len(strata)) - first[stratum[order]]
    return ranks


def _draw_numbers(stream: random.Random, count: int) -> Float64[np.ndarray, "count"]:
    """Return random numbers from 0 to 1."""
    # Python guarantees the same numbers from random() in every version, which neither numpy nor torch does.
    return np.fromiter((stream.random() for _ in range(count)), np.float64, count)


def assign_splits(strata: Sequence[Hashable], missing: Sequence[str], seed: int) -> dict[str, Int64[Tensor, "_"]]:
    """Assign images to "train" and to each missing part; a missing part gets a tenth of all images, at least one.

    Args:
        strata: the stratum of each image. Each part gets its share of every stratum, up to an image or two.
        missing: the missing parts, without "train".
        seed: seed of the shuffle.

    Returns:
        Indices, ascending, for "train" and each of `missing`.
    """
    stream = random.Random(seed)
    ranks = rank_by_stratum(strata, stream)
    counts = Counter(strata)
    sizes = np.fromiter((counts[s] for s in strata), np.int64, len(strata))
    # Relative position of an image in its stratum, from 0 to 1. The jitter makes it uniform in small strata, too:
    # otherwise images in strata of size one, all in the middle, would never be assigned to a small part.
    order = np.argsort((ranks + _draw_numbers(stream, len(strata))) / sizes, kind="stable")
    size = max(1, len(strata) // 10)
    members = {part: order[size * i : size * (i + 1)] for i, part in enumerate(missing)}
    members["train"] = order[size * len(missing) :]
    return {part: torch.from_numpy(np.sort(members[part])) for part in PARTS if part in members}


def complete_splits(columns: dict[str, dict[str, Tensor]], *, seed: int, origin: str) -> dict[str, dict[str, Tensor]]:
    """Split "validation" and "test" off from "train" where they are missing, a tenth of "train" each.

    Args:
        columns: "images", and "labels" and "attributes" if they exist; each is a dict of tensors `[N, ...]`, for
            "train" and any other part. Each part gets its share of every combination of attributes.
        seed: seed of the shuffle.
        origin: name of the images in error messages.

    Returns:
        The same columns, each with all three parts.

    Raises:
        DataError: there are fewer images than parts.
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
    members = assign_splits(strata, missing, seed)
    return {
        name: parts | {part: parts["train"][index] for part, index in members.items()}
        for name, parts in columns.items()
    }


PARTS = ("train", "validation", "test")
UNKNOWN = -1  # an unknown label, or an unknown bit of an attribute


@dataclass(frozen=True, eq=False, repr=False)
class Images:
    """Images of one size, in three parts.

    Attributes:
        name: the name or path that was loaded.
        source: the origin of the images and how they were processed, in one line.
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
        >>> from hardmax.data import load_images
        >>> images = load_images("sample")
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

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors: images, labels and attributes of each part, by a name such as "train labels"."""
        columns = {"images": {part: getattr(self, part) for part in PARTS}}
        columns |= {"labels": self.labels or {}, "attributes": self.attributes or {}}
        return {f"{part} {name}": tensor for name, parts in columns.items() for part, tensor in parts.items()}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in PARTS)
        attributes = f", {len(self.attribute_names)} attributes" if self.attribute_names else ""
        return f"Images({self.name}: {sizes}, {'x'.join(map(str, self.shape))}{attributes})"


def binarize(
    images: UInt8[Tensor, "*shape"],
    mode: Literal["threshold", "stochastic", "none"] = "threshold",
    generator: torch.Generator | None = None,
) -> Float32[Tensor, "*shape"]:
    """Convert grey values 0..255 to numbers in [0, 1], by default to zeros and ones.

    Args:
        images: `[*shape]`, uint8.
        mode: "threshold" rounds: 1 where the pixel is above 127; "stochastic" samples a Bernoulli with the grey value
            as its probability, again in each call; "none" returns the grey value, pixel / 255.
        generator: random generator for "stochastic"; None is torch's global generator.

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
        # rand is in [0, 1): a pixel of 0 is never 1, a pixel of 255 always.
        return (torch.rand(grey.shape, generator=generator, device=grey.device) < grey).float()
    raise ArgumentError(f"mode must be 'threshold', 'stochastic' or 'none', got {mode!r}")


BITS_NOTE = "0 and 1 read as black and white"


def expand_bits(*images: UInt8[Tensor, "..."]) -> bool:
    """Multiply images by 255, in place, if their only values are 0 and 1.

    Args:
        images: all images that belong together, in any number of tensors; their values are judged together.

    Returns:
        Whether they were multiplied; `BITS_NOTE` says so in words.

    Example:
        >>> pixels = torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8)
        >>> expand_bits(pixels), pixels.tolist()
        (True, [[0, 255], [255, 0]])
    """
    # In batches, and to the first larger value only: mostly that is in the first batch.
    if any(int(batch.max()) > 1 for tensor in images for batch in tensor.split(_BATCH) if batch.numel()):
        return False
    if not any(bool(tensor.any()) for tensor in images):
        return False
    for tensor in images:
        tensor *= 255
    return True


def describe_flatness(images: Images, mode: Literal["threshold", "stochastic", "none"] = "threshold") -> str | None:
    """Return a sentence if each image is flat, that is, all of its pixels are equal: there is nothing to learn.

    Args:
        images: the images.
        mode: how they are binarized: with "threshold", images whose pixels are all below or all above the threshold
            are flat, too.

    Returns:
        The sentence; None if any image is not flat.

    Example:
        >>> dark = torch.tensor([0, 9, 80, 0], dtype=torch.uint8).view(1, 1, 2, 2)
        >>> print(describe_flatness(Images("dark", "an example", dark, dark, dark)))
        rounded to zeros and ones, each of the 3 images is flat: pixels go from 0 to 80, and 128 or more is 1
    """
    parts = [getattr(images, part) for part in PARTS]
    count = sum(map(len, parts))
    if _are_flat(parts, rounded=False):
        return f"each of the {count:,} images is of one flat colour, so that there is nothing to learn"
    if mode != "threshold" or not _are_flat(parts, rounded=True):
        return None
    low, high = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
    return (
        f"rounded to zeros and ones, each of the {count:,} images is flat: pixels go from {low} to {high}, and 128 or "
        "more is 1"
    )


_BATCH = 1000


def _are_flat(parts: Sequence[Tensor], *, rounded: bool) -> bool:
    """Return whether in each image all pixels are equal, before or after rounding; stop at the first that differs."""
    for batch in (batch for part in parts for batch in part.split(_BATCH)):
        pixels = batch > 127 if rounded else batch
        if (pixels != pixels.flatten(2)[..., :1, None]).any():
            return False
    return True
