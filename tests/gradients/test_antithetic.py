"""ARM, DisARM, DisARM for categories, and ARSM: compared with enumeration, closed forms, and each other."""

from dataclasses import dataclass, replace
from math import isclose

import pytest
import torch
from cases import Counted, Rows, Toy, gradients

import hardmax as hm
from hardmax.estimators import arm as arsm
from hardmax.estimators import arm as disarm_categorical
from hardmax.estimators import attach_gradient
from hardmax.estimators.arm import Arm, Arsm, DisArm, DisArmCategorical
from hardmax.testing import assert_unbiased

BITS = [hm.Binary(1), hm.Binary(3)]
CATEGORIES = [hm.Categorical(4), hm.Categorical(3, 1), hm.Categorical(3, 2)]
CASES = [(space, estimator) for space in BITS for estimator in (Arm(), DisArm())] + [
    (space, estimator) for space in CATEGORIES for estimator in (DisArmCategorical(), Arsm())
]
LARGER = [case for case in CASES if case[0] not in (hm.Binary(1), hm.Categorical(3, 1))]


def problem(space, batch=(5,), samples=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)
    return scores, space.noise((samples, *batch), generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize(("space", "estimator"), CASES, ids=str)
def test_unbiased(space, estimator, samples):
    assert_unbiased(estimator, space, samples=samples)


class TestPlantedErrors:
    """Wrong estimators must fail the same assertion."""

    @staticmethod
    def assert_caught(estimator, space, scores=None):
        with pytest.raises(AssertionError, match="is biased"):
            assert_unbiased(estimator, space, scores=scores)

    @pytest.mark.parametrize("factor", [-1.0, 1.25])
    @pytest.mark.parametrize(("space", "estimator"), LARGER, ids=str)
    def test_factor(self, space, estimator, factor):
        self.assert_caught(Scaled(estimator, factor), space)

    @pytest.mark.parametrize("space", BITS, ids=str)
    @pytest.mark.parametrize("weight", ["arm", "disarm"])
    def test_second_draw_is_not_antithetic(self, space, weight):
        self.assert_caught(Pair(weight, antithetic=False), space)
        assert_unbiased(Pair("leave-one-out", antithetic=False), space)  # which is right for independent draws

    @pytest.mark.parametrize("weight", ["leave-one-out", "no absolute value"])
    def test_importance_weight_of_the_pair(self, weight):
        self.assert_caught(Pair(weight, antithetic=True), hm.Binary(3))
        assert_unbiased(Pair("disarm", antithetic=True), hm.Binary(3))

    @pytest.mark.parametrize("space", CATEGORIES, ids=str)
    @pytest.mark.parametrize("wrong", ["no importance weight", "no later bits", "only one reached"])
    def test_case_of_the_sticks(self, space, wrong, monkeypatch):
        right, is_reached = disarm_categorical._weights, disarm_categorical._is_reached

        def weights(log_odds, bits, opposite):
            first, second = is_reached(bits), is_reached(opposite)
            correct = right(log_odds, bits, opposite)
            if wrong == "no importance weight":
                return torch.where(first & second, correct / log_odds.abs().sigmoid(), correct)
            if wrong == "no later bits":
                return torch.where(first & second, correct, 0.0)
            return torch.where(second & ~first, 0.0, correct)

        monkeypatch.setattr(disarm_categorical, "_weights", weights)
        self.assert_caught(DisArmCategorical(), space, torch.zeros(space.score_shape, dtype=torch.float64))

    @pytest.mark.parametrize("space", CATEGORIES, ids=str)
    def test_gumbel_noise_is_not_logistic(self, space, monkeypatch):
        monkeypatch.setattr(disarm_categorical, "_transform_to_logistic", lambda gumbel: gumbel)
        self.assert_caught(DisArmCategorical(), space)

    @pytest.mark.parametrize("space", CATEGORIES, ids=str)
    @pytest.mark.parametrize("wrong", ["no diagonal", "one half", "order"])
    def test_table_of_the_swaps(self, space, wrong, monkeypatch):
        right = arsm._tabulate_swaps

        def tabulate(values, swap_values, k):
            correct = right(values, swap_values, k)
            if wrong == "no diagonal":
                return correct * (1 - torch.eye(k, dtype=correct.dtype)).view(k, k, *(1 for _ in values.shape))
            if wrong == "one half":
                below = torch.ones(k, k, dtype=torch.bool).tril().view(k, k, *(1 for _ in values.shape))
                return torch.where(below, correct, values)
            return right(values, swap_values.flip(0), k)

        monkeypatch.setattr(arsm, "_tabulate_swaps", tabulate)
        self.assert_caught(Arsm(), space)

    @pytest.mark.parametrize("space", CATEGORIES, ids=str)
    def test_swaps_of_other_noise(self, space, monkeypatch):
        right = arsm._swap_noise
        monkeypatch.setattr(arsm, "_swap_noise", lambda noise, k: right(noise.roll(1, 1), k))
        self.assert_caught(Arsm(), space)


@dataclass(frozen=True)
class Scaled(hm.AbstractEstimator):
    """Another estimator with its gradient multiplied."""

    inner: hm.AbstractEstimator
    factor: float

    def estimate(self, f, scores, space, noise):
        out = self.inner.estimate(f, scores, space, noise)
        return replace(out, value=out.value.detach() + self.factor * (out.value - out.value.detach()))


@dataclass(frozen=True)
class Pair(hm.AbstractEstimator):
    """The difference of f at two draws of bits, independent or not, with weights that may not fit."""

    weight: str
    antithetic: bool

    noises = 2

    def estimate(self, f, scores, space, noise):
        noise, second_noise = noise.unflatten(0, (-1, 2)).unbind(1)
        second_noise = -noise if self.antithetic else second_noise
        first, second = space.draw(scores.detach(), noise), space.draw(scores.detach(), second_noise)
        values = f(first)
        weight = {
            "arm": noise.sigmoid() - 0.5,
            "disarm": (first - second) / 2 * scores.abs().sigmoid(),
            "no absolute value": (first - second) / 2 * scores.sigmoid(),
            "leave-one-out": (first - second) / 2,
        }[self.weight]
        gradient = ((values - f(second))[..., None] * weight).mean(0).detach()
        value = attach_gradient(values.mean(0), space.dot(gradient, scores))
        return hm.Estimate(value, first, f.evaluations, 2.0 * len(noise))


class TestOneBit:
    """Over a fine grid of noise, the mean and the mean square are known integrals."""

    score, low, high = 0.7, -0.3, 1.1

    def estimate_gradients(self, estimator):
        u = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
        scores = torch.full((100_000, 1), self.score, dtype=torch.float64, requires_grad=True)
        f = lambda z: self.low + (self.high - self.low) * z[..., 0]  # noqa: E731
        out = hm.expectation(f, scores, hm.Binary(1), estimator, noise=u.logit()[None, :, None])
        return torch.autograd.grad(out.value.sum(), scores)[0]

    @pytest.mark.parametrize("estimator", [Arm(), DisArm()], ids=str)
    def test_mean(self, estimator):
        q = torch.tensor(self.score, dtype=torch.float64).sigmoid().item()
        assert isclose(
            self.estimate_gradients(estimator).mean().item(), (self.high - self.low) * q * (1 - q), rel_tol=1e-4
        )

    def test_mean_square(self):
        # The pair differs where u is closer to 0 or to 1 than `rare`.
        rare = 1 - torch.tensor(abs(self.score), dtype=torch.float64).sigmoid().item()
        size = (self.high - self.low) ** 2
        arm = size * 2 / 3 * (0.5**3 - (0.5 - rare) ** 3)
        disarm = size / 4 * (1 - rare) ** 2 * 2 * rare
        assert disarm < arm
        assert isclose(self.estimate_gradients(Arm()).square().mean().item(), arm, rel_tol=1e-4)
        assert isclose(self.estimate_gradients(DisArm()).square().mean().item(), disarm, rel_tol=1e-4)


class TestRaoBlackwell:
    """DisARM is the mean of ARM given the pair."""

    draws = 100_000

    def estimate_gradients(self, space, *estimators):
        scores, noise = problem(space, (self.draws,), samples=1)
        scores = scores[:1].expand(self.draws, -1)
        return [gradients(Toy(space), scores, space, estimator, noise=noise)[1] for estimator in estimators], [
            space.draw(scores, sign * noise)[0] for sign in (1, -1)
        ]

    def largest_z(self, *estimators):
        (first, second), pair = self.estimate_gradients(hm.Binary(2), *estimators)
        code = torch.cat(pair, -1).long() @ (2 ** torch.arange(4))
        largest = 0.0
        for value in code.unique():
            difference = (first - second)[code == value]
            error = (difference.std(0) / len(difference) ** 0.5).clamp_min(1e-12)
            largest = max(largest, (difference.mean(0).abs() / error).max().item())
        return largest

    def test_mean_given_the_pair(self):
        assert self.largest_z(Arm(), DisArm()) < 5.5  # two-sided normal tail of 1e-6 shared by 32 components
        assert self.largest_z(Arm(), Scaled(DisArm(), 1.1)) > 5.5

    def test_variance(self):
        (arm, disarm), _ = self.estimate_gradients(hm.Binary(6), Arm(), DisArm())
        assert (disarm.var(0) < arm.var(0)).all()
        # Rao-Blackwell removes the variance of the difference.
        torch.testing.assert_close(arm.var(0) - disarm.var(0), (arm - disarm).var(0), rtol=0.2, atol=0.0)


class TestTwoCategories:
    """Two categories are a bit, whose score and noise are differences; both estimators are then the ones for bits."""

    def test_arsm_is_arm(self):
        scores, noise = problem(hm.Categorical(2, 3))
        f = Toy(hm.Binary(3))
        pairs = Composed(f, lambda z: z[..., 0])
        out, for_pairs, _ = gradients(pairs, scores, hm.Categorical(2, 3), Arsm(), noise=noise)
        bits_out, for_bits, _ = gradients(
            f, scores[..., 0] - scores[..., 1], hm.Binary(3), Arm(), noise=noise[..., 0] - noise[..., 1]
        )
        torch.testing.assert_close(for_pairs, torch.stack([for_bits, -for_bits], -1))
        assert out.evaluations == bits_out.evaluations == 6
        assert torch.equal(out.z[..., 0], bits_out.z)

    def test_disarm(self):
        scores, noise = problem(hm.Categorical(2, 3))
        f = Toy(hm.Binary(3))
        out, for_pairs, _ = gradients(
            Composed(f, lambda z: z[..., 0]), scores, hm.Categorical(2, 3), DisArmCategorical(), noise=noise
        )
        # The less likely of the two values is considered first, with the noise of the first category.
        uniform = (-(-noise[..., 0]).exp()).exp()
        sign = (scores[..., 1] - scores[..., 0]).sign()
        bits_out, for_bits, _ = gradients(
            f, scores[..., 0] - scores[..., 1], hm.Binary(3), DisArm(), noise=sign * uniform.logit()
        )
        assert 0 < (sign > 0).sum() < sign.numel()  # both orders occur
        torch.testing.assert_close(for_pairs, torch.stack([for_bits, -for_bits], -1))
        assert torch.equal(out.z[..., 0], bits_out.z)


class Composed:
    """A Toy of a transformed z."""

    def __init__(self, f, transform):
        self.f, self.transform, self.weight = f, transform, f.weight

    def __call__(self, z):
        return self.f(self.transform(z))


class TestByTheBook:
    """One example at a time, in loops, from the equations."""

    @pytest.mark.parametrize("space", CATEGORIES, ids=str)
    def test_arsm(self, space):
        scores, noise = problem(space, (), samples=1)
        f, k = Toy(space), space.k
        p = torch.exp(-noise[0]) / torch.exp(-noise[0]).sum(-1, keepdim=True)
        values = torch.zeros(k, k, dtype=torch.float64)
        for c in range(k):
            for j in range(k):
                swapped = noise.clone()
                swapped[..., c], swapped[..., j] = noise[..., j], noise[..., c]
                values[c, j] = f(space.draw(scores, swapped))[0].detach()
        expected = torch.zeros(space.score_shape, dtype=torch.float64)
        for c in range(k):
            for j in range(k):
                expected[..., c] += (values[c, j] - values[:, j].mean()) * (1 / k - p[..., j])
        torch.testing.assert_close(gradients(f, scores, space, Arsm(), noise=noise)[1], expected)

    @pytest.mark.parametrize("space", CATEGORIES, ids=str)
    @pytest.mark.parametrize("seed", range(8))
    def test_disarm(self, space, seed):
        scores, noise = problem(space, (), samples=1, seed=seed)
        f, k = Toy(space), space.k
        rows = scores.view(-1, k).clone().requires_grad_()
        pairs, surrogates = [], []
        for row, gumbel in zip(rows, noise.view(-1, k), strict=True):
            order = row.argsort().tolist()
            log_odds = [row[order[i]] - row[order[i + 1 :]].logsumexp(0) for i in range(k - 1)]
            u = [torch.exp(-torch.exp(-gumbel[i])).item() for i in range(k - 1)]
            q = [a.sigmoid().item() for a in log_odds]
            bits = [[u[i] > 1 - q[i] for i in range(k - 1)] + [True], [u[i] < q[i] for i in range(k - 1)] + [True]]
            first, second = (b.index(True) for b in bits)
            surrogate = torch.zeros((), dtype=torch.float64)
            for i, a in enumerate(log_odds):
                if i <= min(first, second):
                    weight = (bits[0][i] - bits[1][i]) * max(q[i], 1 - q[i])
                elif i <= first:
                    weight = bits[0][i] - q[i]
                elif i <= second:
                    weight = q[i] - bits[1][i]
                else:
                    weight = 0.0
                surrogate = surrogate + weight / 2 * a
            pairs.append([torch.eye(k, dtype=torch.float64)[order[rank]] for rank in (first, second)])
            surrogates.append(surrogate)
        z, opposite = (torch.stack([pair[i] for pair in pairs]).view(1, *space.event_shape) for i in range(2))
        difference = (f(z) - f(opposite)).detach()[0]
        expected = torch.autograd.grad(difference * sum(surrogates), rows)[0].view_as(scores)
        out, estimate, _ = gradients(f, scores, space, DisArmCategorical(), noise=noise)
        assert torch.equal(out.z, z)
        torch.testing.assert_close(estimate, expected)


@pytest.mark.parametrize("estimator", [DisArmCategorical(), Arsm()], ids=str)
@pytest.mark.parametrize("space", CATEGORIES, ids=str)
def test_gradient_of_a_shift_is_zero(space, estimator):
    scores, noise = problem(space, (50,))
    estimate = gradients(Toy(space), scores, space, estimator, noise=noise)[1]
    assert estimate.abs().max() > 0.1
    torch.testing.assert_close(estimate.sum(-1), torch.zeros_like(estimate[..., 0]))


@pytest.mark.parametrize("estimator", [DisArmCategorical(), Arsm()], ids=str)
def test_names_of_categories_do_not_matter(estimator):
    """The noise of DisARM belongs to ranks, that of ARSM to categories."""
    space, shuffle = hm.Categorical(4, 2), torch.tensor([2, 0, 3, 1])
    scores, noise = problem(space)
    f = Toy(space)
    renamed = Composed(f, lambda z: z[..., shuffle.argsort()])
    expected = gradients(f, scores, space, estimator, noise=noise)[1][..., shuffle]
    noise = noise[..., shuffle] if isinstance(estimator, Arsm) else noise
    torch.testing.assert_close(gradients(renamed, scores[..., shuffle], space, estimator, noise=noise)[1], expected)


@pytest.mark.parametrize(("space", "estimator"), CASES, ids=str)
def test_what_f_closes_over_has_the_gradient_of_the_samples(space, estimator):
    scores, noise = problem(space)
    f = Toy(space)
    out, _, for_weight = gradients(f, scores, space, estimator, noise=noise)
    expected = f(out.z).mean(0)
    assert out.z.shape == noise.shape
    torch.testing.assert_close(out.value, expected)
    torch.testing.assert_close(for_weight, torch.autograd.grad(expected.sum(), f.weight)[0])


@pytest.mark.parametrize(("space", "estimator"), CASES, ids=str)
def test_more_samples_are_a_mean(space, estimator):
    scores, noise = problem(space)
    f = Toy(space)
    each = [gradients(f, scores, space, estimator, noise=noise[s : s + 1])[1] for s in range(3)]
    estimate = gradients(f, scores, space, estimator, noise=noise)[1]
    torch.testing.assert_close(estimate, torch.stack(each).mean(0))


@pytest.mark.parametrize(("space", "estimator"), [*CASES, (hm.Categorical(1), Arsm())], ids=str)
def test_cost(space, estimator):
    scores, noise = problem(space)
    each = 1 + space.k * (space.k - 1) // 2 if isinstance(estimator, Arsm) else 2
    for chunk_size in (None, 2):
        f = Counted(Toy(space, (5,)))
        out = hm.expectation(f, scores, space, estimator, noise=noise, chunk_size=chunk_size)
        assert out.evaluations == f.evaluations / 5 == out.solves == 3 * each


@pytest.mark.parametrize("space", [hm.Categorical(5), hm.Categorical(4, 2)], ids=str)
def test_rows_save_arsm_the_swaps_that_change_nothing(space):
    scores, noise = problem(space, (20,), samples=2)
    f_with_rows, f = Counted(Rows(space, (20,))), Toy(space, (20,))
    expected = gradients(Composed(f, lambda z: z), scores, space, Arsm(), noise=noise)
    f_with_rows.weight = f_with_rows.f.weight
    result = gradients(f_with_rows, scores, space, Arsm(), noise=noise)
    torch.testing.assert_close(result[1:], expected[1:])
    assert result[0].evaluations == f_with_rows.evaluations / 20 < 0.7 * expected[0].evaluations


@pytest.mark.parametrize("estimator", [DisArmCategorical(), Arsm()], ids=str)
@pytest.mark.parametrize("space", [hm.Categorical(1), hm.Categorical(1, 2)], ids=str)
def test_one_value_has_no_gradient(space, estimator):
    scores, noise = problem(space)
    assert (gradients(Toy(space), scores, space, estimator, noise=noise)[1] == 0).all()


@pytest.mark.parametrize(("space", "estimator"), CASES, ids=str)
def test_vmap_of_grad(space, estimator):
    scores, noise = problem(space)
    f = Rows(space)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise).value

    estimate = torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise)
    torch.testing.assert_close(estimate, gradients(f, scores, space, estimator, noise=noise)[1])


@pytest.mark.parametrize(("space", "estimator"), CASES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_float32_and_large_scores(space, estimator, scale):
    """Rounding may not flip a bit here, so float32 must agree with float64 up to rounding."""
    scores, noise = problem(space, (200,), samples=2)
    # Noise of few digits is added to the ties without rounding.
    scores, noise = (scale * scores).float(), ((256 * noise).round() / 256).float()
    scores[:10] = scale  # ties
    f, wide = Toy(space, dtype=torch.float32), Toy(space)
    out, estimate, _ = gradients(f, scores, space, estimator, noise=noise)
    expected_out, expected, _ = gradients(wide, scores.double(), space, estimator, noise=noise.double())
    assert torch.equal(out.z.double(), expected_out.z)
    torch.testing.assert_close(estimate.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", [Arm(), DisArm()], ids=str)
@pytest.mark.parametrize("space", [hm.Categorical(2), hm.Subset(3, 1), hm.PairwiseBinary(3)], ids=str)
def test_bits_only(space, estimator):
    with pytest.raises(hm.NotExactError, match="bits"):
        hm.expectation(lambda z: z.sum(-1), torch.zeros(space.score_shape), space, estimator)


@pytest.mark.parametrize("estimator", [DisArmCategorical(), Arsm()], ids=str)
@pytest.mark.parametrize("space", [hm.Binary(2), hm.Chain(3, 3)], ids=str)
def test_categories_only(space, estimator):
    with pytest.raises(hm.NotExactError, match="categorical"):
        hm.expectation(lambda z: z.sum(-1), torch.zeros(space.score_shape), space, estimator)
