"""Partial volume, voxels that two tissues share: the density, its EM, planted errors, and its benefit."""

from dataclasses import replace

import pytest
import torch

from hardmax.applications.segmentation.tissues import partial_volume
from hardmax.applications.segmentation.tissues.em import PseudoCounts
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, mixing_matrix
from hardmax.applications.segmentation.tissues.partial_volume import fit_partial_volume, log_density
from hardmax.errors import ArgumentError

MIXINGS = {
    "one each": mixing_matrix([0, 1, 2]),
    "shared": mixing_matrix([0, 1, 1, 2]),
    "several": mixing_matrix([[0, 1], 1, 2]),
}
MEANS = torch.tensor([0.0, 3.0, 5.0], dtype=torch.float64)


def tissues(mixing, seed=None):
    """Return the Gaussians that `scan` draws from, or random ones."""
    if seed is None:
        return Gaussians(MEANS, torch.tensor([0.5, 0.4, 0.6], dtype=torch.float64), mixing.double())
    generator = torch.Generator().manual_seed(seed)
    means = 3 * torch.randn(3, generator=generator, dtype=torch.float64)
    return Gaussians(means, 0.5 + torch.rand(3, generator=generator, dtype=torch.float64), mixing.double())


def scan(mixing, seed=0, voxels=400):
    """Draw labels twice from a prior, and the voxel from both; return intensities, prior and the larger label."""
    generator, model = torch.Generator().manual_seed(seed), tissues(mixing)
    prior = (2 * torch.randn(len(mixing), voxels, generator=generator, dtype=torch.float64)).softmax(0)
    first, second = torch.multinomial(prior.T, 2, replacement=True, generator=generator).T
    k, other = (torch.multinomial(model.mixing[m], 1, generator=generator)[:, 0] for m in (first, second))
    t = 0.5 + 0.5 * torch.rand(voxels, generator=generator, dtype=torch.float64)
    noise = model.deviations[k] * torch.randn(voxels, generator=generator, dtype=torch.float64)
    return t * model.means[k] + (1 - t) * model.means[other] + noise, prior, first


def pseudo_counts(gaussians, count=5.0):
    return PseudoCounts(torch.full_like(gaussians.means, count), MEANS, torch.full_like(MEANS, 0.7))


@pytest.mark.parametrize("name", MIXINGS)
def test_densities_integrate_to_one(name):
    model = tissues(MIXINGS[name])
    x = torch.linspace(-8, 14, 4001, dtype=torch.float64)
    prior = torch.rand(len(model.mixing), 1, dtype=torch.float64).softmax(0).expand(-1, len(x))
    mass = torch.trapezoid(log_density(x, model, prior).exp(), x)
    torch.testing.assert_close(mass, torch.ones(len(prior), dtype=torch.float64))


@pytest.mark.parametrize("name", MIXINGS)
def test_density_is_that_of_two_draws(name):
    """Against Monte Carlo over the other label, its Gaussian and the part: z-test of the density at a few points."""
    model, draws = tissues(MIXINGS[name]), 400_000
    generator = torch.Generator().manual_seed(3)
    x = torch.tensor([-0.5, 1.2, 2.4, 3.9, 5.5], dtype=torch.float64)
    prior = torch.tensor([0.5, 0.1, 0.1, 0.3] if name == "shared" else [0.5, 0.2, 0.3], dtype=torch.float64)
    other = model.mixing[torch.multinomial(prior, draws, replacement=True, generator=generator)]
    other = torch.multinomial(other, 1, generator=generator)[:, 0]
    parts = torch.tensor(partial_volume._PARTS, dtype=torch.float64)
    t = parts[torch.randint(len(parts), (draws,), generator=generator)]
    density = log_density(x, model, prior[:, None].expand(-1, len(x))).exp()
    for m, row in enumerate(model.mixing):
        own = torch.multinomial(row, draws, replacement=True, generator=generator)
        means = t * model.means[own] + (1 - t) * model.means[other]
        values = torch.distributions.Normal(means, model.deviations[own]).log_prob(x[:, None]).exp()
        z = (values.mean(1) - density[m]) / (values.std(1) / draws**0.5)
        assert z.abs().max() < 5.5


def test_three_parts_are_near_to_all_of_them():
    """The midpoints stand in for t uniform on (1/2, 1): within 0.002 of a density of up to 0.4."""
    model = Gaussians(torch.tensor([0.0, 3.0]).double(), torch.ones(2).double(), mixing_matrix([0, 1]).double())
    x = torch.linspace(-2, 3.5, 12, dtype=torch.float64)
    prior = torch.tensor([[0.4], [0.6]], dtype=torch.float64).expand(-1, len(x))
    t = torch.linspace(0.5, 1, 20001, dtype=torch.float64)[:, None]
    values = torch.distributions.Normal(3 * (1 - t), 1.0).log_prob(x).exp()
    shared = torch.trapezoid(values, t, dim=0) / 0.5
    pure = torch.distributions.Normal(0.0, 1.0).log_prob(x).exp()
    torch.testing.assert_close(log_density(x, model, prior)[0].exp(), 0.4 * pure + 0.6 * shared, rtol=0, atol=2e-3)


def test_certain_places_are_pure():
    for mixing in MIXINGS.values():
        model, x = tissues(mixing), torch.linspace(-1, 6, 9, dtype=torch.float64)
        for m in range(len(mixing)):
            if (mixing[m] == 1).any():
                certain = torch.zeros(len(mixing), len(x), dtype=torch.float64)
                certain[m] = 1
                torch.testing.assert_close(log_density(x, model, certain)[m], model.log_density(x)[m])


def test_a_border_is_no_third_tissue():
    """Between the dark and the bright lies no grey, unless the prior has grey there."""
    model = Gaussians(torch.tensor([0.0, 4.0, 8.0]), torch.full((3,), 0.6), mixing_matrix([0, 1, 2]))
    prior = torch.tensor([[0.475], [0.05], [0.475]]).expand(-1, 3)
    x = torch.tensor([3.2, 4.8, 4.0])
    pure = (prior.log() + model.log_density(x)).argmax(0)
    shared = (prior.log() + log_density(x, model, prior)).argmax(0)
    assert pure.tolist() == [1, 1, 1]
    assert shared[:2].tolist() == [0, 2]
    grey = torch.tensor([[0.1], [0.8], [0.1]]).expand(-1, 3)
    assert (grey.log() + log_density(x, model, grey)).argmax(0).tolist() == [1, 1, 1]


def test_gradients_for_the_prior():
    x, prior, _ = scan(MIXINGS["several"], voxels=6)
    scores = prior.log().requires_grad_()
    model = tissues(MIXINGS["several"])
    assert torch.autograd.gradcheck(lambda s: log_density(x, model, s.softmax(0)), scores)


def test_many_voxels_are_as_few(monkeypatch):
    x, prior, _ = scan(MIXINGS["shared"])
    expected = log_density(x, tissues(MIXINGS["shared"]), prior)
    monkeypatch.setattr(partial_volume, "_CHUNK", 7)
    torch.testing.assert_close(log_density(x, tissues(MIXINGS["shared"]), prior), expected)


def check_monotone(name, floor=0.01):
    for seed in (None, *range(4)):  # from the truth, which wrong steps leave, and from random Gaussians
        x, prior, _ = scan(MIXINGS[name], seed or 0)
        start = tissues(MIXINGS[name], seed)
        start = replace(start, deviations=start.deviations.clamp_min(floor))
        fit = fit_partial_volume(x, prior, start, pseudo_counts(start), floor=floor, rounds=15, tolerance=0)
        objectives = torch.tensor(fit.objectives, dtype=torch.float64)
        assert (objectives.diff() >= -1e-9 * objectives[1:].abs()).all()
        joint = (prior.log() + log_density(x, fit.gaussians, prior)).logsumexp(0).sum()
        assert objectives[-1].item() == pytest.approx(float(joint + pseudo_counts(start).log_prior(fit.gaussians)))
        assert (fit.gaussians.deviations >= floor).all()


@pytest.mark.parametrize("name", MIXINGS)
@pytest.mark.parametrize("floor", [0.01, 0.8])
def test_rounds_never_lower_the_objective(name, floor):
    check_monotone(name, floor)


def _without_the_smaller_part(statistics):
    return replace(
        statistics,
        counts=statistics.counts * torch.eye(3),
        sums=statistics.sums * torch.eye(3),
        squares=statistics.squares * 1.5,
    )


def _parts_exchanged(statistics):
    return replace(statistics, counts=statistics.counts.mT, sums=statistics.sums.mT, squares=statistics.squares.mT)


def _shares_squared(statistics):
    return replace(statistics, shares=statistics.shares.square())


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (_without_the_smaller_part, "one each"),
        (_parts_exchanged, "one each"),
        (_shares_squared, "several"),
    ],
)
def test_wrong_steps_are_caught(monkeypatch, wrong, name):
    right = partial_volume._m_step
    monkeypatch.setattr(partial_volume, "_m_step", lambda statistics, *rest: right(wrong(statistics), *rest))
    with pytest.raises(AssertionError):
        check_monotone(name)


@pytest.mark.parametrize("name", MIXINGS)
def test_fixed_point_is_a_stationary_point(name):
    x, prior, _ = scan(MIXINGS[name])
    start = tissues(MIXINGS[name])
    end = fit_partial_volume(x, prior, start, pseudo_counts(start), floor=1e-3, rounds=1500, tolerance=0).gaussians
    means, deviations = (t.clone().requires_grad_() for t in (end.means, end.deviations))
    model = Gaussians(means, deviations, end.mixing)
    value = (prior.log() + log_density(x, model, prior)).logsumexp(0).sum() + pseudo_counts(start).log_prior(model)
    value.backward()
    assert means.grad.abs().max() < 1e-5
    assert deviations.grad.abs().max() < 1e-5


@pytest.mark.parametrize("name", ["one each", "several"])
def test_tissues_are_found_again(name):
    """From 40,000 voxels, of which most are shared: pure Gaussians would be drawn together."""
    x, prior, _ = scan(MIXINGS[name], voxels=40_000)
    start = Gaussians(MEANS + 0.5, torch.full((3,), 1.0).double(), MIXINGS[name].double())
    fitted = fit_partial_volume(x, prior, start, pseudo_counts(start), floor=0.01, rounds=300, tolerance=0).gaussians
    true = tissues(MIXINGS[name])
    torch.testing.assert_close(fitted.means, true.means, atol=0.06, rtol=0)
    torch.testing.assert_close(fitted.deviations, true.deviations, atol=0.05, rtol=0)
    torch.testing.assert_close(fitted.mixing, true.mixing, atol=0.06, rtol=0)


def test_the_larger_part_is_found_more_often_than_by_pure_voxels():
    x, prior, first = scan(MIXINGS["one each"], voxels=20_000)
    model = tissues(MIXINGS["one each"])
    shared, pure = (
        ((prior.log() + density).argmax(0) == first).double().mean()
        for density in (log_density(x, model, prior), model.log_density(x))
    )
    assert shared > pure + 0.01


def test_what_cannot_be_fitted():
    x, prior, _ = scan(MIXINGS["one each"])
    start = tissues(MIXINGS["one each"])
    with pytest.raises(ArgumentError, match="not finite"):
        fit_partial_volume(torch.where(x > 3, torch.nan, x), prior, start, pseudo_counts(start), floor=0.1)
