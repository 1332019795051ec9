"""EM for the Gaussians: objectives that never fall, planted errors, and starts that assume no contrast."""

import itertools
from dataclasses import replace

import pytest
import torch

from hardmax.applications.segmentation.tissues.em import (
    PseudoCounts,
    e_step,
    em_objective,
    fit_gaussians,
    label_e_step,
    m_step,
)
from hardmax.applications.segmentation.tissues.gaussians import Gaussians, jensen_bound, log_likelihood, mixing_matrix
from hardmax.applications.segmentation.tissues.initialization import (
    deviation_floor,
    fit_from_starts,
    start_from_prior,
    start_from_quantiles,
)
from hardmax.errors import ArgumentError

MIXINGS = {
    "one each": mixing_matrix([0, 1, 2]),
    "shared": mixing_matrix([0, 1, 1]),
    "several": mixing_matrix([[0, 1], 2, 3]),
    "overlapping": mixing_matrix([[0, 1], 1, 2]),
}


def scan(seed=0, voxels=300, labels=3):
    """Return intensities of three tissues, and a prior that is right more often than not."""
    generator = torch.Generator().manual_seed(seed)
    s = torch.randint(labels, (voxels,), generator=generator)
    x = 2.0 * s + 0.7 * torch.randn(voxels, generator=generator, dtype=torch.float64)
    scores = torch.randn(labels, voxels, generator=generator, dtype=torch.float64)
    scores[s, torch.arange(voxels)] += 1.5
    return x, scores.softmax(0), s


def random_gaussians(mixing, seed):
    generator = torch.Generator().manual_seed(seed)
    count = mixing.shape[1]
    means = 3 * torch.randn(count, generator=generator, dtype=torch.float64)
    return Gaussians(means, 0.5 + torch.rand(count, generator=generator, dtype=torch.float64), mixing.double())


def check_monotone(step, mixing, *, weights=None, pseudo=None, floor=0.0):
    """EM by this M-step must not lower the objective, from any start."""
    for seed in range(5):
        x, prior, _ = scan(seed)
        gaussians, before = random_gaussians(mixing, seed), -float("inf")
        for _ in range(15):
            expectation = e_step(x, prior, gaussians, weights)
            now = em_objective(expectation, gaussians, weights, pseudo)
            assert now >= before - 1e-9 * abs(now)
            before = now
            gaussians = step(x, expectation, gaussians, weights=weights, pseudo=pseudo, floor=floor)
            assert (gaussians.deviations >= floor).all()


@pytest.mark.parametrize("name", MIXINGS)
@pytest.mark.parametrize("pseudo", [False, True])
@pytest.mark.parametrize("floor", [0.0, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_rounds_never_lower_the_objective(name, pseudo, floor, weighted):
    mixing = MIXINGS[name]
    count = mixing.shape[1]
    counts = PseudoCounts(
        torch.full((count,), 20.0).double(), torch.arange(count).double(), torch.full((count,), 0.8).double()
    )
    weights = torch.rand(300, generator=torch.Generator().manual_seed(9), dtype=torch.float64) if weighted else None
    check_monotone(m_step, mixing, weights=weights, pseudo=counts if pseudo else None, floor=floor)


def shifted(x, expectation, gaussians, **options):
    """Wrong responsibilities: shifted by one Gaussian."""
    return m_step(
        x, replace(expectation, responsibilities=expectation.responsibilities.roll(1, 0)), gaussians, **options
    )


def unnormalised(x, expectation, gaussians, **options):
    """Wrong responsibilities: the squares, which trust the better label too much."""
    return m_step(x, replace(expectation, responsibilities=expectation.responsibilities.square()), gaussians, **options)


def deviation_for_variance(x, expectation, gaussians, **options):
    out = m_step(x, expectation, gaussians, **options)
    return replace(out, deviations=out.deviations.square().clamp_min(1e-3))


@pytest.mark.parametrize("wrong", [shifted, unnormalised, deviation_for_variance])
def test_wrong_steps_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_monotone(wrong, MIXINGS["one each"])


def without_the_distance_of_means(x, expectation, gaussians, *, pseudo, **options):
    """Pseudo-voxels whose own mean is forgotten in the variance."""
    out = m_step(x, expectation, gaussians, pseudo=pseudo, **options)
    count = expectation.responsibilities.sum(1) + pseudo.counts
    missing = pseudo.counts * (pseudo.means - out.means).square() / count
    return replace(out, deviations=(out.deviations.square() - missing).clamp_min(1e-6).sqrt())


def test_pseudo_counts_without_their_distance_are_caught():
    far = PseudoCounts(torch.full((3,), 100.0).double(), torch.tensor([9.0, 9.0, 9.0]).double(), torch.ones(3).double())
    check_monotone(m_step, MIXINGS["one each"], pseudo=far)
    with pytest.raises(AssertionError):
        check_monotone(without_the_distance_of_means, MIXINGS["one each"], pseudo=far)


def test_e_step_is_the_posterior_of_the_gaussians():
    x, prior, _ = scan(voxels=40)
    for mixing in MIXINGS.values():
        gaussians = random_gaussians(mixing, 0)
        weights = torch.rand(40, dtype=torch.float64)
        expectation = e_step(x, prior, gaussians, weights)
        joint = prior[:, None] * gaussians.mixing[:, :, None] * gaussians.log_components(x).exp()  # [M, K, N]
        torch.testing.assert_close(expectation.log_likelihood, joint.sum((0, 1)).log())
        torch.testing.assert_close(expectation.log_likelihood, log_likelihood(x, prior.log(), gaussians))
        torch.testing.assert_close(expectation.responsibilities, joint.sum(0) / joint.sum((0, 1)))
        torch.testing.assert_close(expectation.shares, (joint / joint.sum((0, 1)) * weights).sum(2))


@pytest.mark.parametrize("name", MIXINGS)
def test_the_other_e_step_raises_jensens_bound(name):
    """Rounds with the exact E-step may lower it: which objective rises depends on the E-step."""
    mixing = MIXINGS[name]
    fell = 0
    for seed in range(5):
        x, prior, _ = scan(seed)
        gaussians, other = random_gaussians(mixing, seed), random_gaussians(mixing, seed)
        before = before_other = -float("inf")
        for _ in range(15):
            expectation = label_e_step(x, prior, gaussians)
            torch.testing.assert_close(expectation.log_likelihood, jensen_bound(x, prior.log(), gaussians))
            now, now_other = float(expectation.log_likelihood.sum()), float(jensen_bound(x, prior.log(), other).sum())
            assert now >= before - 1e-9 * abs(now)
            fell += now_other < before_other - 1e-6
            before, before_other = now, now_other
            gaussians = m_step(x, expectation, gaussians)
            other = m_step(x, e_step(x, prior, other), other)
        torch.testing.assert_close(expectation.responsibilities.sum(0), torch.ones_like(x))
    assert fell > 0


def test_one_round_is_the_maximum_of_jensens_bound():
    x, prior, _ = scan()
    start = random_gaussians(MIXINGS["shared"], 0)
    once = m_step(x, label_e_step(x, prior, start), start)
    means, deviations = (t.clone().requires_grad_() for t in (once.means, once.deviations))
    jensen_bound(x, prior.log(), Gaussians(means, deviations, once.mixing)).sum().backward()
    assert means.grad.abs().max() < 1e-9
    assert deviations.grad.abs().max() < 1e-9


def test_fixed_point_is_a_stationary_point():
    """At the end of EM the gradient of the objective is zero."""
    x, prior, _ = scan()
    pseudo = PseudoCounts(torch.full((3,), 5.0).double(), torch.zeros(3).double(), torch.ones(3).double())
    fit = fit_gaussians(x, prior, random_gaussians(MIXINGS["shared"], 1), rounds=2000, tolerance=0)
    means, deviations = (t.clone().requires_grad_() for t in (fit.gaussians.means, fit.gaussians.deviations))
    log_likelihood(x, prior.log(), Gaussians(means, deviations, fit.gaussians.mixing)).sum().backward()
    assert means.grad.abs().max() < 1e-4
    assert deviations.grad.abs().max() < 1e-4
    fit = fit_gaussians(x, prior, random_gaussians(MIXINGS["one each"], 1), pseudo=pseudo, rounds=2000, tolerance=0)
    means, deviations = (t.clone().requires_grad_() for t in (fit.gaussians.means, fit.gaussians.deviations))
    gaussians = Gaussians(means, deviations, fit.gaussians.mixing)
    (log_likelihood(x, prior.log(), gaussians).sum() + pseudo.log_prior(gaussians)).backward()
    assert means.grad.abs().max() < 1e-4
    assert deviations.grad.abs().max() < 1e-4


def test_pseudo_counts_are_voxels():
    """Pseudo-counts have the same effect as voxels with a certain label."""
    x, prior, _ = scan()
    extra, count = torch.tensor([0.5, 1.5], dtype=torch.float64), 6  # three of each: mean 1, deviation 0.5
    pseudo = PseudoCounts(
        torch.tensor([count, 0.0, 0.0]).double(), torch.tensor([1.0, 0, 0]).double(), torch.tensor([0.5, 1, 1]).double()
    )
    more_x = torch.cat([x, extra.repeat(3)])
    certain = torch.zeros(3, count, dtype=torch.float64)
    certain[0] = 1
    start = random_gaussians(MIXINGS["one each"], 2)
    with_counts = fit_gaussians(x, prior, start, pseudo=pseudo, rounds=30, tolerance=0)
    with_voxels = fit_gaussians(more_x, torch.cat([prior, certain], 1), start, rounds=30, tolerance=0)
    torch.testing.assert_close(with_counts.gaussians.means, with_voxels.gaussians.means)
    torch.testing.assert_close(with_counts.gaussians.deviations, with_voxels.gaussians.deviations)


def test_a_label_without_voxels_starves_without_pseudo_counts():
    x, prior, _ = scan()
    prior = torch.cat([prior * (1 - 1e-12), torch.full((1, 300), 1e-12).double()])
    mixing = mixing_matrix([0, 1, 2, 3])
    start = random_gaussians(mixing, 3)
    pseudo = PseudoCounts(torch.full((4,), 30.0).double(), start.means, start.deviations)
    starved = fit_gaussians(x, prior, start, rounds=200, tolerance=0).gaussians
    kept = fit_gaussians(x, prior, start, pseudo=pseudo, rounds=200, tolerance=0).gaussians
    assert abs(kept.means[3] - start.means[3]) < 1e-6
    assert abs(kept.deviations[3] - start.deviations[3]) < 1e-6
    assert abs(starved.deviations[3] / start.deviations[3] - 1) > 0.2


def test_weights_of_zero_are_no_voxels():
    x, prior, _ = scan()
    weights = (torch.arange(300) < 200).double()
    start = random_gaussians(MIXINGS["several"], 0)
    masked = fit_gaussians(x, prior, start, weights=weights, rounds=5, tolerance=0)
    cut = fit_gaussians(x[:200], prior[:, :200], start, rounds=5, tolerance=0)
    torch.testing.assert_close(masked.gaussians.means, cut.gaussians.means)
    torch.testing.assert_close(masked.gaussians.mixing, cut.gaussians.mixing)
    assert masked.objectives == pytest.approx(cut.objectives)


# ------------------------------------------------------------------------------------------- starts
def test_prior_resolves_permutations_of_the_labels():
    """All permutations of Gaussians and labels explain a scan equally well; the prior selects the right one."""
    x, prior, _ = scan(voxels=2000)
    values = {}
    for order in itertools.permutations(range(3)):
        start = Gaussians(
            2.0 * torch.tensor(order).double(), torch.full((3,), 0.7).double(), MIXINGS["one each"].double()
        )
        flat = torch.full_like(prior, 1 / 3)
        values[order] = float(log_likelihood(x, prior.log(), start).sum())
        assert float(log_likelihood(x, flat.log(), start).sum()) == pytest.approx(
            float(log_likelihood(x, flat.log(), replace(start, means=start.means.flip(0))).sum())
        )
    assert max(values, key=values.get) == (0, 1, 2)
    assert values[0, 1, 2] > sorted(values.values())[-2] + 100


@pytest.mark.parametrize("contrast", ["plain", "inverted", "gamma", "middle bright"])
def test_starts_assume_no_contrast(contrast):
    change = {
        "plain": lambda x: x,
        "inverted": lambda x: 10 - x,
        "gamma": lambda x: (x + 5).clamp_min(0) ** 2 / 10,
        "middle bright": lambda x: -(x - 2).abs(),
    }[contrast]
    x, prior, s = scan(seed=4, voxels=4000)
    x = change(x)
    prior = 0.6 * prior + 0.4 / 3  # blurred: every label is likely everywhere
    fit = fit_from_starts(x, prior, MIXINGS["one each"], generator=torch.Generator().manual_seed(0), rounds=100)
    for label in range(3):
        members = x[s == label]
        assert abs(fit.gaussians.means[label] - members.mean()) < 0.35 * members.std() + 0.1
    assert (torch.tensor(fit.objectives).diff() > -1e-6).all()


def test_best_fit_takes_the_best_start():
    x, prior, _ = scan(seed=5, voxels=1000)
    generator = torch.Generator().manual_seed(0)
    several = fit_from_starts(x, prior, MIXINGS["several"], starts=5, generator=generator, rounds=50)
    single = fit_gaussians(x, prior, start_from_prior(x, prior, MIXINGS["several"]), rounds=50)
    assert several.objectives[-1] >= single.objectives[-1] - 1e-9


def test_prior_start_of_a_negative_is_the_negative():
    x, prior, _ = scan()
    for mixing in (MIXINGS["one each"], MIXINGS["shared"]):
        one, other = start_from_prior(x, prior, mixing), start_from_prior(-x, prior, mixing)
        torch.testing.assert_close(one.means, -other.means)
        torch.testing.assert_close(one.deviations, other.deviations)


def test_gaussians_start_from_the_labels_that_have_no_other():
    x, prior, _ = scan()
    start = start_from_prior(x, prior, MIXINGS["overlapping"])
    torch.testing.assert_close(start.means[1], (prior[1] @ x) / prior[1].sum())
    torch.testing.assert_close(start.means[0], (prior[0] @ x) / prior[0].sum())
    apart = start_from_prior(x, prior, MIXINGS["several"]).means
    assert apart[0] < (prior[0] @ x) / prior[0].sum() < apart[1]


def test_random_start_is_at_quantiles():
    x, _, _ = scan(voxels=999)
    start = start_from_quantiles(x, mixing_matrix([0, 1, 2]), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        start.means.sort()[0], x.quantile(torch.tensor([1 / 6, 0.5, 5 / 6]).double()), atol=0.05, rtol=0
    )


def test_float32_on_many_voxels():
    generator = torch.Generator().manual_seed(0)
    chance = torch.rand(400_000, generator=generator)
    label = torch.rand(400_000, generator=generator) < chance
    x = 100 + 40 * label + 10 * torch.randn(400_000, generator=generator)
    prior = torch.stack([1 - chance, chance])
    fit = fit_from_starts(x, prior, mixing_matrix([0, 1]), floor=deviation_floor(x), rounds=50)
    torch.testing.assert_close(fit.gaussians.means, torch.tensor([100.0, 140.0]), atol=0.3, rtol=0)
    torch.testing.assert_close(fit.gaussians.deviations, torch.tensor([10.0, 10.0]), atol=0.3, rtol=0)


def test_floor_follows_the_contrast():
    x, _, _ = scan()
    assert deviation_floor(100 * x + 7) == pytest.approx(100 * deviation_floor(x))


def test_bad_input():
    x, prior, _ = scan()
    start = random_gaussians(MIXINGS["one each"], 0)
    with pytest.raises(ArgumentError, match="1 of 300 intensities are not finite"):
        fit_gaussians(torch.where(torch.arange(300) == 3, torch.nan, x), prior, start)
    with pytest.raises(ArgumentError, match="mask is empty"):
        fit_gaussians(x, prior, start, weights=torch.zeros(300).double())
    with pytest.raises(ArgumentError, match="starts"):
        fit_from_starts(x, prior, MIXINGS["one each"], starts=0)
