"""Masks, which define the hidden pixels of images, and masked images for training and evaluation."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from hardmax.applications.completion.config import MASKS, CompletionConfig, check_mask
from hardmax.data import Images, binarize
from hardmax.data.image_reading import read_image, read_image_size
from hardmax.data.images import expand_bits
from hardmax.errors import DataError
from hardmax.files import expand_path
from hardmax.random import make_generator

_MAX_RECTANGLES = 3
_MIN_SIDE, _MAX_SIDE = 0.25, 0.5  # of a rectangle, as shares of the side of the image
_POINTS = 6  # number of points of a stroke
_BRUSH = (0.05, 0.1)  # smallest and largest half width of a stroke, as shares of the shorter side of the image


def draw_masks(
    name: str, count: int, size: tuple[int, int], generator: torch.Generator | None = None
) -> Bool[Tensor, "N 1 H W"]:
    """Return masks of images; in each, some pixels are hidden and some are visible.

    Args:
        name: one of `MASKS` in `config.py`, or an image file that is white where pixels are hidden.
        count: N, the number of masks.
        size: height and width, at least 4 each.
        generator: the source of random masks; None is torch's global generator.

    Returns:
        `[N, 1, H, W]`, True where hidden.

    Raises:
        ArgumentError: an unknown mask.
        DataError: the image cannot be read, or hides all pixels or none.

    Example:
        >>> draw_masks("half", 1, (4, 4))[0, 0].int()
        tensor([[0, 0, 0, 0],
                [0, 0, 0, 0],
                [1, 1, 1, 1],
                [1, 1, 1, 1]], dtype=torch.int32)
        >>> draw_masks("strokes", 5, (28, 28), torch.Generator().manual_seed(0)).shape
        torch.Size([5, 1, 28, 28])
    """
    check_mask(name)
    if name not in MASKS:
        return read_mask(expand_path(name), size).expand(count, 1, *size)
    if name == "any":
        masks = torch.stack([draw(count, size, generator) for draw in _KINDS.values()])
        kind = torch.randint(len(masks), (count,), generator=generator, device=_get_device(generator))
        return masks[kind, torch.arange(count, device=kind.device)]
    return _KINDS[name](count, size, generator)


def read_mask(path: Path, size: tuple[int, int]) -> Bool[Tensor, "1 H W"]:
    """Read a mask from an image that is white, or lighter than middle grey, where pixels are hidden.

    Args:
        path: an image file. Transparent pixels count as black; if it has only the values 0 and 1, 1 is white.
        size: height and width. A file of another size with the same proportions is resized.

    Raises:
        DataError: the file is not an image, has other proportions, or hides all pixels or none.
    """
    file_size = read_image_size(path)
    if file_size[0] * size[1] != file_size[1] * size[0]:
        raise DataError(
            f"the mask {path} is {file_size[1]}x{file_size[0]} (width x height), but the image it is for is "
            f"{size[1]}x{size[0]}: give it the same size or proportions"
        )
    pixels = torch.from_numpy(read_image(path, size).pixels)
    expand_bits(pixels)
    hidden = (pixels if pixels.ndim == 2 else pixels.float().mean(-1)) > 127
    check_hole(hidden, str(path))
    return hidden[None]


def check_hole(hidden: Bool[Tensor, "..."], name: str) -> None:
    """Raise `DataError` if all pixels are hidden, or none."""
    if not hidden.any():
        raise DataError(
            f"{name} hides no pixel, so there is nothing to complete; make it white where pixels are hidden"
        )
    if hidden.all():
        raise DataError(
            f"{name} hides every pixel, so there is nothing to start from; make it black where pixels are visible"
        )


def _get_device(generator: torch.Generator | None) -> torch.device | str:
    return "cpu" if generator is None else generator.device


def _make_region(name: str, count: int, size: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """Return masks that hide a fixed rectangle, or all pixels outside it."""
    (top, bottom, left, right), inside = _REGIONS[name]
    height, width = size
    hidden = torch.full((1, 1, *size), not inside, device=_get_device(generator))
    hidden[..., int(top * height) : int(bottom * height), int(left * width) : int(right * width)] = inside
    return hidden.expand(count, 1, *size)


def _draw_rectangles(count: int, size: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """Draw masks that hide one to three random rectangles."""
    device = _get_device(generator)
    number = torch.randint(1, _MAX_RECTANGLES + 1, (count, 1, 1, 1), generator=generator, device=device)
    used = torch.arange(_MAX_RECTANGLES, device=device)[None, :, None, None] < number
    within = []
    for side, along in zip(size, (-1, -2), strict=True):
        share, place = torch.rand(2, count, _MAX_RECTANGLES, generator=generator, device=device)
        length = (side * (_MIN_SIDE + (_MAX_SIDE - _MIN_SIDE) * share)).round().clamp_min(1)
        begin = (place * (side - length + 1)).floor()
        at = torch.arange(side, device=device) - begin[..., None]
        within.append(((at >= 0) & (at < length[..., None])).unsqueeze(along))
    return (within[0] & within[1] & used).any(1, keepdim=True)


def _draw_strokes(count: int, size: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """Draw masks that hide all pixels near a random line of several segments."""
    device, shorter = _get_device(generator), min(size)
    sides = torch.tensor(size, dtype=torch.float32, device=device)
    points = torch.rand(count, _POINTS, 2, generator=generator, device=device) * (sides - 1)
    low, high = _BRUSH
    brush = shorter * (low + (high - low) * torch.rand(count, 1, 1, generator=generator, device=device))
    grid = torch.stack(torch.meshgrid(*(torch.arange(side, device=device) for side in size), indexing="ij"), -1).float()
    hidden = torch.zeros(count, *size, dtype=torch.bool, device=device)
    for begin, end in zip(points.unbind(1), points.unbind(1)[1:], strict=False):
        along = (end - begin)[:, None, None]
        relative = grid - begin[:, None, None]
        share = ((relative * along).sum(-1) / along.square().sum(-1).clamp_min(1e-6)).clamp(0, 1)
        hidden |= (relative - share[..., None] * along).norm(dim=-1) <= brush.clamp_min(0.71)  # at least one pixel
    return hidden[:, None]


# name: shares of the sides at the top, bottom, left and right, and whether the inside is hidden
_REGIONS = {
    "centre": ((0.25, 0.75, 0.25, 0.75), True),
    "half": ((0.5, 1, 0, 1), True),
    "quadrants-1": ((0.5, 1, 0, 0.5), False),
    "quadrants-2": ((0, 1, 0.5, 1), True),
    "quadrants-3": ((0.5, 1, 0.5, 1), True),
}
_KINDS = {
    **{name: partial(_make_region, name) for name in _REGIONS},
    "rectangles": _draw_rectangles,
    "strokes": _draw_strokes,
}


@dataclass(frozen=True, eq=False)
class MaskedImages:
    """Images, with masks of the hidden pixels.

    Attributes:
        x: `[N, *shape]`. The complete images.
        hidden: `[N, 1, H, W]`. True where a pixel is hidden.
        labels: `[N]`. The classes; None if there are none.
    """

    x: Tensor
    hidden: Tensor
    labels: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor | slice) -> "MaskedImages":
        return MaskedImages(self.x[index], self.hidden[index], None if self.labels is None else self.labels[index])

    def split(self, size: int) -> list["MaskedImages"]:
        """Return the images in batches."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def to(self, device: torch.device | str) -> "MaskedImages":
        """Return the images on a device."""
        return MaskedImages(
            self.x.to(device), self.hidden.to(device), None if self.labels is None else self.labels.to(device)
        )


def prepare_masked_split(config: CompletionConfig, images: Images, split: str) -> MaskedImages:
    """Return the images of a split with masks; random masks and pixels are the same in every call."""
    x = binarize(getattr(images, split), config.binarize, make_generator(config.seed, "binarize", split))
    hidden = draw_masks(config.mask, len(x), images.shape[1:], make_generator(config.seed, "mask", split))
    return MaskedImages(x, hidden, None if images.labels is None else images.labels[split])
