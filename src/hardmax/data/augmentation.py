"""Data augmentation: randomly distorted copies of images."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

Augment = Literal["none", "mirror", "shift", "affine", "elastic", "flip"]

# In units of half an image, which is 14 pixels of 28.
_SHIFT, _BEND = 2.5 / 14, 1 / 14
_TURN, _SCALE, _SHEAR = math.radians(15), 0.15, 0.2  # to either side
_NODES = 7  # in height and in width, displaced at random; the displacement is smooth between them


@dataclass(frozen=True, eq=False)
class Distortions:
    """Random distortions of N images.

    Attributes:
        matrices: `[N, 2, 3]`, affine maps from positions in the copy to positions in the image.
        bends: `[N, 2, nodes, nodes]`, additional displacements of the positions; None for no displacement.
    """

    matrices: Tensor
    bends: Tensor | None

    def __getitem__(self, part: slice) -> "Distortions":
        return Distortions(self.matrices[part], None if self.bends is None else self.bends[part])


def augment_images(images: Tensor, kind: Augment, generator: torch.Generator, count: int, part: slice) -> Tensor:
    """Return distorted copies of the images `part` of a batch of `count`; kind "none" returns the images.

    Distortions are drawn for all `count` images, so that they do not depend on the number of processes.
    """
    return images if kind == "none" else distort(images, draw_distortions(kind, count, generator)[part])


def draw_distortions(kind: Augment, count: int, generator: torch.Generator) -> Distortions:
    """Draw `count` random distortions.

    "shift" translates; "affine" also rotates, scales and shears; "elastic" also bends. "flip" is "elastic" with half
    the rotation, shear and bending, and mirrors with probability 1/2: clothes keep their class, digits do not. "mirror"
    only mirrors: it is for aligned faces, where shifts by a few pixels do more harm than good.
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
    strength = 0.5 if kind == "flip" else 1.0
    turn, shear = uniform() * _TURN * strength, uniform() * _SHEAR * strength
    wide, high = 1 + uniform() * _SCALE, 1 + uniform() * _SCALE
    if kind == "flip":
        wide = wide * uniform().sign()
    matrices[:, 0, 0], matrices[:, 0, 1] = turn.cos() * wide, shear - turn.sin()
    matrices[:, 1, 0], matrices[:, 1, 1] = turn.sin(), turn.cos() * high
    if kind == "affine":
        return Distortions(matrices, None)
    shape = (count, 2, _NODES, _NODES)
    return Distortions(matrices, torch.randn(shape, generator=generator, device=generator.device) * _BEND * strength)


def distort(images: Tensor, distortions: Distortions) -> Tensor:
    """Return distorted copies `[B, channels, H, W]`; positions outside the image have the value of the nearest edge.

    References:
        Simard, Steinkraus & Platt, "Best practices for convolutional neural networks applied to visual document
        analysis", 2003 (elastic distortions).
    """
    if not len(images):  # grid_sample does not accept empty batches
        return images
    # Matrix products: torch's affine_grid and bicubic interpolation take longer than the networks that follow.
    (height, width), like = images.shape[-2:], distortions.matrices
    down, across = (_pixel_centres(size, like) for size in (height, width))
    pixels = torch.stack([across.expand(height, -1), down[:, None].expand(-1, width), like.new_ones(height, width)])
    places = (like.flatten(0, 1) @ pixels.flatten(1)).view(-1, 2, height, width)
    if distortions.bends is not None:
        places = (
            places + _interpolation_matrix(height, like) @ distortions.bends @ _interpolation_matrix(width, like).mT
        )
    return grid_sample(images, places.movedim(1, -1), padding_mode="border", align_corners=False)


def _pixel_centres(size: int, like: Tensor) -> Tensor:
    """Return the centres of the pixels, where the edges of the image are -1 and 1."""
    return torch.arange(1 - size, size, 2, dtype=like.dtype, device=like.device) / size


def _interpolation_matrix(size: int, like: Tensor) -> Tensor:
    """Return the bicubic interpolation matrix `[size, nodes]`; the first and last pixels are at nodes."""
    nodes = torch.eye(_NODES, dtype=like.dtype, device=like.device)[None, None]
    return interpolate(nodes, size=(size, _NODES), mode="bicubic", align_corners=True)[0, 0]
