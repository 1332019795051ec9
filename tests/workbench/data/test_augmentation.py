"""Distorted copies equal those of torch's own, slower functions."""

import pytest
import torch
from torch.nn.functional import affine_grid, grid_sample, interpolate

from hardmax.data.augmentation import Distortions, distort, draw_distortions


@pytest.mark.parametrize("kind", ["mirror", "shift", "affine", "elastic", "flip"])
@pytest.mark.parametrize("shape", [(5, 1, 28, 28), (3, 3, 20, 34)])
def test_distortions_are_those_of_torch(kind, shape):
    images = torch.rand(shape, dtype=torch.float64)
    drawn = draw_distortions(kind, len(images), torch.Generator().manual_seed(0))
    bends = None if drawn.bends is None else drawn.bends.double()
    drawn = Distortions(drawn.matrices.double(), bends)
    grid = affine_grid(drawn.matrices, list(shape), align_corners=False)
    if bends is not None:
        grid = grid + interpolate(bends, size=shape[2:], mode="bicubic", align_corners=True).movedim(1, -1)
    expected = grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(distort(images, drawn), expected, atol=1e-12, rtol=0)


def test_a_mirror_image():
    images = torch.rand(1, 1, 4, 6)
    mirror = torch.tensor([[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    torch.testing.assert_close(distort(images, Distortions(mirror, None)), images.flip(-1))
