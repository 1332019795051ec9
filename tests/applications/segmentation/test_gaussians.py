"""The intensity model against sums over all segmentations, and the errors of the source."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from hardmax.applications.segmentation.tissues.gaussians import (
    Gaussians,
    jensen_bound,
    log_likelihood,
    mixing_matrix,
    posterior,
    tissue_mixing,
)
from hardmax.errors import ArgumentError


def problem(seed=0, labels=4, voxels=5):
    """Return intensities, a prior and Gaussians: two labels share one, and the first has two."""
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(voxels, generator=generator, dtype=torch.float64)
    log_prior = torch.randn(labels, voxels, generator=generator, dtype=torch.float64).log_softmax(0)
    means = 3 * torch.randn(3, generator=generator, dtype=torch.float64)
    deviations = torch.rand(3, generator=generator, dtype=torch.float64) + 0.3
    mixing = torch.tensor([[0.3, 0.7, 0.0], [0, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=torch.float64)
    return x, log_prior, Gaussians(means, deviations, mixing)


def list_segmentations(labels, voxels):
    """Return every segmentation, `[labels^voxels, voxels]`."""
    return torch.cartesian_prod(*[torch.arange(labels)] * voxels)


def enumerate_segmentations(x, log_prior, gaussians):
    """Return log p(s) and log p(x | s) of every segmentation, the Gaussians by torch."""
    normal = torch.distributions.Normal(gaussians.means[:, None], gaussians.deviations[:, None])
    density = (gaussians.mixing @ normal.log_prob(x).exp()).log()
    members, place = list_segmentations(*log_prior.shape), torch.arange(len(x))
    return log_prior[members, place].sum(1), density[members, place].sum(1)


def check_likelihood(likelihood):
    """Check an exact log-likelihood: it is the sum over segmentations."""
    for seed in range(20):
        x, log_prior, gaussians = problem(seed)
        log_s, log_x = enumerate_segmentations(x, log_prior, gaussians)
        torch.testing.assert_close(likelihood(x, log_prior, gaussians).sum(), (log_s + log_x).logsumexp(0))


def check_bound(bound):
    """Check Jensen's bound: the mean of log p(x | s) over all segmentations, never above the likelihood."""
    for seed in range(50):
        x, log_prior, gaussians = problem(seed)
        value = bound(x, log_prior, gaussians)
        assert (value <= log_likelihood(x, log_prior, gaussians) + 1e-12).all()
        log_s, log_x = enumerate_segmentations(x, log_prior, gaussians)
        torch.testing.assert_close(value.sum(), (log_s.exp() * log_x).sum())


def test_likelihood_is_the_sum_over_segmentations():
    check_likelihood(log_likelihood)


def test_jensen_is_the_mean_over_segmentations_and_a_bound():
    check_bound(jensen_bound)


def without_normaliser(x, log_prior, gaussians):
    """The error of the source: `-1/2 log(2 pi sigma^2)` dropped from the bound."""
    normaliser = -gaussians.deviations.log() - 0.5 * math.log(2 * math.pi)
    constant = gaussians.mixing @ normaliser  # exact where a label has one Gaussian, near enough elsewhere
    return jensen_bound(x, log_prior, gaussians) - (log_prior.exp() * constant[:, None]).sum(0)


def swapped(x, log_prior, gaussians):
    """The logarithm outside the wrong sum: a likelihood of the mean label."""
    return (log_prior.exp() * gaussians.log_density(x)).sum(0)


@pytest.mark.parametrize("wrong", [without_normaliser, log_likelihood])
def test_wrong_bounds_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_bound(wrong)


@pytest.mark.parametrize("wrong", [swapped, without_normaliser])
def test_wrong_likelihoods_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_likelihood(wrong)


def test_dropped_normaliser_can_exceed_the_likelihood():
    """Why it matters: without it the result is not a bound, and prefers wide Gaussians for everything."""
    gaussians = Gaussians(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 100.0]), mixing_matrix([0, 1]))
    x = torch.tensor([3.0])
    to_narrow, to_wide = torch.tensor([[0.99], [0.01]]).log(), torch.tensor([[0.01], [0.99]]).log()
    assert without_normaliser(x, to_wide, gaussians) > log_likelihood(x, to_wide, gaussians)
    assert without_normaliser(x, to_wide, gaussians) > without_normaliser(x, to_narrow, gaussians) + 4
    x = torch.tensor([1.0])
    assert jensen_bound(x, to_narrow, gaussians) > jensen_bound(x, to_wide, gaussians)


def test_gap_is_the_divergence_from_the_posterior():
    x, log_prior, gaussians = problem()
    gap = log_likelihood(x, log_prior, gaussians) - jensen_bound(x, log_prior, gaussians)
    after = posterior(x, log_prior, gaussians)
    torch.testing.assert_close(gap, (log_prior.exp() * (log_prior - after.log())).sum(0))
    torch.testing.assert_close(after.sum(0), torch.ones_like(x))


def test_equal_gaussians_leave_the_choice_to_the_prior():
    x, log_prior, _ = problem()
    same = Gaussians(torch.zeros(2).double(), torch.ones(2).double(), mixing_matrix([0, 0, 1, 1]).double())
    torch.testing.assert_close(posterior(x, log_prior, same), log_prior.exp())
    x, log_prior, gaussians = problem()
    ratio = posterior(x, log_prior, gaussians)[3] / posterior(x, log_prior, gaussians)[2]
    torch.testing.assert_close(ratio, (log_prior[3] - log_prior[2]).exp())


def test_gradients():
    x, log_prior, gaussians = problem()

    def value(scores, means, log_deviations):
        return log_likelihood(x, scores.log_softmax(0), Gaussians(means, log_deviations.exp(), gaussians.mixing))

    inputs = [log_prior.clone(), gaussians.means.clone(), gaussians.deviations.log()]
    assert gradcheck(value, [tensor.requires_grad_() for tensor in inputs])


def test_far_intensities_stay_finite():
    gaussians = Gaussians(torch.tensor([0.0, 1.0]), torch.full((2,), 1e-3), mixing_matrix([0, 1]))
    log_prior = torch.tensor([[-1e-6], [-200.0]]).requires_grad_()
    value = log_likelihood(torch.tensor([1e3]), log_prior, gaussians)
    value.sum().backward()
    assert value.isfinite().all()
    assert log_prior.grad.isfinite().all()


def test_grid_of_any_shape():
    x, log_prior, gaussians = problem(voxels=12)
    flat = log_likelihood(x, log_prior, gaussians)
    for shape in [(12,), (3, 4), (2, 3, 2)]:
        torch.testing.assert_close(
            log_likelihood(x.view(shape), log_prior.view(4, *shape), gaussians), flat.view(shape)
        )


def test_tissues_share_and_the_background_is_fluid():
    mixing = tissue_mixing([["background"], ["white"], ["grey"], ["fluid"], ["white"]])
    assert mixing.argmax(1).tolist() == [0, 1, 2, 0, 1]
    assert mixing.shape == (5, 3)


def test_bad_input():
    with pytest.raises(ArgumentError, match="without a gap"):
        mixing_matrix([0, 2])
    with pytest.raises(ArgumentError, match="needs a Gaussian"):
        mixing_matrix([0, []])
    with pytest.raises(ArgumentError, match="positive"):
        Gaussians(torch.zeros(1), torch.zeros(1), torch.ones(2, 1))
    with pytest.raises(ArgumentError, match="distribution"):
        Gaussians(torch.zeros(1), torch.ones(1), torch.full((2, 1), 0.5))
