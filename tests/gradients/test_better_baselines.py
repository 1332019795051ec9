"""Score-function estimators with better baselines: sets without replacement, and control variates of known mean."""

from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np
import pytest
import torch
from cases import EDGE_SPACES, SMALL_SPACES, Counted, Rows, Toy, gradients

import hardmax as hm
from hardmax.estimators import abstract, unordered_set
from hardmax.estimators.reinforce import MuProp
from hardmax.estimators.rodeo import DoubleControlVariates, Rodeo
from hardmax.estimators.unordered_set import UnorderedSet, compute_set_weights, draw_without_replacement
from hardmax.testing import assert_exact, assert_unbiased

LEAVE_ONE_OUT = hm.Reinforce("leave-one-out")
CONTROLLED = [
    (MuProp(), 1),
    (MuProp(), 2),
    (MuProp(), 3),
    (MuProp("leave-one-out"), 2),
    (MuProp("leave-one-out"), 3),
    (DoubleControlVariates(), 2),
    (DoubleControlVariates(), 3),
    (DoubleControlVariates(0.5), 3),
    (Rodeo(), 2),
    (Rodeo(), 3),
    (Rodeo(5.0), 4),
]
ALL = [UnorderedSet(), MuProp(), MuProp("leave-one-out"), DoubleControlVariates(), Rodeo()]
SLOPED = [MuProp(), MuProp("leave-one-out"), DoubleControlVariates()]
LARGER = [space for space in SMALL_SPACES if space.size > 2]


def problem(space, batch=(5,), samples=3, dtype=torch.float64, kind=Toy):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64).to(dtype)
    return kind(space, batch, dtype), scores, space.noise((samples, *batch), generator=generator, dtype=dtype)


def for_scores(estimator, space, scores, noise, f):
    return gradients(f, scores, space, estimator, noise=noise)[1]


def linear(space):
    weight = torch.randn(space.event_shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return lambda z: 2.0 + (z * weight).sum(tuple(range(-len(space.event_shape), 0)))


# --------------------------------------------------------------------------------- weights of sets
def set_probability(p, members, rest):
    """Return the probability that these members are drawn before all the rest, summed over their orders."""
    total = 0.0
    for order in permutations(members):
        total += prod(p[i] / (rest + sum(p[j] for j in order[rank:])) for rank, i in enumerate(order))
    return total


def large_set_probability(p, rest):
    """Return the same for all members of p, by recursion over its 2^S subsets."""
    size = len(p)
    total = np.zeros(1)
    for value in p:
        total = np.concatenate([total, total + value])
    count = np.array([bin(subset).count("1") for subset in range(2**size)])
    probability = np.zeros(2**size)
    probability[0] = 1.0
    for drawn in range(size):
        for i in range(size):
            subset = np.flatnonzero((count == drawn) & ((np.arange(2**size) >> i) & 1 == 0))
            probability[subset | (1 << i)] += probability[subset] * p[i] / (rest + total[-1] - total[subset])
    return probability[-1]


def make_members(size, spread, rest, seed=0):
    """Return the probabilities of the members of a set; the members outside it have the total probability `rest`."""
    logits = spread * torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (1 - rest) * logits.softmax(0)


class TestWeights:
    @pytest.mark.parametrize("size", [2, 3, 5])
    @pytest.mark.parametrize("spread", [0.0, 2.0, 8.0])
    @pytest.mark.parametrize("rest", [0.999999, 0.5, 1e-3, 1e-9])
    def test_against_all_orders(self, size, spread, rest):
        p = make_members(size, spread, rest)
        rest = float(1 - p.sum())
        members = set(range(size))
        probability = set_probability(p.tolist(), members, rest)
        without = [set_probability(p.tolist(), members - {s}, rest) for s in range(size)]
        first, second = compute_set_weights(p)
        expected = p * torch.tensor(without, dtype=torch.float64) / probability
        torch.testing.assert_close(first, expected, rtol=0, atol=1e-11)
        for s in range(size):
            for t in members - {s}:
                expected = p[t].item() * set_probability(p.tolist(), members - {s, t}, rest) / without[s]
                assert abs(second[s, t].item() - expected) < 1e-11

    @pytest.mark.parametrize(("spread", "rest"), [(0.0, 0.9), (1.0, 0.5), (3.0, 0.01)])
    def test_sixteen(self, spread, rest):
        p = make_members(16, spread, rest)
        first, second = compute_set_weights(p)
        array, rest = p.numpy(), float(1 - p.sum())
        without_one = large_set_probability(np.delete(array, 0), rest)
        assert abs(first[0].item() - array[0] * without_one / large_set_probability(array, rest)) < 1e-11
        without_both = large_set_probability(np.delete(array, [0, 5]), rest)
        assert abs(second[0, 5].item() - array[5] * without_both / without_one) < 1e-11

    @pytest.mark.parametrize("size", [2, 8, 64])
    @pytest.mark.parametrize("spread", [0.0, 3.0])
    def test_second_order_weights_are_a_mean_over_the_others(self, size, spread):
        p = torch.stack([make_members(size, spread, rest) for rest in (0.999, 0.3, 1e-4)])
        second = compute_set_weights(p)[1]
        others = second.sum(-1) - second.diagonal(dim1=-2, dim2=-1)
        torch.testing.assert_close(others, 1 - p, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("probability", [1e-9, 0.0])
    @pytest.mark.parametrize("size", [2, 16, 128])
    def test_where_nothing_is_drawn_twice_all_weigh_the_same(self, size, probability, dtype):
        first, second = compute_set_weights(torch.full((size,), probability, dtype=dtype))
        torch.testing.assert_close(first, torch.full_like(first, 1 / size), rtol=3e-6, atol=0)
        other = second[~torch.eye(size, dtype=torch.bool)]
        torch.testing.assert_close(other, torch.full_like(other, 1 / (size - 1)), rtol=3e-6, atol=0)

    @pytest.mark.parametrize("spread", [0.0, 3.0, 30.0])
    def test_weights_of_the_entire_space_are_its_probabilities(self, spread):
        p = make_members(6, spread, 0.0)
        first, second = compute_set_weights(p)
        torch.testing.assert_close(first, p, rtol=0, atol=1e-12)
        off_diagonal = ~torch.eye(6, dtype=torch.bool)
        torch.testing.assert_close(second[off_diagonal], p.expand(6, 6)[off_diagonal], rtol=0, atol=1e-12)

    @pytest.mark.parametrize("size", [2, 5, 16])
    def test_single_precision(self, size):
        p = torch.stack([make_members(size, spread, rest) for spread in (0, 2, 6) for rest in (0.999, 0.3, 1e-4, 1e-7)])
        for single, double in zip(compute_set_weights(p.float()), compute_set_weights(p), strict=True):
            assert single.dtype == torch.float32
            torch.testing.assert_close(single.double(), double, rtol=0, atol=2e-6)


# --------------------------------------------------------------------------------- the beam
def largest_z_of_pairs(space, noise):
    """Compare how often z_1 is followed by z_2 with q(z_1) q(z_2) / (1 - q(z_1)); return the largest |z|."""
    scores = torch.randn(space.score_shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    z = draw_without_replacement(scores.expand(noise.shape[1:]), space, noise)
    members = space.enumerate(dtype=torch.float64).flatten(1)
    index = (z.flatten(2)[:, :, None] == members).all(-1).to(torch.int64).argmax(-1)
    q, draws = space.log_probs(scores).exp(), z.shape[1]
    probability = q[:, None] * q / (1 - q[:, None])
    probability.fill_diagonal_(0)
    frequency = torch.bincount(index[0] * space.size + index[1], minlength=space.size**2) / draws
    is_possible = probability.flatten() > 0
    assert frequency[~is_possible].max() == 0
    error = (probability * (1 - probability) / draws).sqrt().flatten()
    return ((frequency - probability.flatten())[is_possible] / error[is_possible]).abs().max()


class TestBeam:
    @pytest.mark.parametrize("space", [hm.Categorical(5), hm.Binary(2), hm.Categorical(3, 2), hm.Binary(3)], ids=str)
    @pytest.mark.parametrize("samples", [2, 4])
    def test_draws_as_one_by_one_without_replacement(self, space, samples):
        noise = space.noise((samples, 100_000), torch.Generator().manual_seed(5), dtype=torch.float64)
        assert largest_z_of_pairs(space, noise) < 5.5
        shared_noise = noise[:1].expand_as(noise)  # planted error: the beam elements share their noise
        if space.variables > 1:
            assert largest_z_of_pairs(space, shared_noise) > 20

    @pytest.mark.parametrize("space", [hm.Binary(8), hm.Categorical(4, 5)], ids=str)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_all_are_different(self, space, dtype):
        _, scores, noise = problem(space, (200,), 16, dtype)
        z = draw_without_replacement(6 * scores, space, noise).flatten(2)
        distance = (z[:, None] - z).abs().sum(-1)
        assert (distance == 0).sum() == 16 * 200

    def test_of_one_variable_are_the_largest_perturbed_scores(self):
        space = hm.Categorical(7)
        _, scores, noise = problem(space, (50,), 4)
        # Only the first noise is used: one variable has one beam element.
        largest = (scores + noise[0]).topk(4, -1).indices
        assert torch.equal(draw_without_replacement(scores, space, noise).argmax(-1), largest.T)

    @pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
    def test_the_first_is_the_sample_of_the_first_noise(self, space):
        _, scores, noise = problem(space, samples=2)
        assert torch.equal(draw_without_replacement(scores, space, noise)[0], space.draw(scores, noise[:1])[0])


# --------------------------------------------------------------------------------- against enumeration
@pytest.mark.parametrize(
    ("space", "samples"), [(space, s) for space in SMALL_SPACES for s in (1, 2, 3) if s <= space.size], ids=str
)
def test_unordered_set_is_unbiased(space, samples):
    assert_unbiased(UnorderedSet(), space, samples=samples, draws=200_000 if samples == 1 else 25_000, resolution=0.25)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(("estimator", "samples"), CONTROLLED, ids=str)
def test_unbiased(estimator, samples, space):
    assert_unbiased(estimator, space, samples=samples, draws=100_000)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_a_set_of_all_members_is_exact(space):
    assert_exact(UnorderedSet(), space, samples=space.size, tolerance=1e-10)


# --------------------------------------------------------------------------------- planted errors
@pytest.mark.parametrize("space", LARGER, ids=str)
@pytest.mark.parametrize("order", [0, 1])
def test_without_weights_the_set_is_biased(space, order, monkeypatch):
    def flat(probabilities):
        right, size = list(compute_set_weights(probabilities)), probabilities.shape[-1]
        right[order] = torch.full_like(right[order], 1 / (size - order))
        return tuple(right)

    monkeypatch.setattr(unordered_set, "compute_set_weights", flat)
    with pytest.raises(AssertionError, match="is biased"):
        assert_unbiased(UnorderedSet(), space, samples=2, draws=25_000, resolution=1.0)


@dataclass(frozen=True)
class Planted(hm.AbstractEstimator):
    """The three control variates, written out sample by sample, with one planted error or none."""

    name: str
    error: str = "none"

    def estimate(self, f, scores, space, noise):
        detached, count = scores.detach(), len(noise)
        z = space.draw(detached, noise)
        m, values = space.marginals(detached), f(z)
        _, pull = torch.func.vjp(f, m[None] if self.name == "muprop" else z)
        slopes = pull(torch.ones((1 if self.name == "muprop" else count, *values.shape[1:]), dtype=detached.dtype))[0]
        gradient = torch.zeros_like(detached)
        for s in range(count):
            others = range(count) if self.error == "own" else [t for t in range(count) if t != s]
            control_variate = getattr(self, self.name)
            gradient = gradient + control_variate(f, detached, space, z, m, values.detach(), slopes, s, others)
        surrogate = space.dot(gradient / count, scores)
        return hm.Estimate(abstract.attach_gradient(values.mean(0), surrogate), z, f.evaluations, float(count))

    def score(self, space, z, m, factor):
        return factor.view(*factor.shape, *(1 for _ in space.score_shape)) * (z - m)

    def mean_gradient(self, scores, space, slope):
        if self.error == "no mean":
            return torch.zeros_like(scores)
        sign = -1 if self.error == "sign" else 1
        return sign * torch.func.grad(lambda h: (space.marginals(h) * slope).sum())(scores)

    def muprop(self, f, scores, space, z, m, values, slopes, s, others):
        rest = values[s] - f(m[None])[0] - space.dot(slopes[0], z[s] - m)
        return self.score(space, z[s], m, rest) + self.mean_gradient(scores, space, slopes[0])

    def double(self, f, scores, space, z, m, values, slopes, s, others):
        def rest(k):
            slope = sum(slopes[t] for t in range(len(z)) if t != k) / (len(z) - 1)
            slope = slopes.mean(0) if self.error == "own" else slope
            return values[k] - space.dot(slope, z[k] - m)

        advantage = rest(s) - sum(rest(t) for t in others) / len(others)
        return self.score(space, z[s], m, advantage) + self.mean_gradient(scores, space, slopes[s])

    def rodeo(self, f, scores, space, z, m, values, slopes, s, others):
        samples = range(len(z))

        def guess(k, at):  # prediction of f at `at` [*B, *event], from all samples except k
            known = [t for t in samples if t != k or self.error == "own"]
            differ = [space.per_variable((at - z[t]).abs()).flatten(at.dim() - len(space.event_shape)) for t in known]
            distance = torch.stack([(d > 0).sum(-1) for d in differ])
            weight = (-2.0 * distance / space.variables**0.5).softmax(0)
            return sum(w * values[t] for w, t in zip(weight, known, strict=True))

        def operator(h, at):  # sum_i E[h(z with z_i redrawn)] - h(z), from the single changes of z
            log_prob = space.log_prob(scores, at)
            result = 0
            changes = space.changes // space.variables
            for i in range(space.variables):
                redrawn = [at] + [space.change(at, torch.tensor(i * changes + c)) for c in range(changes)]
                probability = torch.stack([space.log_prob(scores, y) - log_prob for y in redrawn]).softmax(0)
                for p, y in zip(probability, redrawn, strict=True):
                    h_y = h(y)
                    result = result + p.view(*p.shape, *(1 for _ in range(h_y.dim() - p.dim()))) * (h_y - h(at))
            return result

        known = [t for t in samples if t != s]
        mean = sum(values[t] for t in known) / len(known)
        improved = [values[t] + operator(lambda y, t=t: guess(t, y), z[t]) for t in known]
        baseline = sum(improved) / len(known)

        def with_score(y):
            # planted error: the score function is not redrawn with the variable
            return self.score(space, z[s] if self.error == "no mean" else y, m, guess(s, y) - mean)

        return self.score(space, z[s], m, values[s] - baseline) + operator(with_score, z[s]) / 2


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(
    ("estimator", "name", "samples"),
    [(MuProp(), "muprop", 3), (DoubleControlVariates(), "double", 3), (Rodeo(), "rodeo", 4)],
    ids=str,
)
def test_written_out_sample_by_sample(estimator, name, samples, space):
    f, scores, noise = problem(space, samples=samples)
    expected = for_scores(Planted(name), space, scores, noise, f)
    torch.testing.assert_close(for_scores(estimator, space, scores, noise, f), expected)


@pytest.mark.parametrize("space", [hm.Binary(3), hm.Categorical(3, 2), hm.Categorical(4)], ids=str)
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("muprop", "no mean"),
        ("muprop", "sign"),
        ("double", "no mean"),
        ("double", "sign"),
        ("double", "own"),
        ("rodeo", "no mean"),
        ("rodeo", "own"),
    ],
)
def test_catches(name, error, space):
    with pytest.raises(AssertionError, match="is biased"):
        assert_unbiased(Planted(name, error), space, samples=3, draws=20_000, resolution=0.7)


# --------------------------------------------------------------------------------- closed forms
@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_one_sample_of_a_set_is_reinforce(space):
    f, scores, noise = problem(space, samples=1)
    set_of_one, reinforce = (gradients(f, scores, space, e, noise=noise) for e in (UnorderedSet(), hm.Reinforce()))
    torch.testing.assert_close(set_of_one[0].value, reinforce[0].value, rtol=0, atol=0)
    torch.testing.assert_close(set_of_one[1:], reinforce[1:])


@pytest.mark.parametrize("space", [hm.Binary(60), hm.Categorical(10, 15)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_set_of_unlikely_z_has_a_leave_one_out_baseline(space, dtype):
    f, scores, noise = problem(space, samples=8, dtype=dtype)
    out, estimate, _ = gradients(f, scores, space, UnorderedSet(), noise=noise)
    values = f(out.z).detach()
    torch.testing.assert_close(out.value, values.mean(0), rtol=1e-4, atol=1e-5)
    advantage = values - (values.sum(0) - values) / 7
    score = out.z - space.marginals(scores)
    expected = (advantage.view(*advantage.shape, *(1 for _ in space.score_shape)) * score).mean(0)
    torch.testing.assert_close(estimate, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(("estimator", "samples"), [(MuProp(), 1), (*CONTROLLED[4],), (*CONTROLLED[5],)], ids=str)
def test_exact_for_linear_f(estimator, samples, space):
    _, scores, noise = problem(space, samples=samples)
    f, leaf = linear(space), scores.requires_grad_()
    exact = torch.autograd.grad(hm.expectation(f, leaf, space, hm.Exact()).value.sum(), leaf)[0]
    estimate = torch.autograd.grad(hm.expectation(f, leaf, space, estimator, noise=noise).value.sum(), leaf)[0]
    torch.testing.assert_close(estimate, exact)
    inexact = DoubleControlVariates(0.9) if samples > 1 else hm.Reinforce()
    estimate = torch.autograd.grad(hm.expectation(f, leaf, space, inexact, noise=noise).value.sum(), leaf)[0]
    assert (estimate - exact).abs().max() > 1e-3


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize(
    ("estimator", "samples"),
    [(DoubleControlVariates(0.0), 2), (DoubleControlVariates(0.0), 5), (Rodeo(), 2), (Rodeo(1e-12), 5)],
    ids=str,
)
def test_without_a_control_variate_it_is_leave_one_out(estimator, samples, space):
    f, scores, noise = problem(space, samples=samples)
    expected = for_scores(LEAVE_ONE_OUT, space, scores, noise, f)
    torch.testing.assert_close(for_scores(estimator, space, scores, noise, f), expected)


def total_variance(estimator, space, f, scores, samples, draws=20_000):
    batch = scores.expand(draws, *scores.shape).clone().requires_grad_()
    generator = torch.Generator().manual_seed(0)
    value = hm.expectation(f, batch, space, estimator, samples=samples, generator=generator).value
    return torch.autograd.grad(value.sum(), batch)[0].var(0).sum()


@pytest.mark.parametrize(
    ("estimator", "samples", "sharp", "ratio"),
    [
        (UnorderedSet(), 4, 3.0, 0.5),
        (DoubleControlVariates(), 4, 1.0, 0.7),
        (Rodeo(), 4, 1.0, 0.95),
        (MuProp(), 3, 1.0, 0.7),
    ],
    ids=str,
)
def test_less_variance_than_leave_one_out_at_equal_evaluations(estimator, samples, sharp, ratio):
    space = hm.Binary(4)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    scores = sharp * torch.randn(4, generator=generator, dtype=torch.float64)
    f = lambda z: torch.tanh(z @ weight * 0.5).sum(-1)  # noqa: E731
    base = total_variance(LEAVE_ONE_OUT, space, f, scores, 4)
    assert total_variance(estimator, space, f, scores, samples) < ratio * base


# --------------------------------------------------------------------------------- interface
@pytest.mark.parametrize("estimator", [e for e in ALL if not isinstance(e, UnorderedSet)], ids=str)
@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_the_decoder_learns_from_the_mean_over_the_draws(space, estimator):
    f, scores, noise = problem(space)
    out, _, for_weight = gradients(f, scores, space, estimator, noise=noise)
    expected = f(out.z).mean(0)
    torch.testing.assert_close(out.value, expected)
    torch.testing.assert_close(for_weight, torch.autograd.grad(expected.sum(), f.weight)[0])


@pytest.mark.parametrize("space", LARGER, ids=str)
def test_the_decoder_learns_from_the_weighted_set(space):
    f, scores, noise = problem(space)
    out, _, for_weight = gradients(f, scores, space, UnorderedSet(), noise=noise)
    weights = compute_set_weights(space.log_prob(scores, out.z).exp().T)[0].T
    expected = (weights * f(out.z)).sum(0)
    torch.testing.assert_close(out.value, expected)
    torch.testing.assert_close(for_weight, torch.autograd.grad(expected.sum(), f.weight)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("estimator", ALL, ids=str)
@pytest.mark.parametrize("space", LARGER, ids=str)
def test_shapes_and_dtypes(space, estimator, batch, dtype):
    f, scores, noise = problem(space, batch, dtype=dtype)
    out, estimate, for_weight = gradients(f, scores, space, estimator, noise=noise)
    assert out.value.shape == batch
    assert out.z.shape == (3, *batch, *space.event_shape)
    assert out.value.dtype == out.z.dtype == estimate.dtype == dtype
    assert not out.z.requires_grad
    assert ((out.z == 0) | (out.z == 1)).all()
    assert estimate.isfinite().all()
    assert for_weight.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("estimator", ALL, ids=str)
@pytest.mark.parametrize("space", LARGER, ids=str)
def test_a_confident_q_has_no_gradient(space, estimator, dtype):
    f, scores, noise = problem(space, (20,), dtype=dtype)
    scores = 200 * (2 * space.argmax(scores) - 1)
    out, estimate, _ = gradients(f, scores, space, estimator, noise=noise)
    torch.testing.assert_close(estimate, torch.zeros_like(estimate), rtol=0, atol=1e-5)
    torch.testing.assert_close(out.value, f(space.argmax(scores)[None])[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("estimator", ALL, ids=str)
@pytest.mark.parametrize("space", EDGE_SPACES, ids=str)
def test_one_value_has_no_gradient(space, estimator):
    samples = 1 if isinstance(estimator, UnorderedSet) else 3
    f, scores, noise = problem(space, samples=samples)
    torch.testing.assert_close(for_scores(estimator, space, scores, noise, f), torch.zeros_like(scores))


@pytest.mark.parametrize("estimator", ALL, ids=str)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_evaluations_and_chunks(estimator, chunk_size):
    space = hm.Categorical(3, 2)
    f, scores, noise = problem(space)
    counted = Counted(f)
    out = hm.expectation(counted, scores, space, estimator, noise=noise, chunk_size=chunk_size)
    assert out.evaluations == counted.evaluations / 5 == (4 if isinstance(estimator, MuProp) else 3)
    expected = gradients(f, scores, space, estimator, noise=noise)
    in_chunks = gradients(f, scores, space, estimator, noise=noise, chunk_size=chunk_size)
    torch.testing.assert_close(in_chunks[1:], expected[1:])


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_without_gradients(estimator):
    space = hm.Binary(3)
    f, scores, noise = problem(space)
    with torch.no_grad():
        out = hm.expectation(f, scores, space, estimator, noise=noise)
    assert not out.value.requires_grad
    torch.testing.assert_close(out.value, hm.expectation(f, scores, space, estimator, noise=noise).value.detach())


@pytest.mark.parametrize("estimator", ALL, ids=str)
@pytest.mark.parametrize("space", LARGER, ids=str)
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_vmap_of_grad(space, estimator, chunk_size):
    f, scores, noise = problem(space, kind=Rows)
    f.shift = f.shift[0]
    expected = for_scores(estimator, space, scores, noise, f)

    def value(scores, noise):
        return hm.expectation(f, scores, space, estimator, noise=noise, chunk_size=chunk_size).value

    torch.testing.assert_close(torch.func.vmap(torch.func.grad(value), in_dims=(0, 1))(scores, noise), expected)


class TestRefusals:
    @pytest.mark.parametrize("estimator", ALL, ids=str)
    def test_dependent_variables(self, estimator):
        space = hm.PairwiseBinary(3)
        with pytest.raises(hm.NotExactError, match=r"independent variables|does not offer"):
            hm.expectation(lambda z: z.sum(-1), torch.zeros(space.score_shape), space, estimator, samples=3)

    def test_more_samples_than_members(self):
        with pytest.raises(hm.ArgumentError, match="samples=5 is more than the 4 members"):
            hm.expectation(lambda z: z.sum(-1), torch.zeros(2), hm.Binary(2), UnorderedSet(), samples=5)

    @pytest.mark.parametrize("estimator", [MuProp("leave-one-out"), DoubleControlVariates(), Rodeo()], ids=str)
    def test_one_sample(self, estimator):
        with pytest.raises(hm.ArgumentError, match="at least two samples, got samples=1"):
            hm.expectation(lambda z: z.sum(-1), torch.zeros(2), hm.Binary(2), estimator, samples=1)

    @pytest.mark.parametrize("estimator", SLOPED, ids=str)
    def test_f_without_slopes(self, estimator):
        weight = torch.ones(2, requires_grad=True)
        for f in (lambda z: (z > 0.5).float().sum(-1), lambda z: ((z > 0.5) * weight).sum(-1)):
            with pytest.raises(hm.ArgumentError, match="differentiable in z"):
                hm.expectation(f, torch.zeros(2), hm.Binary(2), estimator, samples=2)

    @pytest.mark.parametrize("estimator", [UnorderedSet(), Rodeo()], ids=str)
    def test_f_without_slopes_is_welcome_elsewhere(self, estimator):
        f = lambda z: (z > 0.5).double().prod(-1)  # noqa: E731
        assert_unbiased(estimator, hm.Binary(2), f=f, samples=3, draws=25_000)

    def test_arguments(self):
        for make in (lambda: DoubleControlVariates(float("nan")), lambda: Rodeo(0.0)):
            with pytest.raises(hm.ArgumentError, match="must be"):
                make()
