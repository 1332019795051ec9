"""Metrics of completions: they equal closed forms, and worse completions get worse numbers."""

import math

import pytest
import torch

from hardmax.metrics.images import count_classes, measure_pairwise_distance, psnr, ssim
from hardmax.metrics.judges import extract_features, frechet_distance, judge_images, train_classifier
from hardmax.random import make_generator

TRUTH = torch.rand(4, 3, 20, 24, generator=make_generator(0))
HIDDEN = torch.zeros(4, 1, 20, 24, dtype=torch.bool)
HIDDEN[:, :, 5:12, 6:20] = True


def test_only_hidden_pixels_count():
    off = torch.where(HIDDEN, TRUTH + 0.1, TRUTH)
    assert psnr(off, TRUTH, HIDDEN) == pytest.approx(20.0, abs=1e-3)
    assert psnr(TRUTH, TRUTH, HIDDEN) == pytest.approx(100.0)
    elsewhere = torch.where(HIDDEN, TRUTH, TRUTH + 0.1)
    assert psnr(elsewhere, TRUTH, HIDDEN) == pytest.approx(100.0)


def test_ssim_is_that_of_its_definition():
    """Compare with one window computed by hand, in the middle of an image with a hole of one pixel."""
    x, y = (torch.rand(1, 1, 11, 11, generator=make_generator(i), dtype=torch.float64) for i in (1, 2))
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
    noise = torch.randn(TRUTH.shape, generator=make_generator(3))
    values = [ssim(TRUTH + scale * noise, TRUTH, HIDDEN).mean().item() for scale in (0.0, 0.05, 0.2, 0.5)]
    assert values[0] == pytest.approx(1.0)
    assert values == sorted(values, reverse=True)


def test_images_of_a_diverged_model_have_no_distance():
    broken = torch.full((4, 3), torch.nan)
    assert math.isnan(frechet_distance(broken, torch.randn(4, 3)))
    assert count_classes(broken[None], torch.zeros(4, dtype=torch.int64)).right == 0.0


def test_frechet_of_gaussians():
    """Against the formula for diagonal covariances: |m1 - m2|^2 + sum (s1 - s2)^2."""
    generator = make_generator(4)
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
    classes = count_classes(logits, torch.tensor([0, 2]))
    assert classes.distinct == 1.5
    assert classes.entropy == pytest.approx((0 + 0.6365) / 2, abs=1e-4)
    assert classes.confident == pytest.approx(5 / 6)
    assert classes.right == 0.5
    assert count_classes(logits).right is None


def test_a_classifier_learns_and_its_features_distinguish_classes():
    generator = make_generator(5)
    labels = torch.arange(300) % 2
    images = 0.1 * torch.rand(300, 1, 12, 12, generator=generator)
    images[labels == 1, :, :6] += 0.8
    judge = train_classifier(images[:200], labels[:200], (images[200:250], labels[200:250]), epochs=4)
    assert (judge_images(judge, images[250:]).argmax(-1) == labels[250:]).float().mean() > 0.95
    features = extract_features(judge, images)
    within_class = frechet_distance(features[labels == 0][::2], features[labels == 0][1::2])
    assert frechet_distance(features[labels == 0], features[labels == 1]) > 10 * within_class


def test_similarity_of_images_smaller_than_the_window():
    truth, hidden = torch.rand(3, 1, 4, 7), torch.ones(3, 1, 4, 7, dtype=torch.bool)
    torch.testing.assert_close(ssim(truth, truth, hidden), torch.ones(3))
    assert (ssim(1 - truth, truth, hidden) < 0.5).all()
