"""The straight-through family: where each estimator is exact, its limits, and what all of them must satisfy."""

from dataclasses import dataclass

import pytest
import torch
from cases import Toy, gradients
from polynomials import (
    SPACES,
    estimates,
    exact_bias,
    gradient,
    jacobian,
    largest_z,
    normal,
    of_degree,
    of_every_z,
    slopes,
)

import hardmax as hm
from hardmax.estimators import attach_gradient
from hardmax.estimators.gumbel_softmax import GumbelRao
from hardmax.estimators.reinmax import ReinMax, ReinMaxCV, ReinMaxRao
from hardmax.estimators.straight_through import GappedStraightThrough
from hardmax.testing import assert_bias_vanishes

WITH_NOISE = [GumbelRao(3, 0.7), ReinMaxRao(3, 0.7), ReinMaxRao(2, 0.7, given_z=True), ReinMaxCV(0.8, 3, 0.7)]
NEW = [ReinMax(), ReinMax(2.0), GumbelRao(1), *WITH_NOISE, GappedStraightThrough(0.8, 0.7)]
FAMILY = [*NEW, hm.StraightThrough(), hm.StraightThrough(2.0), hm.GumbelSoftmax(0.5, hard=True)]


class TestBitsAreVariablesOfTwoValues:
    @pytest.mark.parametrize(
        "estimator",
        [ReinMax(), ReinMax(2.0), GappedStraightThrough(0.8, 0.7), hm.StraightThrough(2.0), GumbelRao(1, 0.7)],
        ids=str,
    )
    def test_same_gradient(self, estimator):
        bits, pairs, scores = hm.Binary(3), hm.Categorical(2, 3), normal(3)
        f = of_degree(bits, 3)
        noise = pairs.noise((64,), torch.Generator().manual_seed(0), dtype=torch.float64)
        single = scores.clone().requires_grad_()
        double = torch.stack([torch.zeros_like(scores), scores], -1).requires_grad_()
        bits_out = hm.expectation(f, single, bits, estimator, noise=noise[..., 1] - noise[..., 0])
        pairs_out = hm.expectation(lambda z: f(z[..., 1]), double, pairs, estimator, noise=noise)
        assert torch.equal(bits_out.z, pairs_out.z[..., 1])
        bits_out.value.backward()
        pairs_out.value.backward()
        torch.testing.assert_close(single.grad, double.grad[:, 1])
        torch.testing.assert_close(single.grad, -double.grad[:, 0])

    @pytest.mark.parametrize(
        "estimator", [GumbelRao(100_000), ReinMaxRao(100_000), ReinMaxRao(100_000, given_z=True)], ids=str
    )
    def test_in_the_mean(self, estimator):
        """Their draws are computed differently from the noise, but have the same distribution given z."""
        bits, pairs = hm.Binary(2), hm.Categorical(2, 2)
        scores, generator = normal(2), torch.Generator().manual_seed(0)
        double = torch.stack([torch.zeros_like(scores), scores], -1)
        for z in bits.enumerate(dtype=torch.float64):
            results = []
            for space, start, target in ((bits, scores, z), (pairs, double, torch.stack([1 - z, z], -1))):
                noise = space.noise((estimator.draws,), generator, dtype=torch.float64)
                noise[0] = 200 * (target - 0.5)
                leaf = start.clone().requires_grad_()
                sample = hm.sample(leaf, space, estimator, noise=noise)[0]
                assert torch.equal(sample, target)
                ones = sample if space is bits else sample[..., 1]
                results.append(torch.autograd.grad(ones.sum(), leaf)[0])
            torch.testing.assert_close(results[0], results[1][:, 1], rtol=0.02, atol=0)


@dataclass(frozen=True)
class Unfixed(hm.AbstractSampler):
    """A wrong GumbelRao of two draws: differentiates its conditional draw in full, or does not condition it at all."""

    tau: float
    conditioned: bool

    noises = 2

    def sample(self, scores, space, noise):
        first, other = noise.unflatten(0, (-1, 2)).unbind(1)
        hard = space.draw(scores.detach(), first)
        second = space.conditional(scores, other, hard) if self.conditioned else space.perturb(scores, other)
        soft = space.relax(space.perturb(scores, first), self.tau) + space.relax(second, self.tau)
        return hard, attach_gradient(hard, soft / 2)


def share_noise(noise):
    """Return noise whose conditional draws are all the same."""
    return torch.cat([noise[:1], noise[1:2].expand_as(noise[1:])])


class TestGumbelRao:
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_of_one_draw_is_straight_through_gumbel_softmax(self, space):
        scores, f = normal(6, *space.score_shape), Toy(space)
        noise = space.noise((4, 6), torch.Generator().manual_seed(0), dtype=torch.float64)
        estimate = gradients(f, scores, space, GumbelRao(1, 0.4), noise=noise)
        expected = gradients(f, scores, space, hm.GumbelSoftmax(0.4, hard=True), noise=noise)
        assert torch.equal(estimate[0].z, expected[0].z)
        torch.testing.assert_close(estimate[1:], expected[1:])

    @pytest.mark.parametrize("space", [hm.Binary(2), hm.Categorical(4), hm.Categorical(3, 2)], ids=str)
    def test_same_mean_less_variance(self, space):
        f, scores, tau, draws = of_degree(space, 3), normal(*space.score_shape), 0.5, 50_000
        plain = estimates(hm.GumbelSoftmax(tau, hard=True), f, scores, space, draws)
        averaged = estimates(GumbelRao(4, tau), f, scores, space, draws, seed=1)
        assert largest_z(plain, averaged) < 5.5
        assert averaged.var(0).sum() < 0.9 * plain.var(0).sum()
        for conditioned in (True, False):
            wrong = estimates(Unfixed(tau, conditioned), f, scores, space, draws, seed=1)
            assert largest_z(plain, wrong) > 5.5, conditioned

    def test_variance_falls_as_one_over_draws(self):
        """Var = A + B / draws: the variances of one and of two draws predict that of eight."""
        space, scores, draws = hm.Categorical(4), normal(4), 100_000
        f = of_degree(space, 2)
        one, two, eight, shared = (
            float(estimates(GumbelRao(count, 0.2), f, scores, space, draws, change=change).var(0).sum())
            for count, change in ((1, torch.clone), (2, torch.clone), (8, torch.clone), (8, share_noise))
        )
        expected = (2 * two - one) + 2 * (one - two) / 8
        assert eight == pytest.approx(expected, rel=0.08)
        assert shared > 1.5 * expected

    @pytest.mark.parametrize("space", [hm.Binary(2), hm.Categorical(3)], ids=str)
    def test_bias_vanishes_where_f_is_of_degree_two(self, space):
        """The bias of the mean, which is that of straight-through Gumbel-softmax."""
        arguments = {
            "ladder": lambda tau: hm.GumbelSoftmax(tau, hard=True),
            "space": space,
            "steps": (1.0, 0.25),
            "scores": normal(*space.score_shape),
            "draws": 240_000,
        }
        ladder = assert_bias_vanishes(**arguments, f=of_degree(space, 2))
        assert ladder.bias[0] > 0.1
        with pytest.raises(AssertionError, match="does not fall"):
            assert_bias_vanishes(**arguments, f=of_degree(space, 3))

    def test_is_the_mean_over_its_draws(self):
        """Two samples of three draws: which noise goes where, and what is held fixed."""
        space, scores, tau = hm.Categorical(4), normal(4), 0.6
        f = of_degree(space, 3)
        noise = space.noise((6,), torch.Generator().manual_seed(5), dtype=torch.float64)
        expected = torch.zeros(4, dtype=torch.float64)
        for first, *others in (noise[:3], noise[3:]):
            z = space.argmax(scores + first)
            perturbed = [scores + first, *(space.conditional(scores, other, z) for other in others)]
            assert all(torch.equal(space.argmax(p), z) for p in perturbed)
            for p in perturbed:
                expected += jacobian((p / tau).softmax(-1)) / tau @ slopes(f, z) / 6
        torch.testing.assert_close(gradient(f, scores, space, GumbelRao(3, tau), noise), expected)


class TestGappedStraightThrough:
    @pytest.mark.parametrize(("gap", "tau"), [(1.0, 1.0), (0.3, 0.5), (3.0, 2.0)])
    def test_is_the_formula_of_its_authors(self, gap, tau):
        """Score by score: that of the sample is raised to the top, each other lowered by relu(score - top + gap)."""
        space, scores = hm.Categorical(4), normal(4)
        f, members = of_degree(space, 3), torch.eye(4, dtype=torch.float64)
        slope = slopes(f, members)
        estimate = of_every_z(GappedStraightThrough(gap, tau), f, scores, space)
        top = max(scores.tolist())
        for value in range(4):
            perturbed = [top if c == value else s - max(s - top + gap, 0.0) for c, s in enumerate(scores.tolist())]
            soft = (torch.tensor(perturbed, dtype=torch.float64) / tau).softmax(-1)
            torch.testing.assert_close(estimate[value], jacobian(soft) / tau @ slope[value])

    @pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
    def test_is_straight_through_where_the_best_value_leads_and_is_drawn(self, tau):
        space, scores = hm.Categorical(4), torch.tensor([0.1, 2.0, -0.3, 0.9], dtype=torch.float64)
        f, noise = of_degree(space, 3), torch.zeros(1, 4, dtype=torch.float64)
        expected = gradient(f, scores, space, hm.StraightThrough(tau), noise)
        torch.testing.assert_close(gradient(f, scores, space, GappedStraightThrough(1.0, tau), noise), expected)
        wider = gradient(f, scores, space, GappedStraightThrough(1.2, tau), noise)
        assert (wider - expected).abs().max() > 1e-3  # the second best is nearer than that

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_is_biased_for_linear_f(self, space):
        """As documented; and a wide gap removes the gradient where another value was sampled."""
        f, scores = of_degree(space, 1), normal(*space.score_shape)
        assert exact_bias(GappedStraightThrough(), f, scores, space) > 0.01
        rare = of_every_z(GappedStraightThrough(50.0), f, scores, space)
        assert rare.abs().max() < 1e-12


class TestStraightThrough:
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_without_tau_nothing_has_changed(self, space):
        scores, f = normal(6, *space.score_shape), Toy(space)
        noise = space.noise((4, 6), torch.Generator().manual_seed(0), dtype=torch.float64)
        leaf = scores.clone().requires_grad_()
        hard = space.draw(scores, noise)
        expected = f(hard + (space.marginals(leaf) - space.marginals(leaf).detach())).mean(0)
        estimate = gradients(f, scores, space, hm.StraightThrough(), noise=noise)
        assert torch.equal(estimate[0].value, expected)
        assert torch.equal(estimate[1], torch.autograd.grad(expected.sum(), leaf)[0])

    @pytest.mark.parametrize("space", SPACES, ids=str)
    @pytest.mark.parametrize("tau", [0.4, 1.0, 3.0])
    def test_tau_is_of_the_backward_pass_only(self, space, tau):
        """Linear f: the samples are those of q, the gradient is that of E[f] under q_tau, in every estimate."""
        scores, weight = normal(*space.score_shape), normal(*space.score_shape, seed=3)
        event = tuple(range(-len(space.event_shape), 0))
        f = lambda z: (z * weight).sum(event)  # noqa: E731
        noise = space.noise((50,), torch.Generator().manual_seed(0), dtype=torch.float64)
        out = hm.expectation(f, scores, space, hm.StraightThrough(tau), noise=noise)
        assert torch.equal(out.z, space.draw(scores, noise))
        leaf = scores.clone().requires_grad_()
        mean = space.log_probs(leaf / tau).exp() @ f(space.enumerate(dtype=torch.float64))
        expected = torch.autograd.grad(mean, leaf)[0]
        torch.testing.assert_close(gradient(f, scores, space, hm.StraightThrough(tau), noise), expected)
        assert (exact_bias(hm.StraightThrough(tau), f, scores, space) < 1e-12) == (tau == 1)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_large_tau_makes_them_all_the_same(space):
    """tau times the gradient tends to that of straight-through at scores of zero."""
    f, scores, tau = Toy(space), normal(*space.score_shape), 1e6
    noise = space.noise((3,), torch.Generator().manual_seed(0), dtype=torch.float64)
    z = space.draw(scores, noise)
    slope = slopes(f, z) / len(z)
    leaf = torch.zeros_like(scores).requires_grad_()
    expected = torch.autograd.grad((space.marginals(leaf) * slope).sum(), leaf)[0]
    for estimator in (
        hm.StraightThrough(tau),
        hm.GumbelSoftmax(tau, hard=True),
        GumbelRao(1, tau),
        GappedStraightThrough(1.0, tau),
    ):
        estimate = tau * gradient(f, scores, space, estimator, noise)
        torch.testing.assert_close(estimate, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("estimator", FAMILY, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_samples_are_hard_and_their_gradient_finite(estimator, space, dtype):
    for size in (1.0, 1e3):
        scores = (size * normal(5, *space.score_shape)).to(dtype).requires_grad_()
        z = hm.sample(scores, space, estimator, samples=7, generator=torch.Generator().manual_seed(0))
        assert z.shape == (7, 5, *space.event_shape)
        assert z.dtype == dtype
        assert bool(((z == 0) | (z == 1)).all())
        if isinstance(space, hm.Categorical):
            assert bool((z.sum(-1) == 1).all())
        (estimate,) = torch.autograd.grad((z * normal(*space.event_shape, seed=3).to(dtype)).sum(), scores)
        assert bool(estimate.isfinite().all())
        assert size > 1 or bool((estimate != 0).any())


@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(4), hm.Categorical(3, 2)], ids=str)
@pytest.mark.parametrize("estimator", NEW, ids=str)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_expectation(estimator, space, batch):
    """f is evaluated once per sample, at hard z, and its parameters get the ordinary gradient."""
    scores, f, samples = normal(*batch, *space.score_shape), Toy(space, batch), 5
    noise = space.noise((samples * estimator.noises, *batch), torch.Generator().manual_seed(0), dtype=torch.float64)
    out, for_scores, for_weight = gradients(f, scores, space, estimator, noise=noise)
    assert out.z.shape == (samples, *batch, *space.event_shape)
    assert (out.evaluations, out.solves) == (samples, samples)
    plain = f(out.z).mean(0)
    torch.testing.assert_close(out.value, plain)
    torch.testing.assert_close(for_weight, torch.autograd.grad(plain.sum(), f.weight)[0])
    again = gradients(f, scores, space, estimator, noise=noise)[1]
    assert torch.equal(for_scores, again)
    # The noise tensors of a sample are adjacent, and samples are independent of each other.
    parts = [gradients(f, scores, space, estimator, noise=part)[1] for part in noise.split(estimator.noises)]
    torch.testing.assert_close(for_scores, torch.stack(parts).mean(0))


@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(4), hm.Categorical(3, 2)], ids=str)
@pytest.mark.parametrize("estimator", [ReinMax(2.0), GumbelRao(1), *WITH_NOISE, GappedStraightThrough()], ids=str)
def test_vmaps(estimator, space):
    scores, f = normal(5, *space.score_shape), Toy(space)
    noise = space.noise((2 * estimator.noises, 5), torch.Generator().manual_seed(0), dtype=torch.float64)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value

    for_scores = gradients(f, scores, space, estimator, noise=noise)[1]
    by_example = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
    torch.testing.assert_close(by_example, for_scores)

    noises = torch.stack([noise, noise.flip(0) + 0.1])
    total = lambda scores, noise: value(scores, noise).sum()  # noqa: E731
    by_replicate = torch.func.vmap(torch.func.grad(total), in_dims=(None, 0))(scores, noises)
    torch.testing.assert_close(by_replicate[1], gradients(f, scores, space, estimator, noise=noises[1])[1])


@pytest.mark.parametrize("estimator", NEW, ids=str)
@pytest.mark.parametrize("space", [hm.PairwiseBinary(3), hm.Permutation(3), hm.Subset(4, 2)], ids=str)
def test_refuses_variables_that_depend_on_each_other(estimator, space):
    scores = torch.zeros(space.score_shape)
    with pytest.raises(hm.NotExactError, match="needs"):
        hm.expectation(pytest.fail, scores, space, estimator)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ReinMax(0.0), "tau"),
        (lambda: hm.StraightThrough(-1.0), "tau"),
        (lambda: GumbelRao(0), "draws"),
        (lambda: GumbelRao(tau=0.0), "tau"),
        (lambda: ReinMaxRao(0), "draws"),
        (lambda: ReinMaxRao(tau=0.0), "tau"),
        (lambda: ReinMaxCV(draws=0), "draws"),
        (lambda: ReinMaxCV(tau=-1.0), "tau"),
        (lambda: ReinMaxCV(eta=float("nan")), "eta"),
        (lambda: GappedStraightThrough(gap=0.0), "gap"),
        (lambda: GappedStraightThrough(tau=float("inf")), "tau"),
    ],
)
def test_bad_arguments(make, name):
    with pytest.raises(hm.ArgumentError, match=name):
        make()


def test_noise_of_another_number_of_draws():
    space = hm.Binary(3)
    with pytest.raises(hm.ShapeError, match="needs 4 noise tensors"):
        hm.sample(torch.zeros(2, 3), space, GumbelRao(4), noise=space.noise((6, 2)))
