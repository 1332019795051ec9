"""Masks: which pixels are hidden, and images with holes to train and evaluate on."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from hardmax.applications.completion.config import MASKS, CompletionConfig, check_mask
from hardmax.data import Images, binarize
from hardmax.data.image_reading import read_image, read_image_size
from hardmax.errors import DataError
from hardmax.random import stream

_RECTANGLES, _SHORT, _LONG = 3, 0.25, 0.5  # largest number; shortest and longest side, as shares of the picture's
_TURNS, _BRUSH = 6, (0.05, 0.1)  # points of a stroke; half its width, as a share of the picture's shorter side


def draw_masks(
    name: str, count: int, size: tuple[int, int], generator: torch.Generator | None = None
) -> Bool[Tensor, "N 1 H W"]:
    """Return which pixels of pictures are hidden; some stay visible in each, and some are hidden.

    Args:
        name: one of `MASKS` in `config.py`, or a picture file that is white where pixels are hidden.
        count: N.
        size: height and width, at least 4 each.
        generator: the source of random masks; None is torch's global generator.

    Returns:
        `[N, 1, H, W]`, True where hidden.

    Raises:
        ArgumentError: an unknown mask.
        DataError: the picture cannot be read, or hides all or nothing.

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
        return read_mask(Path(name).expanduser(), size).expand(count, 1, *size)
    if name == "any":
        each = torch.stack([draw(count, size, generator) for draw in _KINDS.values()])
        chosen = torch.randint(len(each), (count,), generator=generator, device=_device(generator))
        return each[chosen, torch.arange(count, device=chosen.device)]
    return _KINDS[name](count, size, generator)


def read_mask(path: Path, size: tuple[int, int]) -> Bool[Tensor, "1 H W"]:
    """Read a picture that is white, or at least lighter than middle grey, where pixels are hidden.

    Args:
        path: the file; any kind of picture. Transparent pixels count as black.
        size: height and width. A file of another size with the same proportions is resized.

    Raises:
        DataError: the file is not a picture, has other proportions, or hides all or nothing.
    """
    file_size = read_image_size(path)
    if file_size[0] * size[1] != file_size[1] * size[0]:
        raise DataError(
            f"the mask {path} is {file_size[1]}x{file_size[0]} (width x height), but the picture it is for is "
            f"{size[1]}x{size[0]}: give it the same size or proportions"
        )
    pixels = torch.from_numpy(read_image(path, size).pixels)
    light = (pixels if pixels.ndim == 2 else pixels.float().mean(-1)) > 127
    check_hole(light, str(path))
    return light[None]


def check_hole(hidden: Bool[Tensor, "..."], name: str) -> None:
    """Raise `DataError` where all pixels are hidden, or none."""
    if not hidden.any():
        raise DataError(
            f"{name} hides no pixel, so there is nothing to complete; make it white where pixels are hidden"
        )
    if hidden.all():
        raise DataError(f"{name} hides every pixel: there is nothing to go by; make it black where pixels are seen")


def _device(generator: torch.Generator | None) -> torch.device | str:
    return "cpu" if generator is None else generator.device


def _region(name: str, count: int, size: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """Hide a rectangle, or all but it."""
    (top, bottom, left, right), inside = _REGIONS[name]
    height, width = size
    hidden = torch.full((1, 1, *size), not inside, device=_device(generator))
    hidden[..., int(top * height) : int(bottom * height), int(left * width) : int(right * width)] = inside
    return hidden.expand(count, 1, *size)


def _rectangles(count: int, size: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    device = _device(generator)
    number = torch.randint(1, _RECTANGLES + 1, (count, 1, 1, 1), generator=generator, device=device)
    used = torch.arange(_RECTANGLES, device=device)[None, :, None, None] < number
    within = []
    for side, along in zip(size, (-1, -2), strict=True):
        share, place = torch.rand(2, count, _RECTANGLES, generator=generator, device=device)
        length = (side * (_SHORT + (_LONG - _SHORT) * share)).round().clamp_min(1)
        begin = (place * (side - length + 1)).floor()
        at = torch.arange(side, device=device) - begin[..., None]
        within.append(((at >= 0) & (at < length[..., None])).unsqueeze(along))
    return (within[0] & within[1] & used).any(1, keepdim=True)


def _strokes(count: int, size: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """Draw a line with turns, and hide all pixels near it."""
    device, shorter = _device(generator), min(size)
    sides = torch.tensor(size, dtype=torch.float32, device=device)
    points = torch.rand(count, _TURNS, 2, generator=generator, device=device) * (sides - 1)
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
_KINDS = {**{name: partial(_region, name) for name in _REGIONS}, "rectangles": _rectangles, "strokes": _strokes}


@dataclass(frozen=True, eq=False)
class Holed:
    """Whole pictures, and which of their pixels are hidden.

    Attributes:
        x: `[N, *shape]`.
        hidden: `[N, 1, H, W]`, True where hidden.
        labels: `[N]`, of the classes; None where there are none.
    """

    x: Tensor
    hidden: Tensor
    labels: Tensor | None

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Tensor | slice) -> "Holed":
        return Holed(self.x[index], self.hidden[index], None if self.labels is None else self.labels[index])

    def split(self, size: int) -> list["Holed"]:
        """Return the pictures in batches."""
        return [self[begin : begin + size] for begin in range(0, len(self), size)]

    def to(self, device: torch.device | str) -> "Holed":
        """Return the pictures on a device."""
        return Holed(self.x.to(device), self.hidden.to(device), None if self.labels is None else self.labels.to(device))


def prepare_masked_split(config: CompletionConfig, images: Images, split: str) -> Holed:
    """Return the pictures of a split; random masks and pixels are the same in every call."""
    x = binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))
    hidden = draw_masks(config.mask, len(x), images.shape[1:], stream(config.seed, "mask", split))
    return Holed(x, hidden, None if images.labels is None else images.labels[split])
