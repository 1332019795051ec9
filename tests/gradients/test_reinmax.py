"""The ReinMax family: exact for quadratic f, what Gumbel noise changes in it, and what it does not."""

from dataclasses import dataclass

import pytest
import torch
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
from hardmax.testing import assert_bias_vanishes, assert_unbiased


@dataclass(frozen=True)
class Planted(hm.AbstractSampler):
    """ReinMax with tau = 1, written independently, with a planted error."""

    weight: float = 0.5
    leak: bool = False
    joint: bool = False

    def sample(self, scores, space, noise):
        hard = space.draw(scores.detach(), noise)
        q = space.marginals(scores)
        deviation = hard - (q if self.leak else q.detach())
        inner = space.dot(deviation, scores) if self.joint else None
        lead = (..., *(None for _ in space.score_shape))
        inner = space.per_variable(deviation * scores) if inner is None else inner[lead]
        return hard, attach_gradient(hard, (1 - self.weight) * q + self.weight * deviation * inner)


class TestReinMax:
    @pytest.mark.parametrize("space", SPACES, ids=str)
    @pytest.mark.parametrize("degree", [1, 2])
    def test_is_exact_where_f_is_of_degree_two_in_each_variable(self, space, degree):
        scores = normal(*space.score_shape)
        assert exact_bias(hm.ReinMax(), of_degree(space, degree), scores, space) < 1e-12

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_and_not_of_degree_three(self, space):
        assert exact_bias(hm.ReinMax(), of_degree(space, 3), normal(*space.score_shape), space) > 0.01

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_goes_beyond_straight_through(self, space):
        assert exact_bias(hm.StraightThrough(), of_degree(space, 2), normal(*space.score_shape), space) > 0.05

    @pytest.mark.parametrize("space", [hm.Binary(1), hm.Categorical(4), hm.Categorical(3, 2)], ids=str)
    def test_is_unbiased_by_sampling(self, space):
        assert_unbiased(hm.ReinMax(), space, f=of_degree(space, 2), scores=normal(*space.score_shape), draws=100_000)

    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_planted_errors_show(self, space):
        f, scores = of_degree(space, 2), normal(*space.score_shape)
        assert exact_bias(Planted(), f, scores, space) < 1e-12
        for wrong in (Planted(weight=0.45), Planted(weight=0.55), Planted(leak=True), hm.ReinMax(1.1)):
            assert exact_bias(wrong, f, scores, space) > 0.005, wrong

    @pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(3, 2)], ids=str)
    def test_variables_are_kept_apart(self, space):
        """With the log-probability of all variables instead of that of each variable, the mean is wrong."""
        assert exact_bias(Planted(joint=True), of_degree(space, 2), normal(*space.score_shape), space) > 0.03

    @pytest.mark.parametrize("weight", [0.4, 0.6])
    def test_planted_errors_show_by_sampling(self, weight):
        space = hm.Categorical(4)
        with pytest.raises(AssertionError, match="is biased"):
            assert_unbiased(Planted(weight), space, f=of_degree(space, 2), scores=normal(4), draws=100_000)

    @pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
    def test_is_the_formula_of_its_authors(self, tau):
        """2 J((q_tau + z) / 2) - J(q) / 2, applied to grad f(z)."""
        space, scores = hm.Categorical(4), normal(4)
        f, members = of_degree(space, 3), torch.eye(4, dtype=torch.float64)
        slope = slopes(f, members)
        q, q_tau = scores.softmax(-1), (scores / tau).softmax(-1)
        matrix = 2 * jacobian((q_tau + members) / 2) - jacobian(q) / 2
        expected = (matrix @ slope[..., None])[..., 0]
        torch.testing.assert_close(of_every_z(hm.ReinMax(tau), f, scores, space), expected)

    @pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
    def test_bias_of_tau_for_linear_f(self, tau):
        space, scores, weight = hm.Categorical(4), normal(4), normal(4, seed=3)
        estimate = of_every_z(hm.ReinMax(tau), lambda z: z @ weight, scores, space)
        q, q_tau = scores.softmax(-1), (scores / tau).softmax(-1)
        expected = (jacobian(q_tau) + torch.outer(q - q_tau, q - q_tau) / 2) @ weight
        torch.testing.assert_close(q @ estimate, expected)

    def test_of_a_bit_is_half_the_other_probability(self):
        space, scores = hm.Binary(1), torch.tensor([0.7], dtype=torch.float64)
        f = of_degree(space, 3)
        slope = slopes(f, space.enumerate(dtype=torch.float64))
        other = torch.stack([scores.sigmoid(), (-scores).sigmoid()])
        torch.testing.assert_close(of_every_z(hm.ReinMax(), f, scores, space), other / 2 * slope)


@dataclass(frozen=True)
class Noisy(hm.AbstractSampler):
    """ReinMaxRao, or ReinMaxCV with eta = 1, written independently for `Categorical(k)`, with a planted error."""

    tau: float = 0.5
    control: bool = False
    error: str = ""

    noises = 3

    def sample(self, scores, space, noise):
        detached, noise = scores.detach(), noise.unflatten(0, (-1, 3)).movedim(1, 0)
        z, q = space.draw(detached, noise[0]), space.marginals(scores)
        rest = noise if self.error == "noise of z" else torch.stack([space.residual(detached, noise[0], z), *noise[1:]])
        average = (q.detach() + (space.draw(detached, noise[1]) if self.error == "another z" else z)) / 2
        free, given = (average.log() + rest, space.conditional(average.log(), rest, z.expand(rest.shape)))
        if self.control and self.error == "free":
            given = torch.cat([free[:1], given[1:]])
        soft = space.relax((given if self.control else free) + (scores - detached), self.tau)
        if not self.control:
            other = space.marginals(average.log() + (scores - detached)) if self.error == "average" else q
            return z, attach_gradient(z, (1 if self.error == "factor" else 2) * soft.mean(0) - other / 2)
        first = -soft[0] if self.error == "sign" else soft[0]
        deviation = (z - q).detach()
        reinmax = q / 2 + deviation * (deviation * scores).sum(-1, keepdim=True) / 2
        return z, attach_gradient(z, reinmax + soft.mean(0) - first)


class TestReinMaxRao:
    @pytest.mark.parametrize("given_z", [False, True])
    def test_is_the_mean_over_its_draws(self, given_z):
        """Two samples of three draws: which noise goes where, and what is held fixed."""
        space, scores, tau = hm.Categorical(4), normal(4), 0.6
        f, q = of_degree(space, 3), scores.softmax(-1)
        noise = space.noise((6,), torch.Generator().manual_seed(5), dtype=torch.float64)
        expected = torch.zeros(4, dtype=torch.float64)
        for first, *others in (noise[:3], noise[3:]):
            z = space.argmax(scores + first)
            average = ((q + z) / 2).log()
            perturbed = [average + n for n in (space.residual(scores, first, z), *others)]
            if given_z:
                perturbed = [space.conditional(average, p - average, z) for p in perturbed]
                assert all(torch.equal(space.argmax(p), z) for p in perturbed)
            for p in perturbed:
                matrix = 2 * jacobian((p / tau).softmax(-1)) / tau - jacobian(q) / 2
                expected += matrix @ slopes(f, z) / 6
        estimator = hm.ReinMaxRao(3, tau, given_z)
        torch.testing.assert_close(gradient(f, scores, space, estimator, noise), expected)
        if not given_z:
            torch.testing.assert_close(gradient(f, scores, space, Noisy(tau), noise), expected)

    @pytest.mark.parametrize("space", [hm.Binary(2), hm.Categorical(3)], ids=str)
    def test_bias_vanishes_where_f_is_of_degree_two(self, space):
        """As the square of tau; given z it does not, already for linear f."""
        arguments = {"space": space, "steps": (1.0, 0.25), "scores": normal(*space.score_shape)}
        arguments |= {"draws": 120_000, "resolution": 0.15}
        rao, published = (lambda tau, given_z=given_z: hm.ReinMaxRao(2, tau, given_z) for given_z in (False, True))
        ladder = assert_bias_vanishes(rao, f=of_degree(space, 2), order=2.0, **arguments)
        assert ladder.bias[0] > 0.1
        for wrong, degree in ((rao, 3), (published, 1)):
            with pytest.raises(AssertionError, match="does not fall"):
                assert_bias_vanishes(wrong, f=of_degree(space, degree), **arguments)

    @pytest.mark.parametrize("error", ["", "factor", "average", "noise of z", "another z"])
    def test_planted_errors_show(self, error):
        space = hm.Categorical(3)
        arguments = {"f": of_degree(space, 2), "scores": normal(3), "steps": (1.0, 0.25), "draws": 120_000}
        if not error:
            assert_bias_vanishes(Noisy, space, order=2.0, **arguments)
            return
        with pytest.raises(AssertionError, match="does not fall"):
            assert_bias_vanishes(lambda tau: Noisy(tau, error=error), space, order=2.0, **arguments)

    @pytest.mark.parametrize("given_z", [False, True])
    @pytest.mark.parametrize("space", SPACES, ids=str)
    def test_a_large_tau_reverses_the_gradient(self, space, given_z):
        f, scores = of_degree(space, 3), normal(*space.score_shape)
        noise = space.noise((3,), torch.Generator().manual_seed(0), dtype=torch.float64)
        expected = -gradient(f, scores, space, hm.StraightThrough(), noise) / 2
        estimate = gradient(f, scores, space, hm.ReinMaxRao(1, 1e6, given_z), noise)
        torch.testing.assert_close(estimate, expected, rtol=1e-3, atol=1e-5)

    def test_variance_falls_as_one_over_draws_to_no_less_than_that_of_reinmax(self):
        """Var = A + B / draws, and A tends to the variance of ReinMax for a small tau."""
        space, scores = hm.Categorical(4), normal(4)
        f = of_degree(space, 2)
        one, two, eight = (estimates(hm.ReinMaxRao(n, 0.2), f, scores, space, 100_000) for n in (1, 2, 8))
        one, two, eight, plain = (
            float(g.var(0).sum()) for g in (one, two, eight, estimates(hm.ReinMax(), f, scores, space, 100_000))
        )
        limit = 2 * two - one
        assert eight == pytest.approx(limit + 2 * (one - two) / 8, rel=0.08)
        assert one > 2 * eight > 2 * plain
        assert limit == pytest.approx(plain, rel=0.25)

    def test_less_variance_than_reinmax_only_with_a_bias(self):
        """A quarter of the second order, for the same cost as ReinMax, has less of both."""
        space, scores = hm.Categorical(4), normal(4)
        f, draws = of_degree(space, 1), 50_000
        plain, rao, mixed = (
            estimates(estimator, f, scores, space, draws, seed=seed)
            for seed, estimator in enumerate([hm.ReinMax(), hm.ReinMaxRao(20, 1.0), Planted(weight=0.25)])
        )
        assert compare_variances(rao, plain) < -5.5
        assert compare_variances(mixed, rao) < -5.5
        assert largest_z(plain, rao) > 5.5
        assert largest_z(plain, mixed) < 5.5


def compare_variances(first, second):
    """Return the z of the difference of the total variances of two independent sets of gradients."""
    first, second = ((g - g.mean(0)).square().flatten(1).sum(1) for g in (first, second))
    return float((first.mean() - second.mean()) / (first.var() / len(first) + second.var() / len(second)).sqrt())


@pytest.mark.parametrize("space", [hm.Binary(2), hm.Categorical(3), hm.Categorical(3, 2)], ids=str)
@pytest.mark.parametrize(
    ("make", "tau", "order", "missing"),
    [
        (hm.GumbelRao, 0.1, 1, 0.0),
        (hm.ReinMaxRao, 0.2, 2, 0.0),
        (lambda draws, tau: hm.ReinMaxRao(draws, tau, given_z=True), 0.05, 1, 0.5),
    ],
    ids=["GumbelRao", "ReinMaxRao", "ReinMaxRao given z"],
)
def test_limit_of_a_small_tau_and_many_draws(make, tau, order, missing, space):
    """Given z it is ReinMax, or with `given_z` ReinMax without half of straight-through."""
    f, scores, draws = of_degree(space, 3), normal(*space.score_shape), 200_000
    z = space.sample(scores, generator=torch.Generator().manual_seed(1))
    noise = space.noise((draws,), torch.Generator().manual_seed(0), dtype=torch.float64)
    noise[0] = 200 * (z[0] - 0.5)
    reinmax = gradient(f, scores, space, hm.ReinMax(), noise[:1])
    limit = reinmax - missing * gradient(f, scores, space, hm.StraightThrough(), noise[:1])
    far, near = (gradient(f, scores, space, make(draws, t), noise) for t in (2 * tau, tau))
    distance = lambda estimate: float((estimate - limit).norm() / reinmax.norm())  # noqa: E731
    assert distance(far) > 0.8 * 2**order * distance(near) > 0.03
    assert distance((2**order * near - far) / (2**order - 1)) < 0.04
    assert distance(gradient(f, scores, space, Planted(weight=0.4), noise[:1])) > 0.06  # would fail


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(3, 2)], ids=str)
@pytest.mark.parametrize("estimator", [hm.ReinMaxRao(), hm.ReinMaxRao(given_z=True), hm.ReinMaxCV()], ids=str)
def test_half_precision_costs_no_more_than_its_rounding(estimator, space, dtype):
    """Also for scores whose probabilities round to zero and one."""
    scores = (6 * normal(40, *space.score_shape)).to(dtype)
    noise = space.noise((estimator.noises, 40), torch.Generator().manual_seed(0))
    assert noise.dtype == torch.float32
    results = []
    for leaf in (scores.clone(), scores.double()):
        z = hm.sample(leaf.requires_grad_(), space, estimator, noise=noise)[0]
        assert z.dtype == leaf.dtype
        results.append(torch.autograd.grad((z * normal(*space.event_shape).to(dtype).to(leaf.dtype)).sum(), leaf)[0])
    torch.testing.assert_close(results[0].double(), results[1], rtol=0.05, atol=0.05)


class TestReinMaxCV:
    def test_is_reinmax_and_the_control_variate(self):
        space, scores, tau, eta = hm.Categorical(4), normal(4), 0.6, 0.7
        f = of_degree(space, 3)
        noise = space.noise((3,), torch.Generator().manual_seed(5), dtype=torch.float64)
        z = space.argmax(scores + noise[0])
        average = ((scores.softmax(-1) + z) / 2).log()
        rest = [space.residual(scores, noise[0], z), noise[1], noise[2]]
        matrices = [jacobian((space.conditional(average, n, z) / tau).softmax(-1)) / tau for n in rest]
        control = (sum(matrices) / 3 - matrices[0]) @ slopes(f, z)
        expected = gradient(f, scores, space, hm.ReinMax(), noise[:1]) + eta * control
        torch.testing.assert_close(gradient(f, scores, space, hm.ReinMaxCV(eta, 3, tau), noise), expected)

    @pytest.mark.parametrize("space", SPACES, ids=str)
    @pytest.mark.parametrize("estimator", [hm.ReinMaxCV(draws=1), hm.ReinMaxCV(0.0, 3)], ids=str)
    def test_without_a_control_variate_it_is_reinmax(self, estimator, space):
        f, scores = of_degree(space, 3), normal(*space.score_shape)
        noise = space.noise((2 * estimator.noises,), torch.Generator().manual_seed(0), dtype=torch.float64)
        expected = gradient(f, scores, space, hm.ReinMax(), noise[:: estimator.noises])
        torch.testing.assert_close(gradient(f, scores, space, estimator, noise), expected)

    @pytest.mark.parametrize("space", [hm.Binary(2), hm.Categorical(4), hm.Categorical(3, 2)], ids=str)
    @pytest.mark.parametrize("estimator", [hm.ReinMaxCV(), hm.ReinMaxCV(-2.0, 2, 1.5)], ids=str)
    def test_is_unbiased_where_f_is_of_degree_two(self, estimator, space):
        assert_unbiased(
            estimator, space, f=of_degree(space, 2), scores=normal(*space.score_shape), resolution=0.4, draws=50_000
        )

    @pytest.mark.parametrize("error", ["", "sign", "free", "noise of z"])
    def test_planted_errors_show(self, error):
        """The wrong sign of one Jacobian; straight-through Gumbel-softmax not given z, or by the noise that drew z."""
        space = hm.Categorical(4)
        arguments = {"f": of_degree(space, 2), "scores": normal(4), "draws": 50_000, "resolution": 0.5}
        if not error:
            assert_unbiased(Noisy(control=True), space, **arguments)
            return
        with pytest.raises(AssertionError, match="is biased"):
            assert_unbiased(Noisy(control=True, error=error), space, **arguments)

    @pytest.mark.parametrize("space", [hm.Binary(2), hm.Categorical(4), hm.Categorical(3, 2)], ids=str)
    def test_control_variate_is_uncorrelated_with_reinmax(self, space):
        """So the variance grows as the square of eta. A control variate that depends on z is correlated."""
        f, scores, draws = of_degree(space, 3), normal(*space.score_shape), 50_000
        plain = estimates(hm.ReinMaxCV(0.0, 4), f, scores, space, draws)
        control = estimates(hm.ReinMaxCV(1.0, 4), f, scores, space, draws) - plain
        doubled = estimates(hm.ReinMaxCV(2.0, 4), f, scores, space, draws)
        torch.testing.assert_close(doubled, plain + 2 * control)
        assert correlate(plain, control) < 5.5
        assert compare_variances(doubled, plain) > 5.5
        dependent = estimates(hm.ReinMaxRao(4, given_z=True), f, scores, space, draws) - plain
        assert correlate(plain, dependent) > 5.5


def correlate(first, second):
    """Return the largest |z| of the covariances between the components of two sets of gradients."""
    first, second = ((g - g.mean(0)).flatten(1) for g in (first, second))
    products = (first[:, :, None] * second[:, None, :]).flatten(1)
    return float((products.mean(0).abs() / (products.std(0) / len(products) ** 0.5)).max())
