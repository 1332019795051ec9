"""Wrong shapes and unknown names raise our own errors."""

import pytest
import torch

from hardmax.applications.segmentation.fit.smoothing import smooth_labels
from hardmax.applications.segmentation.tissues.gaussians import Gaussians
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.plain  # without shape checks


def test_gaussians():
    with pytest.raises(ShapeError, match=r"\[M, K\]"):
        Gaussians(torch.zeros(2), torch.ones(2), torch.ones(2, 1))


def test_label_vae():
    with pytest.raises(ArgumentError, match="network must be 'linear' or 'convolutional', got 'mlp'"):
        LabelVAE(torch.rand(3, 8, 8), network="mlp")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match=r"\[M, X, Y\]"):
        LabelVAE(torch.rand(3, 8))
    vae = LabelVAE(torch.rand(3, 8, 8), latents=2)
    with pytest.raises(ShapeError, match=r"maps must be \[B, 3, 8, 8\], got \[1, 3, 8, 9\]"):
        vae(torch.rand(1, 3, 8, 9))


def test_smoothing():
    with pytest.raises(ShapeError, match="mask has shape"):
        smooth_labels(torch.rand(2, 4, 4), 1.0, mask=torch.ones(4, 5, dtype=torch.bool))
    with pytest.raises(ShapeError, match="start has shape"):
        smooth_labels(torch.rand(2, 4, 4), 1.0, start=torch.zeros(4, 5, dtype=torch.int64))
