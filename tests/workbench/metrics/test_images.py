"""What completions are judged by: closed forms, and that worse ones get worse numbers."""

import math

import pytest
import torch

from hardmax.metrics.images import count_classes, measure_pairwise_distance, psnr, ssim
from hardmax.metrics.judges import extract_features, frechet_distance, judge_images, train_classifier
from hardmax.random import stream

TRUTH = torch.rand(4, 3, 20, 24, generator=stream(0))
HIDDEN = torch.zeros(4, 1, 20, 24, dtype=torch.bool)
HIDDEN[:, :, 5:12, 6:20] = True


def test_only_hidden_pixels_count():
    off = torch.where(HIDDEN, TRUTH + 0.1, TRUTH)
    assert psnr(off, TRUTH, HIDDEN) == pytest.approx(20.0, abs=1e-3)
    assert psnr(TRUTH, TRUTH, HIDDEN) == pytest.approx(100.0)
    elsewhere = torch.where(HIDDEN, TRUTH, TRUTH + 0.1)
    assert psnr(elsewhere, TRUTH, HIDDEN) == pytest.approx(100.0)


def test_ssim_is_that_of_its_definition():
    """One window by hand, in the middle of a picture whose hole is one pixel."""
    x, y = (torch.rand(1, 1, 11, 11, generator=stream(i), dtype=torch.float64) for i in (1, 2))
    hidden = torch.zeros(1, 1, 11, 11, dtype=torch.bool)
    hidden[..., 5, 5] = True
    at = torch.arange(11, dtype=torch.float64) - 5
    weights = torch.exp(-(at[:, None] ** 2 + at**2) / (2 * 1.5**2))
    weights /= weights.sum()
    a, b = (weights * x).sum(), (weights * y).sum()
    va, vb = (weights * x**2).sum() - a**2, (weights * y**2).sum() - b**2
    cov = (weights * x * y).sum() - a * b
    expected = (2 * a * b + 1e-4) * (2 * cov + 9e-4) / ((a**2 + b**2 + 1e-4) * (va + vb + 9e-4))
    assert float(ssim(x, y, hidden)) == pytest.approx(float(expected), abs=1e-12)


def test_ssim_falls_with_noise():
    noise = torch.randn(TRUTH.shape, generator=stream(3))
    found = [ssim(TRUTH + scale * noise, TRUTH, HIDDEN).mean().item() for scale in (0.0, 0.05, 0.2, 0.5)]
    assert found[0] == pytest.approx(1.0)
    assert found == sorted(found, reverse=True)


def test_pictures_of_a_diverged_model_are_judged_as_nothing():
    broken = torch.full((4, 3), torch.nan)
    assert math.isnan(frechet_distance(broken, torch.randn(4, 3)))
    assert count_classes(broken[None], torch.zeros(4, dtype=torch.int64)).right == 0.0


def test_frechet_of_gaussians():
    """Against the formula for diagonal covariances: |m1 - m2|^2 + sum (s1 - s2)^2."""
    generator = stream(4)
    first = torch.randn(200_000, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 2.0, 3.0])
    second = torch.randn(200_000, 3, generator=generator, dtype=torch.float64) * torch.tensor([2.0, 2.0, 1.0]) + 1.0
    assert frechet_distance(first, second) == pytest.approx(3 + 1 + 0 + 4, rel=0.02)
    assert frechet_distance(first, first) == pytest.approx(0.0, abs=1e-9)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    assert frechet_distance(first @ turn, second @ turn) == pytest.approx(frechet_distance(first, second), rel=1e-6)


def test_diversity():
    same = TRUTH.expand(5, *TRUTH.shape)
    assert (measure_pairwise_distance(same, HIDDEN) == 0).all()
    assert (measure_pairwise_distance(same[:1], HIDDEN) == 0).all()
    three = torch.stack([torch.zeros_like(TRUTH), torch.zeros_like(TRUTH), torch.ones_like(TRUTH)])
    assert measure_pairwise_distance(three, HIDDEN) == pytest.approx(2 / 3)


def test_classes():
    logits = torch.tensor([[[9.0, 0, 0], [9, 0, 0]], [[9.0, 0, 0], [0, 9, 0]], [[9.0, 0, 0], [0, 0.1, 0]]])
    found = count_classes(logits, torch.tensor([0, 2]))
    assert found.distinct == 1.5
    assert found.entropy == pytest.approx((0 + 0.6365) / 2, abs=1e-4)
    assert found.sure == pytest.approx(5 / 6)
    assert found.right == 0.5
    assert count_classes(logits).right is None


def test_a_classifier_learns_and_its_features_tell_classes_apart():
    generator = stream(5)
    labels = torch.arange(300) % 2
    pictures = 0.1 * torch.rand(300, 1, 12, 12, generator=generator)
    pictures[labels == 1, :, :6] += 0.8
    judge = train_classifier(pictures[:200], labels[:200], (pictures[200:250], labels[200:250]), epochs=4)
    assert (judge_images(judge, pictures[250:]).argmax(-1) == labels[250:]).float().mean() > 0.95
    found = extract_features(judge, pictures)
    alike = frechet_distance(found[labels == 0][::2], found[labels == 0][1::2])
    assert frechet_distance(found[labels == 0], found[labels == 1]) > 10 * alike
