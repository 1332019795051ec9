"""Distorted copies of pictures, that a classifier should take for the same."""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

Augment = Literal["none", "shift", "affine", "flip"]

_SHIFT, _PIXELS = 2.5, 28  # pixels to either side, of a picture so wide
_TURN, _SCALE, _SHEAR = math.radians(15), 0.15, 0.2  # to either side


def draw_distortions(kind: Augment, count: int, generator: torch.Generator) -> Tensor:
    """Draw so many distortions: matrices `[count, 2, 3]` that map places in the copy to places in the picture.

    "shift" moves, "affine" also turns, scales and shears; "flip" turns and shears half as much, and mirrors every
    second one: clothes and faces stay what they are, digits do not.
    """

    def uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(count, *shape, generator=generator, device=generator.device) - 1

    matrices = torch.zeros(count, 2, 3, device=generator.device)
    matrices[:, :, 2] = uniform(2) * (2 * _SHIFT / _PIXELS)
    matrices[:, 0, 0] = matrices[:, 1, 1] = 1
    if kind in ("affine", "flip"):
        much = 1.0 if kind == "affine" else 0.5
        turn, shear = uniform() * _TURN * much, uniform() * _SHEAR * much
        wide, high = 1 + uniform() * _SCALE, 1 + uniform() * _SCALE
        if kind == "flip":
            wide = wide * uniform().sign()
        matrices[:, 0, 0], matrices[:, 0, 1] = turn.cos() * wide, shear - turn.sin()
        matrices[:, 1, 0], matrices[:, 1, 1] = turn.sin(), turn.cos() * high
    return matrices


def distort(pictures: Tensor, matrices: Tensor) -> Tensor:
    """Return distorted copies `[B, channels, H, W]`; what comes from beyond the edge is as the edge is."""
    if not len(pictures):  # torch refuses them
        return pictures
    grid = affine_grid(matrices, list(pictures.shape), align_corners=False)
    return grid_sample(pictures, grid, padding_mode="border", align_corners=False)
