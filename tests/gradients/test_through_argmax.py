"""Estimators that need only an arg max: identities between them, their limits, and what they learn."""

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import ClassVar

import pytest
import torch
from cases import SMALL_SPACES, Toy, gradients

import hardmax as hm
from hardmax.estimators._linearization import lay_out_slope
from hardmax.estimators.adaptive import AdaptiveImplicitMLE, find_moving_step
from hardmax.estimators.implicit_mle import Blackbox, IdentityBackward, ImplicitMLE
from hardmax.estimators.perturbed_optimizer import PerturbedOptimizer
from hardmax.objectives.fenchel_young import fenchel_young_loss
from hardmax.testing import assert_bias_vanishes, assert_unbiased

BITS = [hm.Binary(3), hm.PairwiseBinary(4)]
SAME_SHAPE = [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3), hm.Subset(5, 2), hm.Permutation(4)]
SPACES = [*SAME_SHAPE, hm.SpanningTree(4), hm.GridPath(3, 3, on="nodes"), hm.PairwiseBinary(4), hm.Chain(4, 3)]
# Chains of two states are one categorical: perturb-and-MAP is q, and z has another shape than the scores.
EXACT = [*SMALL_SPACES, hm.Chain(2, 3), hm.PairwiseBinary(3, [])]
LINEARISED = [ImplicitMLE(0.7), ImplicitMLE(0.7, two_sided=True), Blackbox(0.7), IdentityBackward()]
BATCH, S = 6, 3


def make_generator(seed):
    return torch.Generator().manual_seed(seed)


def problem(space, samples=S, batch=BATCH):
    scores = torch.randn(batch, *space.score_shape, generator=make_generator(0), dtype=torch.float64)
    return scores, space.noise((samples, batch), make_generator(1), dtype=torch.float64)


def linear(space, seed=2):
    """Return an f that is linear in z."""
    weight = torch.randn(space.event_shape, generator=make_generator(seed), dtype=torch.float64)
    event = tuple(range(-len(space.event_shape), 0))
    return lambda z: (z * weight).sum(event)


def linear_in_statistics(space):
    """Return an f that is linear in the statistics of z: for interacting variables, products of them."""
    weight = torch.randn(space.score_shape, generator=make_generator(3), dtype=torch.float64)
    return lambda z: space.dot(space.statistics(z), weight)


def gradient(f, space, estimator, scores, noise, loss=lambda value: value.sum()):
    scores = scores.clone().requires_grad_()
    out = hm.expectation(f, scores, space, estimator, noise=noise)
    return torch.autograd.grad(loss(out.value), scores)[0]


def sampled_gradient(loss, space, estimator, scores, noise):
    scores = scores.clone().requires_grad_()
    return torch.autograd.grad(loss(hm.sample(scores, space, estimator, noise=noise)), scores)[0]


@dataclass(frozen=True)
class Scaled(hm.AbstractEstimator):
    """Another estimator with its gradient multiplied."""

    inner: hm.AbstractEstimator
    factor: float

    def estimate(self, f, scores, space, noise):
        out = self.inner.estimate(f, scores, space, noise)
        v = out.value
        return replace(out, value=v.detach() + self.factor * (v - v.detach()))


class TestImplicitMLE:
    @staticmethod
    def assert_direct(space, f, full, step, epsilon, two_sided, batch=BATCH):
        scores, noise = problem(space, batch=batch)

        def loss(value):  # the sign and the mean must not matter to the step
            return -value.mean()

        estimate = gradient(f, space, ImplicitMLE(step, two_sided), scores, noise, loss)
        expected = gradient(f, space, hm.Direct(epsilon, two_sided, full), scores, noise, loss)
        assert expected.abs().max() > 0
        torch.testing.assert_close(estimate, expected)

    @pytest.mark.parametrize("two_sided", [False, True])
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_is_direct_with_the_full_f_where_f_is_linear(self, space, two_sided):
        self.assert_direct(space, linear(space), True, 0.7, 0.7, two_sided)
        with pytest.raises(AssertionError):
            self.assert_direct(space, linear(space), True, 0.6, 0.7, two_sided)

    @pytest.mark.parametrize("two_sided", [False, True])
    @pytest.mark.parametrize("space", [*BITS, hm.Categorical(3, 2), hm.Subset(5, 2), hm.Chain(4, 3)], ids=str)
    def test_is_direct_where_f_is_linear_in_the_statistics(self, space, two_sided):
        self.assert_direct(space, linear_in_statistics(space), False, 0.7, 0.7, two_sided)

    def test_is_not_direct_where_single_changes_do_not_add_up(self):
        """The gain of a cycle of three items is not the sum of the gains of its swaps; the slope is exact here."""
        with pytest.raises(AssertionError):
            self.assert_direct(hm.Permutation(4), linear(hm.Permutation(4)), False, 0.7, 0.7, False, batch=200)

    @pytest.mark.parametrize("space", EXACT, ids=str)
    def test_bias_vanishes_for_linear_f(self, space):
        assert_bias_vanishes(ImplicitMLE, space, f=linear(space), draws=300_000, resolution=0.2)

    @pytest.mark.parametrize(
        ("space", "steps"), [(hm.Categorical(3, 2), (0.8, 0.4, 0.2)), (hm.Chain(2, 2), (1.2, 0.8, 0.4))], ids=str
    )
    def test_two_sided_bias_vanishes_faster(self, space, steps):
        measure = partial(
            assert_bias_vanishes, space=space, steps=steps, f=linear(space, 6), draws=300_000, resolution=0.2
        )
        assert measure(lambda e: ImplicitMLE(e, two_sided=True), order=2).order > 1.6
        assert measure(ImplicitMLE, order=1).order < 1.4

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda e: Scaled(ImplicitMLE(e), -1.0),
            lambda e: Scaled(ImplicitMLE(e), 2.0),
            lambda e: Scaled(ImplicitMLE(e), e),
        ],
        ids=["sign", "factor", "no 1/step"],
    )
    def test_planted_errors_are_caught(self, wrong):
        space = hm.Categorical(3, 2)
        with pytest.raises(AssertionError, match="does not fall"):
            assert_bias_vanishes(wrong, space, f=linear(space), draws=100_000, resolution=0.4)

    def test_a_bias_remains_for_other_f(self):
        with pytest.raises(AssertionError, match="does not fall"):
            assert_bias_vanishes(ImplicitMLE, hm.Categorical(4), draws=300_000)

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_a_sample_moves_to_where_the_loss_is_lower(self, space):
        """With the loss -f, hm.sample has the same gradient as hm.expectation with f."""
        (scores, noise), f = problem(space), Toy(space)
        for estimator in (ImplicitMLE(0.7), ImplicitMLE(0.7, two_sided=True)):
            estimate = sampled_gradient(lambda z: -f(z).sum(), space, estimator, scores, noise)
            expected = gradient(f, space, estimator, scores, noise, lambda value: -S * value.sum())
            torch.testing.assert_close(estimate, expected)

    def test_examples_that_do_not_count_have_no_gradient(self):
        space = hm.Subset(5, 2)
        scores, noise = problem(space)
        full = gradient(Toy(space), space, ImplicitMLE(0.7), scores, noise)
        estimate = gradient(Toy(space), space, ImplicitMLE(0.7), scores, noise, lambda value: value[:3].sum())
        torch.testing.assert_close(estimate, torch.cat([full[:3], torch.zeros_like(full[3:])]))


class TestStepThatMoves:
    SEARCH: ClassVar = {"smallest": 1e-3, "largest": 1e3}

    @staticmethod
    def perturbed(space):
        scores, noise = problem(space, samples=4, batch=25)
        slope = torch.randn(noise.shape, generator=make_generator(4), dtype=torch.float64)
        perturbed = scores + noise
        return perturbed, slope, space.argmax(perturbed), lambda step: space.argmax(perturbed + step * slope)

    @staticmethod
    def thresholds(space, perturbed, slope, z):
        """Return the step at which each draw moves, by enumeration: the first at which another z' overtakes z."""
        statistics = space.statistics(space.enumerate(dtype=torch.float64)).flatten(1)
        own = space.statistics(z).flatten(2)
        lead = (own * perturbed.flatten(2)).sum(-1, keepdim=True) - perturbed.flatten(2) @ statistics.mT
        gain = slope.flatten(2) @ statistics.mT - (own * slope.flatten(2)).sum(-1, keepdim=True)
        return torch.where(gain > 1e-12, lead.clamp_min(0) / gain, math.inf).amin(-1).flatten().sort().values

    @pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_against_brute_force(self, space, share):
        perturbed, slope, z, solve = self.perturbed(space)
        exact = self.thresholds(space, perturbed, slope, z)[math.ceil(share * 100) - 1].clamp_max(1e3)
        for solves in (4, 8, 12):
            step = find_moving_step(solve, z, space, share=share, solves=solves, **self.SEARCH)
            factor = 1e6 ** (0.5**solves)
            assert exact * (1 - 1e-9) <= step <= exact * factor * (1 + 1e-9)

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_what_has_moved_stays_moved(self, space):
        _, _, z, solve = self.perturbed(space)
        event = tuple(range(-len(space.event_shape), 0))
        differs = torch.stack([(solve(step) != z).any(event) for step in torch.logspace(-3, 3, 25).double()])
        assert (differs[1:] | ~differs[:-1]).all()
        assert not differs[0].all()
        assert differs[-1].float().mean() > 0.6

    def test_ends(self):
        space = hm.Binary(3)
        _, _, z, solve = self.perturbed(space)

        def step(share, smallest, largest):
            return float(find_moving_step(solve, z, space, share=share, smallest=smallest, largest=largest, solves=30))

        assert step(0.5, 1e-3, 2e-3) == pytest.approx(2e-3)
        assert step(0.01, 1e2, 1e4) == pytest.approx(1e2)
        assert step(0.5, 3.0, 3.0) == pytest.approx(3.0)

    @pytest.mark.parametrize(
        ("search", "message"),
        [
            ({"share": 0.0}, "share"),
            ({"share": 1.5}, "share"),
            ({"smallest": 0.0}, "smallest"),
            ({"smallest": 2.0, "largest": 1.0}, "largest"),
            ({"tries": 0}, "solves"),
        ],
    )
    def test_bad_arguments(self, search, message):
        with pytest.raises(hm.ArgumentError, match=message):
            AdaptiveImplicitMLE(**search)


class TestAdaptiveImplicitMLE:
    @pytest.mark.parametrize("two_sided", [False, True])
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_is_implicit_mle_at_the_step_that_moves_the_share(self, space, two_sided):
        (scores, noise), f = problem(space, samples=1, batch=200), Toy(space, (200,))
        estimator = AdaptiveImplicitMLE(0.4, largest=1e3, tries=8, two_sided=two_sided)
        estimate = gradient(f, space, estimator, scores, noise)
        step = float(1 / (estimate[estimate != 0].abs().min() * (2 if two_sided else 1)))
        torch.testing.assert_close(estimate, gradient(f, space, ImplicitMLE(step, two_sided), scores, noise))

        def count_moved(step):
            return (gradient(f, space, ImplicitMLE(step), scores, noise).flatten(1) != 0).any(-1).double().sum()

        goal = 0.4 * count_moved(1e6)
        assert count_moved(step) >= goal - 1
        assert count_moved(step / 1.06) < goal + 1e-9  # 1e6^(1 / 2^8) = 1.055

    def test_draws_that_cannot_move_are_left_out_of_the_share(self):
        space = hm.Subset(5, 2)
        (scores, noise), f = problem(space, samples=1, batch=200), Toy(space, (200,))
        estimate = gradient(f, space, AdaptiveImplicitMLE(0.5), scores, noise, lambda value: value[:40].sum())
        moved = (estimate != 0).any(-1).double().sum()
        assert 10 <= moved <= 30
        step = 1 / estimate[estimate != 0].abs().min()
        assert step < 3  # if half of all 200 had to move, it would be the largest step, about 40

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_follows_the_scale_of_the_loss(self, space):
        (scores, noise), f = problem(space), Toy(space)
        estimate, small = (
            sampled_gradient(lambda z, scale=scale: scale * f(z).sum(), space, AdaptiveImplicitMLE(), scores, noise)
            for scale in (1.0, 1e-6)
        )
        assert estimate.abs().max() > 0
        torch.testing.assert_close(small, estimate * 1e-6, rtol=1e-6, atol=0)

    def test_no_slope_no_gradient(self):
        scores, noise = problem(hm.Subset(5, 2))
        estimate = sampled_gradient(lambda z: 0 * z.sum(), hm.Subset(5, 2), AdaptiveImplicitMLE(), scores, noise)
        assert (estimate == 0).all()


class TestBlackbox:
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_is_implicit_mle_without_noise(self, space):
        (scores, noise), f = problem(space), Toy(space)
        zero_noise = torch.zeros_like(noise)
        estimate = gradient(f, space, Blackbox(3.0), scores, noise)
        assert estimate.abs().max() > 0
        torch.testing.assert_close(estimate, gradient(f, space, ImplicitMLE(3.0), scores, zero_noise))
        out = hm.expectation(f, scores, space, Blackbox(3.0), noise=noise)
        torch.testing.assert_close(out.value, f(space.argmax(scores)[None])[0])

    def test_is_the_slope_of_the_interpolation(self):
        """For two categories and linear f, the interpolation of f(argmax) is a ramp as wide as the step."""
        space, worth, step = hm.Categorical(2), torch.tensor([0.0, 1.0], dtype=torch.float64), 0.5
        scores = torch.stack([torch.linspace(0.05, 1.0, 20, dtype=torch.float64), torch.zeros(20).double()], -1)
        estimate = gradient(lambda z: z @ worth, space, Blackbox(step), scores, torch.zeros(1, 20, 2).double())
        inside = (scores[:, 0] < step).double()
        torch.testing.assert_close(estimate, inside[:, None] / step * torch.tensor([-1.0, 1.0]).double())


class TestIdentity:
    @pytest.mark.parametrize("space", [*SPACES, hm.PairwiseBinary(5, [(0, 1), (1, 4)])], ids=str)
    def test_a_slope_laid_out_like_scores_weighs_every_z_as_before(self, space):
        members = space.enumerate(dtype=torch.float64)
        slope = torch.randn(members.shape, generator=make_generator(0), dtype=torch.float64)
        v = lay_out_slope(space, members, slope)
        by_statistics = v.flatten(1) @ space.statistics(members).flatten(1).mT
        by_slope = slope.flatten(1) @ members.flatten(1).mT
        difference = by_statistics - by_slope
        torch.testing.assert_close(difference, difference[:, :1].expand_as(difference))

    @pytest.mark.parametrize("space", SAME_SHAPE, ids=str)
    def test_passes_the_slope_on(self, space):
        (scores, noise), f = problem(space), Toy(space)
        z = space.argmax(scores + noise).requires_grad_()
        slope = torch.autograd.grad(f(z).sum(), z)[0]
        torch.testing.assert_close(gradient(f, space, IdentityBackward(), scores, noise), slope.mean(0))
        estimate = sampled_gradient(lambda z: f(z).sum(), space, IdentityBackward(), scores, noise)
        torch.testing.assert_close(estimate, slope.sum(0))

    @pytest.mark.parametrize("space", [hm.Subset(5, 2), hm.Permutation(4), hm.SpanningTree(4)], ids=str)
    def test_projections(self, space):
        (scores, noise), f = problem(space, samples=1), Toy(space)
        perturbed = (scores + noise)[0].flatten(1)
        slope = gradient(f, space, IdentityBackward(), scores, noise).flatten(1)
        plane = slope - slope.mean(-1, keepdim=True)
        centred = perturbed - perturbed.mean(-1, keepdim=True)

        def sphere(vector, centre):
            norm = centre.norm(dim=-1, keepdim=True)
            direction = centre / norm
            return (vector - (vector * direction).sum(-1, keepdim=True) * direction) / norm

        for project, expected in (
            ("plane", plane),
            ("sphere", sphere(slope, perturbed)),
            ("both", sphere(plane, centred)),
        ):
            estimate = gradient(f, space, IdentityBackward(project), scores, noise).flatten(1)
            torch.testing.assert_close(estimate, expected)

    def test_every_categorical_variable_has_its_own_projection(self):
        (scores, noise), f = problem(hm.Categorical(3, 2)), Toy(hm.Categorical(3, 2))
        estimate = gradient(f, hm.Categorical(3, 2), IdentityBackward("plane"), scores, noise)
        assert estimate.abs().max() > 0.1
        torch.testing.assert_close(estimate.sum(-1), torch.zeros(BATCH, 2).double())

    @pytest.mark.parametrize("space", SPACES, ids=str)
    @pytest.mark.parametrize("project", ["none", "plane", "sphere", "both"])
    def test_z_is_the_arg_max_all_the_same(self, space, project):
        scores, noise = problem(space)
        if space.offers("fields") and project in ("plane", "both"):
            with pytest.raises(hm.NotExactError, match="sphere"):
                hm.sample(scores, space, IdentityBackward(project), noise=noise)
        else:
            z = hm.sample(scores, space, IdentityBackward(project), noise=noise)
            torch.testing.assert_close(z, space.argmax(scores + noise))

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_points_uphill_for_linear_f(self, space):
        """Compared with the gradient of perturb-and-MAP, by finite differences with common noise."""
        f = linear(space)
        scores, noise = problem(space, samples=1, batch=2000)
        scores = scores[:1].expand_as(scores)
        direction = gradient(f, space, IdentityBackward(), scores[:1], noise[:, :1])

        def mean(scores):
            return f(space.argmax(scores + noise)).mean()

        assert mean(scores + 0.1 * direction) > mean(scores - 0.1 * direction)


class TestPerturbedOptimizer:
    @pytest.mark.parametrize("samples", [1, 2, 5])
    @pytest.mark.parametrize("space", EXACT, ids=str)
    def test_is_unbiased_for_linear_f(self, space, samples):
        assert_unbiased(
            PerturbedOptimizer(), space, f=linear(space), samples=samples, draws=150_000, resolution=0.5, seed=1
        )

    @pytest.mark.parametrize("samples", [1, 4])
    @pytest.mark.parametrize("space", [hm.Categorical(3), hm.Binary(2)], ids=str)
    def test_sigma_is_a_temperature(self, space, samples):
        sigma, draws, f = 0.5, 200_000, linear(space)
        scores = torch.randn(space.score_shape, generator=make_generator(0), dtype=torch.float64, requires_grad=True)
        exact = torch.autograd.grad(f(space.marginals(scores / sigma)), scores)[0]
        noise = space.noise((samples, draws), make_generator(1), dtype=torch.float64)

        def z(factor):
            batch = scores.detach().expand(draws, -1)
            estimate = gradient(f, space, Scaled(PerturbedOptimizer(sigma), factor), batch, noise)
            return ((estimate.mean(0) - exact) / (estimate.std(0) / draws**0.5)).abs().max()

        assert z(1.0) < 5
        assert z(sigma) > 5  # a forgotten 1 / sigma

    @pytest.mark.parametrize(
        ("wrong", "samples"),
        [(Scaled(PerturbedOptimizer(), -1.0), 1), (Scaled(PerturbedOptimizer(), 0.5), 2)],
        ids=["sign", "a draw in its own baseline"],
    )
    def test_planted_errors_are_caught(self, wrong, samples):
        space = hm.Categorical(3, 2)
        with pytest.raises(AssertionError, match="biased"):
            assert_unbiased(wrong, space, f=linear(space), samples=samples, draws=150_000, resolution=0.5, seed=1)

    @pytest.mark.parametrize("space", [hm.Categorical(4), hm.Binary(3)], ids=str)
    def test_the_density_of_other_noise_is_caught(self, space, monkeypatch):
        monkeypatch.setattr(type(space), "noise_slope", lambda self, scores, noise: noise)  # of normal noise
        with pytest.raises(AssertionError, match="biased"):
            assert_unbiased(PerturbedOptimizer(), space, f=linear(space), samples=2, resolution=0.5, seed=1)

    def test_the_paper_layer_has_the_gradient_of_a_loss_of_the_mean(self):
        space, samples = hm.Categorical(4), 400_000
        scores = torch.randn(4, generator=make_generator(0), dtype=torch.float64, requires_grad=True)
        target = torch.eye(4, dtype=torch.float64)[0]
        noise = space.noise((samples,), make_generator(1), dtype=torch.float64)
        y = hm.sample(scores, space, PerturbedOptimizer(), noise=noise).mean(0)
        estimate = torch.autograd.grad((y - target).square().sum(), scores)[0]
        exact = torch.autograd.grad((scores.softmax(0) - target).square().sum(), scores)[0]
        assert exact.norm() > 0.1
        assert (estimate - exact).norm() < 0.03 * exact.norm()

    @pytest.mark.parametrize("samples", [1, 3])
    @pytest.mark.parametrize("space", [space for space in SPACES if not space.offers("fields")], ids=str)
    def test_the_baseline_takes_away_what_all_z_have_in_common(self, space, samples):
        """Every z has the same number of ones, so this number has no gradient, in any draw."""
        scores, noise = problem(space, samples)
        event = tuple(range(-len(space.event_shape), 0))
        estimate = gradient(lambda z: 100 * z.sum(event), space, PerturbedOptimizer(), scores, noise)
        torch.testing.assert_close(estimate, torch.zeros_like(estimate))

    @pytest.mark.parametrize("space", [hm.Binary(3), hm.Subset(5, 2), hm.Chain(4, 3)], ids=str)
    def test_is_reinforce_for_the_noise(self, space):
        (scores, noise), f = problem(space), linear(space)
        worth = f(space.argmax(scores + noise))
        nu = (noise / 2).tanh() if isinstance(space, hm.Binary) else 1 - (-noise).exp()
        advantage = worth - (worth.sum(0) - worth) / (S - 1)
        expected = (advantage.view(S, BATCH, *(1 for _ in space.score_shape)) * nu).mean(0)
        torch.testing.assert_close(gradient(f, space, PerturbedOptimizer(), scores, noise), expected)

    def test_couplings_are_refused(self):
        space = hm.PairwiseBinary(3)
        with pytest.raises(hm.NotExactError, match="couplings"):
            hm.sample(torch.zeros(6), space, PerturbedOptimizer())

    def test_unknown_noise_is_refused(self):
        class Other(hm.AbstractSpace):
            score_shape = event_shape = (2,)
            size = 2
            argmax = statistics = noise = lambda self, *_: None

        with pytest.raises(hm.NotExactError, match="density"):
            PerturbedOptimizer().check(Other(), 1)


class TestPerturbAndMap:
    """Perturb-and-MAP for subsets is the Plackett-Luce distribution, whose known probabilities give an exact target."""

    SPACE = hm.Subset(4, 2)

    @classmethod
    def marginals(cls, scores):
        total = torch.zeros_like(scores)
        for first, second in permutations(range(4), 2):
            weight = scores.exp()
            p = weight[first] / weight.sum() * weight[second] / (weight.sum() - weight[first])
            total = total + p * torch.zeros_like(scores).index_fill(0, torch.tensor([first, second]), 1.0)
        return total

    @pytest.fixture
    def scores(self):
        return torch.randn(4, generator=make_generator(5), dtype=torch.float64, requires_grad=True)

    def measure(self, estimator, scores, draws=200_000, samples=1):
        """Return the relative error of the mean gradient, and its standard error."""
        f = linear(self.SPACE)
        exact = torch.autograd.grad(f(self.marginals(scores)), scores)[0]
        noise = self.SPACE.noise((samples, draws), make_generator(1), dtype=torch.float64)
        estimate = gradient(f, self.SPACE, estimator, scores.detach().expand(draws, 4), noise)
        error = estimate.std(0).norm() / draws**0.5
        return float((estimate.mean(0) - exact).norm() / exact.norm()), float(error / exact.norm())

    def test_it_is_another_distribution(self, scores):
        assert (self.marginals(scores) - self.SPACE.marginals(scores)).abs().max() > 0.01

    @pytest.mark.parametrize("samples", [1, 3])
    def test_perturbed_optimizer_is_unbiased(self, scores, samples):
        bias, error = self.measure(PerturbedOptimizer(), scores, samples=samples)
        assert error < 0.05
        assert bias < 4 * error

    @pytest.mark.parametrize("estimator", [ImplicitMLE, lambda step: ImplicitMLE(step, two_sided=True)])
    def test_implicit_mle_comes_to_it(self, scores, estimator):
        (far, _), (near, error) = (self.measure(estimator(step), scores, 600_000) for step in (1.0, 0.1))
        assert near < 0.3 * far + 4 * error
        assert error < 0.02

    def test_fenchel_young(self, scores):
        draws = 200_000
        batch = scores.detach().expand(draws, 4).clone().requires_grad_()
        target = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
        loss = fenchel_young_loss(batch, target.expand(draws, 4), self.SPACE, generator=make_generator(1))
        estimate = torch.autograd.grad(loss.sum(), batch)[0]
        exact = self.marginals(scores.detach()) - target
        assert ((estimate.mean(0) - exact).abs() < 5 * estimate.std(0) / draws**0.5).all()
        other = self.SPACE.marginals(scores.detach()) - target  # of q, the wrong one
        assert not ((estimate.mean(0) - other).abs() < 5 * estimate.std(0) / draws**0.5).all()


class TestFenchelYoung:
    @staticmethod
    def measure(space, scores, target, draws=100_000):
        batch = scores.expand(draws, *scores.shape).clone().requires_grad_()
        loss = fenchel_young_loss(batch, target.expand_as(batch), space, generator=make_generator(1))
        return loss.detach(), torch.autograd.grad(loss.sum(), batch)[0]

    @pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
    def test_is_the_cross_entropy_of_independent_variables(self, space):
        scores = torch.randn(space.score_shape, generator=make_generator(0), dtype=torch.float64, requires_grad=True)
        target = space.enumerate(dtype=torch.float64)[-1]
        exact = -space.log_prob(scores, target)
        loss, estimate = self.measure(space, scores.detach(), target)
        assert (loss >= 0).all()

        def z(draws, truth):
            return ((draws.mean(0) - truth).abs() / (draws.std(0) / len(draws) ** 0.5)).max()

        gradient = torch.autograd.grad(exact, scores)[0]
        assert z(loss, exact.detach()) < 5
        assert z(loss, exact.detach() + 0.0272 * (1 + exact.detach())) > 5  # the test detects three per cent
        assert z(estimate, gradient) < 5
        assert z(estimate, -gradient) > 5

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_at_any_noise_it_is_convex_and_at_least_zero_with_the_gradient_of_its_arg_max(self, space):
        first, noise = problem(space, samples=4)
        second = torch.randn(first.shape, generator=make_generator(7), dtype=torch.float64) * 3
        members = space.enumerate(dtype=torch.float64)
        target = members[torch.arange(BATCH) % len(members)]

        def loss(scores):
            return fenchel_young_loss(scores, target, space, noise=noise)

        middle = ((first + second) / 2).requires_grad_()
        value = loss(middle)
        assert (value >= 0).all()
        assert (value <= (loss(first) + loss(second)) / 2 + 1e-12).all()
        expected = space.statistics(space.argmax(middle + noise)).mean(0) - space.statistics(target)
        torch.testing.assert_close(torch.autograd.grad(value.sum(), middle)[0], expected)

    def test_vanishes_where_the_target_is_certain(self):
        space, target = hm.Permutation(3), torch.eye(3).double()
        loss = fenchel_young_loss(60 * target, target, space, samples=50, generator=make_generator(0))
        assert loss == 0

    def test_learns_to_sort(self):
        """Items are ranked by an unknown weight of their features; the permutations that sort them are observed."""
        space, generator = hm.Permutation(5), make_generator(0)
        truth = torch.randn(4, generator=generator, dtype=torch.float64)
        features = torch.randn(300, 5, 4, generator=generator, dtype=torch.float64)
        place = torch.arange(5, dtype=torch.float64)

        def scores(weight):
            return (features @ weight)[..., None] * place

        target = space.argmax(scores(truth))
        assert torch.equal(target.argmax(-1), (features @ truth).argsort(-1).argsort(-1))
        weight = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([weight], lr=0.2)
        for _ in range(60):
            optimizer.zero_grad()
            loss = fenchel_young_loss(scores(weight)[:200], target[:200], space, generator=generator)
            loss.mean().backward()
            optimizer.step()
        assert torch.cosine_similarity(weight.detach(), truth, 0) > 0.99
        held_out = space.argmax(scores(weight.detach()))[200:]
        assert (held_out == target[200:]).all(-1).all(-1).double().mean() > 0.8

    def test_bad_arguments(self):
        space, scores = hm.Subset(4, 2), torch.zeros(3, 4)
        target = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(3, 4)
        assert fenchel_young_loss(scores, target, space, samples=2).shape == (3,)
        with pytest.raises(hm.ShapeError, match="one z for each example"):
            fenchel_young_loss(scores, target[:2], space)
        with pytest.raises(hm.ShapeError, match="noise"):
            fenchel_young_loss(scores, target, space, noise=torch.zeros(2, 4))
        with pytest.raises(hm.ArgumentError, match="not a member"):
            fenchel_young_loss(scores + 5, torch.ones(3, 4), space)
        with pytest.raises(hm.ArgumentError, match="finite"):
            fenchel_young_loss(scores, target * math.nan, space)
        with pytest.raises(hm.ArgumentError, match="finite"):
            fenchel_young_loss(scores * math.nan, target, space)
        with pytest.raises(hm.ArgumentError, match="samples"):
            fenchel_young_loss(scores, target, space, samples=0)


class TestTogether:
    """Properties of all these estimators."""

    ESTIMATORS: ClassVar = [*LINEARISED, IdentityBackward("sphere"), AdaptiveImplicitMLE(), PerturbedOptimizer()]

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_weights_of_f_have_the_ordinary_gradient(self, space, estimator):
        if isinstance(estimator, PerturbedOptimizer) and isinstance(space, hm.PairwiseBinary):
            return
        (scores, noise), f = problem(space), Toy(space, (BATCH,))
        out, for_scores, for_weight = gradients(f, scores, space, estimator, noise=noise)
        perturbed = scores.expand_as(noise) if isinstance(estimator, Blackbox) else scores + noise
        torch.testing.assert_close(out.z, space.argmax(perturbed))
        value = f(out.z).mean(0)
        torch.testing.assert_close(out.value, value)
        torch.testing.assert_close(for_weight, torch.autograd.grad(value.sum(), f.weight)[0])
        assert for_scores.isfinite().all()
        assert for_scores.shape == scores.shape
        assert torch.equal(for_scores, gradients(f, scores, space, estimator, noise=noise)[1])

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
    def test_what_they_cost(self, estimator):
        solves = {AdaptiveImplicitMLE: 9, IdentityBackward: 1, PerturbedOptimizer: 1}.get(type(estimator), 2)
        solves += getattr(estimator, "two_sided", False)
        space, counted = hm.Subset(5, 2), 0

        class Counted(hm.Subset):
            def argmax(self, scores):
                nonlocal counted
                counted += len(scores)
                return space.argmax(scores)

        scores, noise = problem(space)
        out = hm.expectation(Toy(space), scores.requires_grad_(), Counted(5, 2), estimator, noise=noise)
        out.value.sum().backward()
        assert out.evaluations == S
        assert out.solves == counted == S * solves

    @pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if not isinstance(e, AdaptiveImplicitMLE)], ids=str)
    @pytest.mark.parametrize("space", [hm.Categorical(3, 2), hm.Chain(3, 2), hm.Permutation(3), hm.Binary(3)], ids=str)
    def test_vmap_of_grad(self, space, estimator):
        """Over examples; with an adaptive step every example has its own step, and only replicates are the same."""
        (scores, noise), f = problem(space), Toy(space)

        def value(scores, noise):
            return hm.expectation(f, scores, space, estimator, noise=noise).value

        estimate = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
        torch.testing.assert_close(estimate, gradients(f, scores, space, estimator, noise=noise)[1])

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
    def test_vmap_over_replicates(self, estimator):
        space = hm.Chain(3, 2)
        (scores, noise), f = problem(space), Toy(space)
        noises = torch.stack([noise, noise.flip(0) + 0.1])

        def value(scores, noise):
            return hm.expectation(f, scores, space, estimator, noise=noise).value.sum()

        estimate = torch.func.vmap(torch.func.grad(value), in_dims=(None, 0))(scores, noises)
        expected = [gradients(f, scores, space, estimator, noise=noise)[1] for noise in noises]
        torch.testing.assert_close(estimate, torch.stack(expected))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
    def test_dtype_of_scores_and_no_batch(self, estimator, dtype):
        scores = torch.zeros(5, dtype=dtype, requires_grad=True)
        z = hm.sample(scores, hm.Subset(5, 2), estimator, samples=4, generator=make_generator(0))
        assert z.dtype == dtype
        z[..., 0].square().sum().backward()
        assert scores.grad.dtype == dtype
        assert scores.grad.isfinite().all()

    @pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
    def test_f_without_a_slope_is_refused(self, estimator):
        scores = torch.zeros(3, requires_grad=True)
        with pytest.raises(hm.ArgumentError, match="differentiable in z"):
            hm.expectation(lambda z: z.detach().sum(-1), scores, hm.Categorical(3), estimator)

    @pytest.mark.parametrize("estimator", LINEARISED, ids=str)
    def test_a_slope_that_cannot_be_laid_out_is_refused(self, estimator):
        chain = type("Bare", (hm.Chain,), {"offers": lambda self, name: name not in ("change", "parts")})(3, 2)
        with pytest.raises(hm.NotExactError, match="single changes"):
            hm.sample(torch.zeros(2, 2, 2), chain, estimator)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: ImplicitMLE(step=0.0),
            lambda: Blackbox(step=-1.0),
            lambda: PerturbedOptimizer(sigma=math.nan),
        ],
        ids=["step", "blackbox", "sigma"],
    )
    def test_bad_settings(self, make):
        with pytest.raises(hm.ArgumentError, match="must be"):
            make()
