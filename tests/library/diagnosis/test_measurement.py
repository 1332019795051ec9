"""Measured bias, noise, cosine and cost of estimators whose bias and noise are known."""

from dataclasses import dataclass
from math import pi, sqrt

import pytest
import torch
from cases import Rows, Toy

import hardmax as hm
from hardmax.diagnosis import (
    Reference,
    enumerate_reference,
    estimate_reference,
    make_exact_reference,
    make_expectation_call,
    measure_estimators,
)
from hardmax.estimators import attach_gradient


@dataclass(frozen=True, eq=False)
class Planted(hm.AbstractEstimator):
    """Estimates `gradient + sigma * (independent noise of variance one)` per score, for the logistic noise of bits.

    A sample costs one evaluation, and S samples divide the variance by S. `gradient` `[*B, n]` is the mean of the
    estimates.
    """

    gradient: torch.Tensor
    sigma: float = 0.0

    def estimate(self, f, scores, space, noise):
        unit = noise * sqrt(3) / pi
        estimate = self.gradient + self.sigma * unit.mean(0)
        z = space.argmax(noise)
        return hm.Estimate(
            attach_gradient(f(z).mean(0), space.dot(estimate, scores)), z, f.evaluations, float(len(noise))
        )


def problem(batch=(50,), bits=4, seed=0):
    """Return scores, f and the exact gradient, which has a closed form because f is linear."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*batch, bits, generator=generator, dtype=torch.float64)
    weight = torch.randn(*batch, bits, generator=generator, dtype=torch.float64)
    q = scores.sigmoid()
    return scores, lambda z: (z * weight).sum(-1), q * (1 - q) * weight


def make_generator(seed=0):
    return torch.Generator().manual_seed(seed)


def norm(gradient):
    return float(gradient.norm())


class TestPlanted:
    scores, linear, gradient = problem((100,))
    f = staticmethod(linear)
    space = hm.Binary(4)

    def measure(self, estimator, draws=400, **kwargs):
        kwargs = {"generator": make_generator(), "samples": 1, **kwargs}
        return hm.diagnose(self.f, self.scores, self.space, [estimator], draws=draws, **kwargs).rows[0]

    @pytest.mark.parametrize("factor", [1.3, 0.5, -1.0, 0.0])
    def test_a_factor(self, factor):
        row = self.measure(Planted(factor * self.gradient), draws=10)
        assert row.bias == pytest.approx(abs(factor - 1), abs=1e-9)
        assert row.biased
        assert row.deviation < 1e-9
        assert row.floor < 1e-9
        assert row.cosine == pytest.approx(factor / abs(factor) if factor else 0.0)

    def test_nothing(self):
        row = self.measure(Planted(self.gradient), draws=10)
        assert row.bias < 1e-9
        assert not row.biased
        assert row.cosine == pytest.approx(1)

    def test_an_orthogonal_error(self):
        """A bias at right angles to the gradient: the cosine is 1 / sqrt(1 + bias^2)."""
        across = self.gradient.roll(1, -1)
        across = across - self.gradient * (across * self.gradient).sum(-1, keepdim=True) / self.gradient.square().sum(
            -1, keepdim=True
        )
        across = 0.75 * across * (self.gradient.norm(dim=-1) / across.norm(dim=-1))[:, None]
        row = self.measure(Planted(self.gradient + across), draws=4)
        assert row.bias == pytest.approx(0.75)
        assert row.cosine == pytest.approx(0.8)

    @pytest.mark.parametrize("tiny", [0.0, 1e-9, 5e-3])
    def test_an_example_without_a_gradient_has_no_cosine(self, tiny):
        """Next to a gradient of length 1 the direction of a tiny one is of no interest, and often noise."""
        gradient = torch.tensor([[3.0, 4.0], [0.6, 0.8], [0.6, 0.8]], dtype=torch.float64)
        gradient[1] *= tiny
        estimate = torch.tensor([[3.0, 4.0], [1.0, 1.0], [0.8, -0.6]], dtype=torch.float64)  # the last at right angles
        scores, space = torch.zeros(3, 2, dtype=torch.float64), hm.Binary(2)
        diagnosis = measure_estimators(
            make_expectation_call(lambda z: z.sum(-1), space),
            scores,
            space,
            [Planted(estimate)],
            exact=make_exact_reference(gradient),
            draws=4,
        )
        assert diagnosis.rows[0].cosine == pytest.approx(0.5)
        assert diagnosis.with_gradient == 2
        text = " ".join(str(diagnosis).split())
        assert "mean over 2 of the 3 examples; the others have no gradient, or one below 1 %" in text

    def test_noise(self):
        row = self.measure(Planted(self.gradient, 0.3), draws=2000)
        expected = 0.3 * sqrt(self.gradient.numel()) / norm(self.gradient)
        assert row.deviation == pytest.approx(expected, rel=0.02)
        assert row.floor == pytest.approx(expected / sqrt(2000), rel=0.02)

    def test_samples_divide_the_variance(self):
        one, four = (self.measure(Planted(self.gradient, 0.3), samples=samples).deviation for samples in (1, 4))
        assert four == pytest.approx(one / 2, rel=0.03)

    def test_the_noise_floor_is_removed(self):
        """Noise moves the mean by half the gradient, and yet there is no bias."""
        draws = 100
        sigma = 0.5 * sqrt(draws) * norm(self.gradient) / sqrt(self.gradient.numel())
        unbiased = self.measure(Planted(self.gradient, sigma), draws)
        assert unbiased.floor == pytest.approx(0.5, rel=0.05)
        assert unbiased.bias < 0.2
        assert not unbiased.biased
        # The bias that would be reported without the removal, and the report of a true bias.
        assert sqrt(unbiased.bias**2 + unbiased.floor**2) > 0.45
        biased = self.measure(Planted(1.7 * self.gradient, sigma), draws)
        assert biased.bias == pytest.approx(0.7, abs=0.06)
        assert biased.biased

    def test_a_noisy_reference_is_not_a_bias(self):
        """The reference has a known error of half its size, which does not count as bias of the exact gradient."""
        sigma = 0.5 * norm(self.gradient) / sqrt(self.gradient.numel())
        noise = torch.randn(self.gradient.shape, generator=make_generator(1), dtype=torch.float64)
        reference = Reference(self.gradient + sigma * noise, torch.full_like(self.gradient, sigma**2), "a test")
        call = make_expectation_call(self.f, self.space)
        diagnosis = measure_estimators(
            call, self.scores, self.space, [Planted(self.gradient)], exact=reference, draws=10
        )
        row = diagnosis.rows[0]
        assert diagnosis.norm == pytest.approx(norm(self.gradient), rel=0.1)
        assert diagnosis.source_error == pytest.approx(0.5, rel=0.1)
        assert row.floor == pytest.approx(0.5, rel=0.1)
        assert row.bias < 0.2
        assert not row.biased
        exact = make_exact_reference(reference.gradient)  # the same gradient, but with no known error
        assert measure_estimators(call, self.scores, self.space, [Planted(self.gradient)], exact=exact).rows[0].biased

    def test_examples_with_tiny_gradients_do_not_decide(self):
        """Squares are added before they are divided, so a large relative error of a tiny gradient is ignored."""
        size = torch.ones(100, 1, dtype=torch.float64)
        size[50:] = 1e-6
        error = torch.where(size < 1, 3.0, 1.1)  # relative, by example
        row = measure_estimators(
            make_expectation_call(self.f, self.space),
            self.scores,
            self.space,
            [Planted(error * size * self.gradient)],
            exact=make_exact_reference(size * self.gradient),
            draws=4,
        ).rows[0]
        assert row.bias == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("batch", [(), (20,)], ids=str)
def test_false_alarms_are_rare(batch):
    """Without a bias, over many seeds. The worst case is one score, where the noise has one degree of freedom."""
    scores, f, gradient = problem(batch, bits=1)
    call, reference = make_expectation_call(f, hm.Binary(1)), make_exact_reference(gradient)
    alarms = sum(
        measure_estimators(
            call,
            scores,
            hm.Binary(1),
            [Planted(gradient, 1.0)],
            exact=reference,
            draws=32,
            generator=make_generator(seed),
        )
        .rows[0]
        .biased
        for seed in range(60)
    )
    assert alarms <= 4


class TestReference:
    @pytest.mark.parametrize("space", [hm.Categorical(4), hm.Categorical(3, 2), hm.Binary(3)], ids=str)
    def test_enumeration(self, space):
        f = Toy(space, (5,))
        scores = torch.randn(5, *space.score_shape, generator=make_generator(), dtype=torch.float64).requires_grad_()
        (gradient,) = torch.autograd.grad(hm.expectation(f, scores, space, hm.Exact()).value.sum(), scores)
        for chunk_size in (None, 2):
            reference = enumerate_reference(f, scores, space, chunk_size=chunk_size)
            torch.testing.assert_close(reference.gradient, gradient)
            assert reference.error == 0

    @pytest.mark.parametrize("space", [hm.Binary(4), hm.PairwiseBinary(4)], ids=str)
    def test_monte_carlo_reports_its_error(self, space):
        f = Toy(space, (40,))
        scores = torch.randn(40, *space.score_shape, generator=make_generator(), dtype=torch.float64)
        truth = enumerate_reference(f, scores, space)
        reference = estimate_reference(
            make_expectation_call(f, space), scores, space, draws=200, generator=make_generator(1)
        )
        error = float((reference.gradient - truth.gradient).square().sum())
        assert error == pytest.approx(float(reference.variance.sum()), rel=0.4)
        assert 0 < reference.error < 0.2

    def test_no_unbiased_gradient(self):
        space = hm.PairwiseBinary(30)
        with pytest.raises(hm.NotExactError, match="no exact samples"):
            hm.diagnose(lambda z: z.sum(-1), torch.zeros(2, *space.score_shape), space, exact="monte-carlo")

    def test_too_many_to_enumerate(self):
        with pytest.raises(hm.NotExactError, match="members"):
            hm.diagnose(lambda z: z.sum(-1), torch.zeros(2, 40), hm.Binary(40), [hm.LocalExpectation()])

    def test_monte_carlo_agrees_with_enumeration(self):
        space = hm.Binary(4)
        f, scores = Toy(space, (20,)), torch.randn(20, 4, generator=make_generator(), dtype=torch.float64)
        estimators = [hm.StraightThrough(), hm.LocalExpectation()]
        by_draws, by_sum = (
            hm.diagnose(f, scores, space, estimators, draws=400, exact=exact, generator=make_generator(3)).rows
            for exact in ("monte-carlo", "enumerate")
        )
        assert by_draws[0].bias == pytest.approx(by_sum[0].bias, rel=0.1)
        assert by_draws[0].biased
        assert by_draws[1].deviation == pytest.approx(by_sum[1].deviation, rel=0.1)
        assert not by_draws[1].biased


class TestEvaluations:
    space = hm.Categorical(5, 4)
    f = Rows(space, (6,))
    scores = torch.randn(6, 4, 5, generator=make_generator(), dtype=torch.float64)

    def diagnose(self, estimators, **kwargs):
        return hm.diagnose(self.f, self.scores, self.space, estimators, draws=8, generator=make_generator(), **kwargs)

    def test_the_most_expensive_estimator_sets_the_budget(self):
        estimators = [hm.LocalExpectation(), hm.Reinforce("leave-one-out"), hm.StraightThrough(), hm.Direct(0.5)]
        diagnosis = self.diagnose(estimators)
        assert diagnosis.evaluations == 17
        assert [row.evaluations for row in diagnosis.rows] == [17, 17, 17, 17]
        assert [row.samples for row in diagnosis.rows] == [1, 17, 17, 1]

    @pytest.mark.parametrize("budget", [20, 50, 51])
    def test_a_budget_is_used_and_not_exceeded(self, budget):
        diagnosis = self.diagnose([hm.LocalExpectation(), hm.Reinforce(), hm.Direct(0.5)], evaluations=budget)
        assert [row.samples for row in diagnosis.rows] == [budget // 17, budget, budget // 17]
        for row in diagnosis.rows:
            assert row.evaluations == row.samples * (1 if isinstance(row.estimator, hm.Reinforce) else 17) <= budget

    def test_random_numbers_of_evaluations(self):
        row = self.diagnose([hm.LocalExpectation(roulette=hm.Roulette(1.0))], evaluations=60).rows[0]
        assert row.samples > 3
        assert 60 * (1 - 1.5 / row.samples) < row.evaluations < 62

    def test_too_small_a_budget(self):
        rows = self.diagnose([hm.LocalExpectation(), hm.Reinforce("leave-one-out")], evaluations=1).rows
        assert [(row.samples, row.evaluations) for row in rows] == [(1, 17), (2, 2)]

    def test_samples_that_share_evaluations_are_not_increased(self):
        space = hm.Categorical(7)
        f, scores = Toy(space, (6,)), torch.randn(6, 7, generator=make_generator(), dtype=torch.float64)
        estimators = [hm.Exact(), hm.Direct(), hm.Reinforce("leave-one-out")]
        diagnosis = hm.diagnose(f, scores, space, estimators, draws=8, evaluations=100)
        assert [(row.samples, row.evaluations) for row in diagnosis.rows] == [(1, 7), (1, 7), (100, 100)]

    def test_estimates_counted_by_f_itself(self):
        """f counts its own evaluations: they are those of the table, apart from test calls and the reference."""
        asked = 0

        def f(z):
            nonlocal asked
            asked += len(z)
            return z[..., 0].prod(-1)

        def count(draws):
            nonlocal asked
            asked = 0
            hm.diagnose(f, self.scores, self.space, [hm.LocalExpectation()], draws=draws, evaluations=40)
            return asked

        assert count(60) - count(20) == 40 * 2 * 17

    def test_samples_may_be_fixed(self):
        diagnosis = self.diagnose([hm.Reinforce(), hm.Reinforce("leave-one-out")], samples=1)
        assert diagnosis.rows[0].samples == 1
        assert "at least two samples" in diagnosis.refused[0].reason


class TestRefusals:
    def test_reasons(self):
        def f(z):
            return z.detach().sum(-1).square()

        estimators = [hm.StraightThrough(), hm.ConditionalGradient(), hm.Exact(), hm.Direct()]
        diagnosis = hm.diagnose(f, torch.zeros(3, 25), hm.Binary(25), estimators, draws=4, exact="monte-carlo")
        assert [type(refusal.estimator) for refusal in diagnosis.refused] == [hm.StraightThrough, hm.Exact]
        assert "differentiable" in diagnosis.refused[0].reason
        assert "members" in diagnosis.refused[1].reason
        assert [type(row.estimator) for row in diagnosis.rows] == [hm.ConditionalGradient, hm.Direct]

    def test_every_estimator_refuses(self):
        diagnosis = hm.diagnose(lambda z: z[..., 0], torch.zeros(3), hm.Categorical(3), [hm.ConditionalGradient()])
        assert diagnosis.rows == ()
        assert diagnosis.recommendation is None
        assert "refused" in str(diagnosis)


class TestAcrossTheBatch:
    def test_a_baseline_does_not_average_over_copies(self):
        """A batch of one has no other draws, so its baseline is zero; copies in one call would give a good baseline."""
        space = hm.Binary(3)
        f, scores = Toy(space), torch.randn(3, generator=make_generator(), dtype=torch.float64)
        diagnosis = hm.diagnose(
            lambda z: f(z) + 5,
            scores,
            space,
            [hm.Reinforce("none"), hm.Reinforce("mean")],
            draws=300,
            samples=1,
            generator=make_generator(),
        )
        none, mean = diagnosis.rows
        assert mean.deviation == pytest.approx(none.deviation, rel=0.1)  # a sixth of it with copies in one call
        assert len(diagnosis.notes) == 1
        assert "Reinforce(baseline='mean') uses the entire batch" in str(diagnosis)

    def test_other_estimators_are_not_slowed_down(self):
        space = hm.Binary(3)
        calls = 0

        def f(z):
            nonlocal calls
            calls += 1
            return z.prod(-1)

        hm.diagnose(f, torch.zeros(4, 3), space, [hm.LocalExpectation()], draws=1024)
        assert calls < 60


def test_perturb_and_map_is_noted():
    space = hm.PairwiseBinary(3)
    scores = torch.randn(4, *space.score_shape, generator=make_generator(), dtype=torch.float64)
    diagnosis = hm.diagnose(Toy(space, (4,)), scores, space, [hm.Direct(), hm.GibbsCovariance()], draws=4)
    assert len(diagnosis.notes) == 1
    assert diagnosis.notes[0].startswith("Drawn by perturb-and-MAP: Direct.")


class TestReproducible:
    space = hm.Binary(4)
    f = Toy(space, (5,))
    scores = torch.randn(5, 4, generator=make_generator(), dtype=torch.float64)

    def numbers(self, row):
        return row.bias, row.floor, row.deviation, row.cosine, row.evaluations, row.solves

    def test_a_row_does_not_depend_on_other_rows(self):
        """The same generator gives the same numbers, whatever the other estimators are."""
        direct, other = hm.Direct(0.5), hm.LocalExpectation()
        first = hm.diagnose(
            self.f, self.scores, self.space, [direct], draws=20, evaluations=9, generator=make_generator()
        )
        second = hm.diagnose(
            self.f, self.scores, self.space, [other, direct], draws=20, evaluations=9, generator=make_generator()
        )
        assert self.numbers(first.rows[0]) == self.numbers(second.rows[1])
        third = hm.diagnose(
            self.f, self.scores, self.space, [direct], draws=20, evaluations=9, generator=make_generator(1)
        )
        assert self.numbers(first.rows[0]) != self.numbers(third.rows[0])

    def test_chunks(self):
        most = 0

        def f(z):
            nonlocal most
            most = max(most, len(z))
            return self.f(z)

        rows = []
        for chunk_size in (None, 5):
            most = 0
            rows.append(
                hm.diagnose(f, self.scores, self.space, [hm.Direct(0.5)], draws=64, chunk_size=chunk_size).rows[0]
            )
            assert (most <= 5) == (chunk_size is not None)
        assert rows[0].deviation == pytest.approx(rows[1].deviation, rel=0.3)

    def test_scores_are_unchanged(self):
        scores = self.scores.clone().requires_grad_()
        hm.diagnose(self.f, scores, self.space, [hm.Direct(0.5)], draws=4)
        assert scores.grad is None
        assert self.f.weight.grad is None

    def test_progress(self):
        counts = {}
        hm.diagnose(
            self.f,
            self.scores,
            self.space,
            [hm.Direct(0.5), hm.Exact()],
            draws=20,
            exact="monte-carlo",
            observe=lambda name, count: counts.update({name: counts.get(name, 0) + count}),
        )
        assert counts == {"reference": 80, "Direct(epsilon=0.5)": 20, "Exact()": 20}


def test_single_precision_is_not_a_bias():
    space = hm.Categorical(6)
    scores, worth = torch.randn(8, 6, generator=make_generator()), torch.randn(8, 6, generator=make_generator(1))
    diagnosis = hm.diagnose(lambda z: (z * worth).sum(-1) - 300, scores, space, [hm.Exact()], draws=8)
    assert not diagnosis.rows[0].biased
    assert diagnosis.rows[0].bias < 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draws": 1}, "draws must be at least 2"),
        ({"evaluations": 0}, "evaluations must be positive"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"estimators": []}, "no estimator"),
        ({"estimators": {}}, "no estimator"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, message):
    given = {"estimators": [hm.Direct()], **arguments}
    estimators = given.pop("estimators")
    with pytest.raises(hm.ArgumentError, match=message):
        hm.diagnose(lambda z: z.prod(-1), torch.zeros(3), hm.Binary(3), estimators, **given)


def test_no_gradient_at_all():
    with pytest.raises(hm.ArgumentError, match="is zero"):
        hm.diagnose(lambda z: z.sum(-1) * 0 + 1, torch.zeros(3), hm.Binary(3), [hm.Direct()])
