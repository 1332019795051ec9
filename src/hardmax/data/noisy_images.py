"""Noisy binary images to clean: `make_noisy_images`, a decision problem whose decisions are the pixels."""

from collections.abc import Mapping

import torch
from jaxtyping import Float32
from torch import Tensor

from hardmax.data.decisions import Decisions
from hardmax.data.images import PARTS, Images, binarize
from hardmax.errors import ArgumentError, DataError
from hardmax.random import make_generator


def make_noisy_images(
    images: Images, sizes: Mapping[str, int], *, flips: float = 0.15, occlusion: int = 7, seed: int = 0
) -> Decisions:
    """Return noisy versions of binary images as features, and the clean images as targets.

    Images are rounded to zeros and ones. Each pixel is flipped with the same probability. Then one block of each image,
    at a random place, becomes random bits: its content can only be inferred from what surrounds it.

    Args:
        images: grey images, of which each part has at least as many as `sizes` says; a random choice of them is used.
        sizes: number of examples of the parts "train", "validation" and "test".
        flips: probability that a pixel is flipped, from 0 to 0.5.
        occlusion: mean height and width of the block; each is one pixel smaller, equal or larger, at random. 0: none.
        seed: seed of the choice of images and of the noise. Parts do not depend on the sizes of other parts.

    Returns:
        Features `[N, 1, H, W]`, zeros and ones in float32, and targets `[N, H * W]`, zeros and ones in uint8.

    Raises:
        DataError: the images are not grey, or a part has too few of them.
        ArgumentError: `flips` or `occlusion` is out of range.

    Example:
        >>> from hardmax.data import load_images, make_noisy_images
        >>> make_noisy_images(load_images("sample"), {"train": 100, "validation": 20, "test": 50})
        Decisions(denoising: 100 train, 20 validation, 50 test, 1x28x28 features, 784 targets)
    """
    channels, height, width = images.shape
    if channels != 1:
        raise DataError(f"denoising takes grey images, but {images.name} has {channels} channels")
    if not 0 <= flips <= 0.5:
        raise ArgumentError(f"flips must be between 0 and 0.5, got {flips}; 0.5 leaves nothing of the image")
    if not 0 <= occlusion < min(height, width):
        raise ArgumentError(f"occlusion must be from 0 to {min(height, width) - 1} pixels, got {occlusion}")
    features, targets = {}, {}
    for part in PARTS:
        pixels = getattr(images, part)
        if len(pixels) < sizes[part]:
            raise DataError(
                f"{images.name} has {len(pixels):,} {part} images, but {sizes[part]:,} examples are asked for"
            )
        generator = make_generator(seed, "decisions", "denoising", part)
        chosen = torch.randperm(len(pixels), generator=generator)[: sizes[part]]
        clean = binarize(pixels[chosen])
        features[part] = add_noise(clean, flips, occlusion, generator)
        targets[part] = clean.flatten(1).to(torch.uint8)
    block = f" and a block of about {occlusion} x {occlusion} random pixels" if occlusion else ""
    source = f"images of {images.name} in black and white, with {flips:.0%} flipped pixels{block}"
    return Decisions("denoising", source, {"grid": [height, width]}, **features, targets=targets)


def add_noise(
    clean: Float32[Tensor, "N 1 H W"], flips: float, occlusion: int, generator: torch.Generator | None = None
) -> Float32[Tensor, "N 1 H W"]:
    """Return binary images with flipped pixels and a block of random bits, see `make_noisy_images`.

    Args:
        clean: `[N, 1, H, W]`, zeros and ones.
        flips: probability that a pixel is flipped.
        occlusion: mean height and width of the block; 0: no block.
        generator: source of the noise; None is torch's global generator.

    Example:
        >>> noisy = add_noise(torch.zeros(500, 1, 28, 28), 0.1, 0, torch.Generator().manual_seed(0))
        >>> print(f"{noisy.mean():.2f}")
        0.10
    """
    is_flipped = torch.rand(clean.shape, generator=generator) < flips
    noisy = torch.where(is_flipped, 1 - clean, clean)
    if not occlusion:
        return noisy
    bits = torch.randint(2, clean.shape, generator=generator).to(clean.dtype)
    rows, columns = (_draw_ranges(len(clean), size, occlusion, generator) for size in clean.shape[2:])
    return torch.where(rows[:, None, :, None] & columns[:, None, None, :], bits, noisy)


def _draw_ranges(count: int, size: int, length: int, generator: torch.Generator | None) -> Tensor:
    """Return `[count, size]`, true in one range of each row, of `length` places, one less or one more."""
    lengths = length + torch.randint(-1, 2, (count, 1), generator=generator)
    # The largest range still fits; all first places that leave room for the range are equally probable.
    first = (torch.rand(count, 1, generator=generator) * (size - lengths + 1)).long()
    place = torch.arange(size)
    return (place >= first) & (place < first + lengths)
