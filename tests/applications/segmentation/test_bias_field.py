"""The bias field: exact least squares, mean zero, and EM that never lowers its objective unless a step is wrong."""

from dataclasses import replace

import pytest
import torch

from hardmax.applications.segmentation.tissues import bias_field as module
from hardmax.applications.segmentation.tissues.bias_field import (
    bias_step,
    fit_with_bias,
    log_intensity,
    make_zero_field,
)
from hardmax.applications.segmentation.tissues.em import Expectation, PseudoCounts, e_step, fit_gaussians
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, mixing_matrix, posterior
from hardmax.applications.segmentation.tissues.initialization import start_from_prior
from hardmax.errors import ArgumentError


def biased_scan(seed=0, voxels=1500, dims=3, strength=0.4):
    """Return log intensities of two tissues under a known smooth field, with points, prior, labels and the field."""
    generator = torch.Generator().manual_seed(seed)
    points = 180 * torch.rand(voxels, dims, generator=generator, dtype=torch.float64) - 60
    truth = make_zero_field(points)
    truth = replace(truth, coefficients=strength * torch.randn(len(truth.offset), generator=generator).double())
    s = torch.randint(2, (voxels,), generator=generator)
    y = 4.0 + 0.5 * s + truth(points) + 0.08 * torch.randn(voxels, generator=generator, dtype=torch.float64)
    prior = torch.full((2, voxels), 0.25, dtype=torch.float64)
    prior[s, torch.arange(voxels)] = 0.75
    return y, points, prior, s, truth


def check_rises(step, monkeypatch):
    """EM with this bias step must not lower its objective."""
    monkeypatch.setattr(module, "bias_step", step)
    for seed in range(3):
        y, points, prior, _, _ = biased_scan(seed)
        start = start_from_prior(y, prior, mixing_matrix([0, 1]))
        pseudo = PseudoCounts(torch.full((2,), 10.0).double(), start.means, start.deviations)
        weights = torch.rand(len(y), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for options in ({}, {"pseudo": pseudo, "floor": 0.05}, {"weights": weights}):
            field = make_zero_field(points, options.get("weights"))
            fit, _ = fit_with_bias(y, prior, start, field, points, rounds=12, **options)
            gains = torch.tensor(fit.objectives).diff()
            assert (gains > -1e-7).all(), gains
            assert gains.sum() > 100


def test_rounds_never_lower_the_objective(monkeypatch):
    check_rises(bias_step, monkeypatch)


def wrong_sign(y, expectation, gaussians, field, basis, **options):
    out = bias_step(y, expectation, gaussians, field, basis, **options)
    return replace(out, coefficients=-out.coefficients)


def swapped_tissues(y, expectation, gaussians, field, basis, **options):
    """Wrong responsibilities: those of the other tissue."""
    swapped = replace(expectation, responsibilities=expectation.responsibilities.flip(0))
    return bias_step(y, swapped, gaussians, field, basis, **options)


@pytest.mark.parametrize("wrong", [wrong_sign, swapped_tissues])
def test_wrong_steps_are_caught(wrong, monkeypatch):
    with pytest.raises(AssertionError):
        check_rises(wrong, monkeypatch)


def test_step_solves_its_least_squares():
    """The gradient of the expected objective in the coefficients is zero."""
    y, points, prior, _, _ = biased_scan()
    field = make_zero_field(points)
    gaussians = start_from_prior(y, prior, mixing_matrix([0, 1]))
    expectation, basis = e_step(y, prior, gaussians), field.basis(points)
    for ridge in (1.0, 100.0):
        c = bias_step(y, expectation, gaussians, field, basis, ridge=ridge).coefficients.requires_grad_()
        residual = y - basis @ c - gaussians.means[:, None]
        loss = (expectation.responsibilities * residual.square() / gaussians.deviations.square()[:, None]).sum() / 2
        (loss + ridge / 2 * c.square().sum()).backward()
        assert c.grad.abs().max() < 1e-7


def test_field_is_found_and_helps():
    y, points, prior, s, truth = biased_scan(voxels=6000)
    start = start_from_prior(y, prior, mixing_matrix([0, 1]))
    fit, field = fit_with_bias(y, prior, start, make_zero_field(points), points, rounds=60)
    error, size = (field(points) - truth(points)).std(), truth(points).std()
    assert error < 0.05 * size
    plain = fit_gaussians(y, prior, start, rounds=60).gaussians
    wrong_before = (posterior(y, prior.log(), plain).argmax(0) != s).double().mean()
    wrong_after = (posterior(y - field(points), prior.log(), fit.gaussians).argmax(0) != s).double().mean()
    assert wrong_after < 0.1 * wrong_before


def test_field_has_mean_zero():
    y, points, prior, _, _ = biased_scan()
    weights = torch.rand(len(y), dtype=torch.float64)
    start = start_from_prior(y, prior, mixing_matrix([0, 1]))
    _, field = fit_with_bias(y, prior, start, make_zero_field(points, weights), points, weights=weights)
    assert abs((weights * field(points)).sum()) < 1e-8 * len(y)
    assert field(points).abs().max() > 0.1


def test_a_shift_of_all_intensities_leaves_the_field():
    y, points, prior, _, _ = biased_scan()
    fields = []
    for shift in (0.0, 3.0):
        start = start_from_prior(y + shift, prior, mixing_matrix([0, 1]))
        fields.append(
            fit_with_bias(y + shift, prior, start, make_zero_field(points), points, rounds=10)[1].coefficients
        )
    torch.testing.assert_close(*fields)


def test_a_scan_without_bias_gets_none():
    y, points, prior, _, _ = biased_scan(strength=0.0, voxels=6000)
    start = start_from_prior(y, prior, mixing_matrix([0, 1]))
    _, field = fit_with_bias(y, prior, start, make_zero_field(points), points, rounds=40)
    assert field(points).abs().max() < 0.03


@pytest.mark.parametrize(("dims", "order", "terms"), [(2, 3, 9), (3, 3, 19), (3, 2, 9), (3, 1, 3)])
def test_terms_and_polynomials(dims, order, terms):
    """The basis spans all polynomials up to the order, and none beyond."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(400, dims, generator=generator, dtype=torch.float64)
    field = make_zero_field(points, order=order)
    basis = torch.cat([field.basis(points), torch.ones(400, 1).double()], 1)
    assert basis.shape[1] == terms + 1
    inside, outside = points[:, 0] ** order, points[:, 0] ** (order + 1)
    for target, fits in ((inside, True), (outside, False)):
        solution = torch.linalg.lstsq(basis, target[:, None]).solution
        assert ((basis @ solution)[:, 0] - target).abs().max().item() < 1e-8 or not fits
        assert fits or ((basis @ solution)[:, 0] - target).abs().max() > 1e-3


def test_points_outside_are_moved_to_the_border():
    points = torch.rand(50, 2, dtype=torch.float64)
    field = replace(make_zero_field(points), coefficients=torch.ones(9).double())
    low, high = points.amin(0), points.amax(0)
    torch.testing.assert_close(field(torch.stack([low - 5, high + 5])), field(torch.stack([low, high])))


def test_few_voxels_have_one_solution():
    points = torch.rand(4, 3, dtype=torch.float64)
    field = make_zero_field(points)
    gaussians = Gaussians(torch.zeros(1).double(), torch.ones(1).double(), torch.ones(1, 1).double())
    expectation = Expectation(torch.ones(1, 4).double(), torch.full((1, 1), 4.0).double(), torch.zeros(4).double())
    assert (
        bias_step(torch.rand(4).double(), expectation, gaussians, field, field.basis(points))
        .coefficients.isfinite()
        .all()
    )


def test_bad_input():
    with pytest.raises(ArgumentError, match="order"):
        make_zero_field(torch.rand(5, 3), order=0)
    with pytest.raises(ArgumentError, match="positive"):
        log_intensity(torch.rand(5), 0.0)
    assert log_intensity(torch.tensor([0.0, 1.0]), 0.5).tolist() == pytest.approx([-0.6931, 0.0], abs=1e-4)
