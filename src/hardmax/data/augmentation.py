"""Augmentation: distorted copies of images."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

Augment = Literal["none", "mirror", "shift", "affine", "elastic", "flip"]

# In units of half a picture, which is 14 pixels of 28.
_SHIFT, _BEND = 2.5 / 14, 1 / 14
_TURN, _SCALE, _SHEAR = math.radians(15), 0.15, 0.2  # to either side
_NODES = 7  # in height and in width, each displaced at random; smooth between them


@dataclass(frozen=True, eq=False)
class Distortions:
    """Random distortions of N pictures.

    Attributes:
        matrices: `[N, 2, 3]`, affine maps from positions in the copy to positions in the picture.
        bends: `[N, 2, nodes, nodes]`, additional displacements of the positions; None for no displacement.
    """

    matrices: Tensor
    bends: Tensor | None

    def __getitem__(self, part: slice) -> "Distortions":
        return Distortions(self.matrices[part], None if self.bends is None else self.bends[part])


def augment_images(pictures: Tensor, kind: Augment, generator: torch.Generator, count: int, part: slice) -> Tensor:
    """Return distorted copies of `part` of `count` pictures; draws distortions for all of them, or none for "none"."""
    return pictures if kind == "none" else distort(pictures, draw_distortions(kind, count, generator)[part])


def draw_distortions(kind: Augment, count: int, generator: torch.Generator) -> Distortions:
    """Draw `count` distortions.

    "shift" translates, "affine" also rotates, scales and shears, "elastic" also bends; "flip" rotates and shears half
    as much, bends half as much, and mirrors with probability 1/2: clothes keep their class, digits do not. "mirror"
    only mirrors: for aligned faces, where a shift by a few pixels hides more than it teaches.
    """

    def uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(count, *shape, generator=generator, device=generator.device) - 1

    matrices = torch.eye(2, 3, device=generator.device).repeat(count, 1, 1)
    if kind == "mirror":
        matrices[:, 0, 0] = uniform().sign()
        return Distortions(matrices, None)
    matrices[:, :, 2] = uniform(2) * _SHIFT
    if kind == "shift":
        return Distortions(matrices, None)
    much = 0.5 if kind == "flip" else 1.0
    turn, shear = uniform() * _TURN * much, uniform() * _SHEAR * much
    wide, high = 1 + uniform() * _SCALE, 1 + uniform() * _SCALE
    if kind == "flip":
        wide = wide * uniform().sign()
    matrices[:, 0, 0], matrices[:, 0, 1] = turn.cos() * wide, shear - turn.sin()
    matrices[:, 1, 0], matrices[:, 1, 1] = turn.sin(), turn.cos() * high
    if kind == "affine":
        return Distortions(matrices, None)
    shape = (count, 2, _NODES, _NODES)
    return Distortions(matrices, torch.randn(shape, generator=generator, device=generator.device) * _BEND * much)


def distort(pictures: Tensor, distortions: Distortions) -> Tensor:
    """Return distorted copies `[B, channels, H, W]`; positions outside the picture have the value of the nearest edge.

    References:
        Simard, Steinkraus & Platt, "Best practices for convolutional neural networks applied to visual document
        analysis", 2003 (elastic distortions).
    """
    if not len(pictures):  # torch refuses empty batches
        return pictures
    # Matrix products, since torch's affine_grid and bicubic interpolation take longer than the networks they feed.
    (height, width), like = pictures.shape[-2:], distortions.matrices
    down, across = (_pixel_centres(size, like) for size in (height, width))
    pixels = torch.stack([across.expand(height, -1), down[:, None].expand(-1, width), like.new_ones(height, width)])
    places = (like.flatten(0, 1) @ pixels.flatten(1)).view(-1, 2, height, width)
    if distortions.bends is not None:
        places = (
            places + _interpolation_matrix(height, like) @ distortions.bends @ _interpolation_matrix(width, like).mT
        )
    return grid_sample(pictures, places.movedim(1, -1), padding_mode="border", align_corners=False)


def _pixel_centres(size: int, like: Tensor) -> Tensor:
    """Return the centres of the pixels, where the edges of the picture are -1 and 1."""
    return torch.arange(1 - size, size, 2, dtype=like.dtype, device=like.device) / size


def _interpolation_matrix(size: int, like: Tensor) -> Tensor:
    """Return the bicubic interpolation matrix `[size, nodes]`; the first and last pixels are at nodes."""
    nodes = torch.eye(_NODES, dtype=like.dtype, device=like.device)[None, None]
    return interpolate(nodes, size=(size, _NODES), mode="bicubic", align_corners=True)[0, 0]
