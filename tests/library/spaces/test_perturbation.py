"""The noise of perturbed arg maxes: its moments, and the derivative of its log-density."""

import pytest
import torch
from scipy.stats import kstest

import hardmax as hm
from hardmax.random import make_generator

KINDS = ("gumbel", "normal", "multiplicative")
SCORES = torch.tensor([-1.0, -1.3, -0.8], dtype=torch.float64)


def draw(perturbation: hm.Perturbation, count: int) -> torch.Tensor:
    return perturbation.draw((count, 3), make_generator(0, perturbation.kind), dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_the_slope_is_the_derivative_of_the_log_density(kind, scale):
    """E[h(perturbed) slope] is the derivative of E[h(perturbed)], for a smooth h whose derivative is known."""
    perturbation, scores = hm.Perturbation(kind, scale), SCORES.clone().requires_grad_()
    noise = draw(perturbation, 400_000)
    perturbed = perturbation.apply(scores, noise)
    (exact,) = torch.autograd.grad(perturbed.sin().mean(0).sum(), scores)  # by reparametrisation
    terms = (perturbed.sin() - perturbed.sin().mean(0)).detach() * perturbation.slope(SCORES, noise)
    error = (terms.mean(0) - exact).abs() / (terms.std(0) / len(noise) ** 0.5)
    assert (error < 5).all(), error
    assert (exact.abs() > 0.05).any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_of_another_scale_is_caught(kind):
    perturbation = hm.Perturbation(kind, 0.5)
    noise = draw(perturbation, 100_000)
    terms = perturbation.apply(SCORES, noise) * perturbation.slope(SCORES, noise)  # the derivative of the mean is one
    wrong = perturbation.apply(SCORES, noise) * hm.Perturbation(kind, 0.6).slope(SCORES, noise)
    spread = terms.std(0) / len(noise) ** 0.5
    assert ((terms.mean(0) - 1.0).abs() < 5 * spread).all()
    assert ((wrong.mean(0) - 1.0).abs() > 5 * spread).any()


def test_multiplicative_noise_keeps_signs_and_the_mean():
    perturbation = hm.Perturbation("multiplicative", 0.7)
    perturbed = perturbation.apply(SCORES, draw(perturbation, 200_000))
    assert (perturbed < 0).all()
    assert ((perturbed.mean(0) - SCORES).abs() < 5 * perturbed.std(0) / 200_000**0.5).all()
    assert perturbation.slope(torch.zeros(3), torch.ones(2, 3)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("arguments", [("normal", 0.0), ("normal", float("nan"))])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(hm.ArgumentError, match="scale must be"):
        hm.Perturbation(*arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_the_distribution_function_of_noise_is_uniform(kind):
    perturbation = hm.Perturbation(kind, 0.4)
    uniform = perturbation.log_cdf(draw(perturbation, 20_000)).exp().flatten()
    assert kstest(uniform, "uniform").pvalue > 1e-6
