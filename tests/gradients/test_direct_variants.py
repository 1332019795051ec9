"""Variants of Direct: averaged over the noise, with antithetic pairs, with adaptive epsilon, and on short lists."""

import pytest
import torch
from cases import SMALL_SPACES, Toy, gradients

import hardmax as hm
from hardmax.testing import assert_bias_vanishes, assert_unbiased


def problem(space, batch=(), scale=1.0):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64) * scale
    return Toy(space, batch), scores


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_the_limit_of_averaged_direct_is_local_expectation(space):
    """Sample by sample, for the same noise, as epsilon decreases; two-sided with order two."""
    f, scores = problem(space, (7,))
    noise = space.noise((3, 7), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    _, local, _ = gradients(f, scores, space, hm.LocalExpectation(), noise=noise)
    for two_sided, order in ((False, 1), (True, 2)):
        errors = []
        for epsilon in (1e-2, 1e-3):
            _, estimate, _ = gradients(f, scores, space, hm.AveragedDirect(epsilon, two_sided), noise=noise)
            errors.append(float((estimate - local).abs().max()))
        assert errors[1] < errors[0] * 10 ** -(order - 0.2)
        assert errors[1] < 40 * 10 ** (-3 * order)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_averaged_direct_is_the_mean_of_direct(space):
    """By a z-test over the noise: the low-dimensional approximation makes this an identity, at any epsilon."""
    epsilon, draws = 0.7, 100_000
    f, scores = problem(space)
    copies, generator = scores.expand(draws, *scores.shape), torch.Generator().manual_seed(1)
    _, direct, _ = gradients(f, copies, space, hm.Direct(epsilon), generator=generator)
    _, averaged, _ = gradients(f, copies, space, hm.AveragedDirect(epsilon), generator=generator)
    error = ((direct.var(0) + averaged.var(0)) / draws).sqrt().clamp_min(1e-12)
    assert float(((direct.mean(0) - averaged.mean(0)) / error).abs().max()) < 6
    assert averaged.var(0).sum() < 0.7 * direct.var(0).sum()
    wrong = averaged.mean(0) * 1.3  # would fail
    assert float(((direct.mean(0) - wrong) / error).abs().max()) > 6


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
def test_averaged_direct_bias_vanishes(space):
    assert_bias_vanishes(hm.AveragedDirect, space, steps=(0.4, 0.2, 0.1), draws=40_000, order=1)
    assert_bias_vanishes(
        lambda e: hm.AveragedDirect(e, two_sided=True), space, steps=(0.4, 0.2, 0.1), draws=40_000, order=2, slack=0.4
    )


def test_averaged_direct_with_a_planted_error():
    def clamp_epsilon(epsilon):
        return hm.AveragedDirect(max(epsilon, 0.5))

    with pytest.raises(AssertionError, match="does not fall"):
        assert_bias_vanishes(clamp_epsilon, hm.Categorical(4), steps=(0.4, 0.2, 0.1), draws=10_000)


@pytest.mark.parametrize("space", SMALL_SPACES, ids=str)
@pytest.mark.parametrize("estimator", [hm.Reinforce("none"), hm.LocalExpectation(), hm.DebiasedDirect(1.0, 2)], ids=str)
def test_antithetic_pairs_keep_what_is_unbiased_so(space, estimator):
    assert_unbiased(hm.Antithetic(estimator), space, draws=60_000, resolution=0.5)


def test_antithetic_pairs_cancel_noise():
    """Where f increases with each bit, compared with the same number of independent samples."""
    space, draws = hm.Binary(4), 20_000
    f = lambda z: (z * torch.tensor([1.0, 2.0, 0.5, 1.5], dtype=torch.float64)).sum(-1).square()  # noqa: E731
    scores = torch.zeros(draws, 4, dtype=torch.float64)

    def spread(estimator, samples):
        leaf = scores.clone().requires_grad_()
        generator = torch.Generator().manual_seed(0)
        hm.expectation(f, leaf, space, estimator, samples=samples, generator=generator).value.sum().backward()
        return float(leaf.grad.var(0).sum())

    assert spread(hm.Antithetic(hm.LocalExpectation()), 1) < 0.1 * spread(hm.LocalExpectation(), 2)
    assert spread(hm.Antithetic(hm.Direct(0.5)), 1) < spread(hm.Direct(0.5), 2)


@pytest.mark.parametrize("estimator", [hm.Reinforce("mean"), hm.Reinforce("leave-one-out"), hm.Rebar()], ids=str)
def test_antithetic_refuses_baselines_of_other_samples(estimator):
    with pytest.raises(hm.ArgumentError, match="independent"):
        hm.Antithetic(estimator)


def test_a_leave_one_out_baseline_would_be_biased_by_pairs(monkeypatch):
    """Why it is refused: without the check, the z-test detects the bias."""
    monkeypatch.setattr(hm.Reinforce, "couples_samples", False)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(hm.Antithetic(hm.Reinforce("leave-one-out")), hm.Categorical(4), draws=60_000, resolution=0.5)


STRUCTURED = [hm.PairwiseBinary(4), hm.Subset(5, 2), hm.Permutation(3), hm.Chain(3, 3)]


def find_epsilon(estimator, f, scores, space, noise):
    """Return the epsilon of an AdaptiveDirect: of all results of its search, the only one with the same gradient."""
    _, estimate, _ = gradients(f, scores, space, estimator, noise=noise)
    fixed = hm.AveragedDirect if isinstance(space, hm.Binary | hm.Categorical) else hm.Direct
    ratio = estimator.largest / estimator.smallest
    candidates = [estimator.smallest * ratio ** (i / 64) for i in range(1, 65)]  # six bisections
    is_same = [
        torch.allclose(gradients(f, scores, space, fixed(e), noise=noise)[1], estimate, rtol=1e-9) for e in candidates
    ]
    assert sum(is_same) == 1
    return candidates[is_same.index(True)]


@pytest.mark.parametrize("space", [*SMALL_SPACES, *STRUCTURED], ids=str)
def test_adaptive_epsilon_moves_its_share(space):
    """The chosen epsilon moves the share of the arg maxes and hardly more."""
    batch, share = 4000, 0.3
    f, scores = problem(space, (batch,))
    noise = space.noise((1, batch), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    estimator = hm.AdaptiveDirect(share, several=1.0, smallest=1e-3, largest=1e3)
    epsilon = find_epsilon(estimator, f, scores, space, noise)
    out, direct, _ = gradients(f, scores, space, hm.Direct(epsilon), noise=noise)
    moved = direct.flatten(1).any(1).double().mean()
    # Six bisections of six decades find epsilon within 24 percent; for independent variables the share is expected.
    assert share - 0.06 <= float(moved) < share + 0.12
    assert out.evaluations == gradients(f, scores, space, estimator, noise=noise)[0].evaluations


def count_changes(space, f, scores, noise, epsilon):
    """Return the number of single changes from z* to z(epsilon), 2 if there are more, per example by brute force."""
    out, gradient, _ = gradients(f, scores, space, hm.Direct(epsilon), noise=noise)
    statistics = space.statistics(out.z[0]) + epsilon * gradient
    members = space.enumerate(dtype=torch.float64)
    features = space.statistics(members).flatten(1)
    index = (statistics.flatten(1)[:, None] - features).abs().sum(-1).argmin(-1)
    neighbours = space.neighbours(out.z[0]).flatten(2)
    is_same = (members[index] == out.z[0]).flatten(1).all(-1)
    is_single = (members[index].flatten(1) == neighbours).all(-1).any(0)
    return torch.where(is_same, 0, torch.where(is_single, 1, 2))


@pytest.mark.parametrize("space", [hm.Binary(6), hm.Categorical(3, 4), hm.Subset(6, 3), hm.Permutation(4)], ids=str)
def test_adaptive_epsilon_rarely_moves_several_at_once(space):
    batch, several, largest = 1000, 0.3, 3.0
    f, scores = problem(space, (batch,))
    noise = space.noise((1, batch), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    estimator = hm.AdaptiveDirect(1.0, several, smallest=1e-3, largest=largest)
    epsilon = find_epsilon(estimator, f, scores, space, noise)
    share, most = (float((count_changes(space, f, scores, noise, e) > 1).double().mean()) for e in (epsilon, largest))
    assert most > 0.1
    assert 0.6 * several < share / most < 1.4 * several


def test_adaptive_epsilon_follows_the_size_of_f():
    """With ten times f, epsilon is a tenth and the gradient ten times as large."""
    space, batch = hm.Categorical(4), 300
    f, scores = problem(space, (batch,))
    noise = space.noise((1, batch), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    estimator = hm.AdaptiveDirect(0.5, smallest=1e-4, largest=1e2)
    leaf = scores.clone().requires_grad_()
    once = torch.autograd.grad(hm.expectation(f, leaf, space, estimator, noise=noise).value.sum(), leaf)[0]
    tenfold = hm.expectation(lambda z: 10 * f(z), leaf, space, estimator, noise=noise).value.sum()
    ratio = float(torch.autograd.grad(tenfold, leaf)[0].norm() / once.norm())
    assert 6 < ratio < 16


def test_adaptive_epsilon_stays_within_its_bounds():
    space = hm.Categorical(4)
    f, scores = problem(space, (50,))
    noise = space.noise((1, 50), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    _, estimate, _ = gradients(f, scores, space, hm.AdaptiveDirect(1.0, largest=0.5), noise=noise)
    _, largest, _ = gradients(f, scores, space, hm.AveragedDirect(0.5), noise=noise)
    torch.testing.assert_close(estimate, largest)
    for wrong in ({"share": 0.0}, {"share": 1.5}, {"several": 0.0}, {"smallest": 2.0}, {"largest": -1.0}):
        with pytest.raises(hm.ArgumentError):
            hm.AdaptiveDirect(**wrong)


def test_a_shortlist_of_all_categories_is_averaged_direct():
    space = hm.Categorical(5)
    f, scores = problem(space, (7,))
    noise = space.noise((3, 7), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected, gradient, _ = gradients(f, scores, space, hm.AveragedDirect(0.7), noise=noise)
    for size in (5, 9):
        out, estimate, _ = gradients(f, scores, space, hm.ShortlistDirect(0.7, size), noise=noise)
        torch.testing.assert_close(out.value, expected.value)
        torch.testing.assert_close(estimate, gradient)


@pytest.mark.parametrize("epsilon", [1.0, 0.3])
def test_a_shortlist_against_enumeration(epsilon):
    """Lists of two of four values have the probabilities given by q, and each changes those of its members."""
    space, draws = hm.Categorical(4), 200_000
    f, scores = problem(space)
    worth = f(torch.eye(4, dtype=torch.float64)).detach()
    q, expected = scores.softmax(-1), torch.zeros(4, dtype=torch.float64)
    for i in range(4):
        for j in set(range(4)) - {i}:
            pair = torch.tensor([i, j])
            change = (scores[pair] + epsilon * worth[pair]).softmax(-1) - scores[pair].softmax(-1)
            expected[pair] += q[i] * q[j] / (1 - q[i]) * change / epsilon
    generator = torch.Generator().manual_seed(1)
    copies = scores.expand(draws, 4)
    _, estimate, _ = gradients(f, copies, space, hm.ShortlistDirect(epsilon, size=2), generator=generator)
    error = (estimate.var(0) / draws).sqrt()
    assert float(((estimate.mean(0) - expected) / error).abs().max()) < 5
    assert float(((1.1 * estimate.mean(0) - expected) / error).abs().max()) > 5  # would fail


def test_a_shortlist_is_content_with_the_posterior():
    """And only the posterior: any other scores are moved, on average towards the posterior."""
    space, x = hm.Categorical(6), torch.rand(3, 9, dtype=torch.float64).round()
    likelihood = hm.BernoulliLikelihood(torch.nn.Linear(6, 9, dtype=torch.float64), x)
    posterior = likelihood.table().detach().log_softmax(-1)
    for offset in (0.0, 1.0):
        scores = (posterior + offset * torch.arange(6)).requires_grad_()
        copies = scores.expand(500, 3, 6).reshape(-1, 6)
        many = hm.BernoulliLikelihood(likelihood.decoder, x.repeat(500, 1))
        hm.elbo(
            many, copies, space, hm.ShortlistDirect(size=3), generator=torch.Generator().manual_seed(0)
        ).value.sum().backward()
        if offset:
            assert ((scores.grad * (posterior - scores.detach())).sum(-1) > 1).all()
        else:
            assert scores.grad.abs().max() < 1e-9


SEVERAL = hm.Categorical(3, 4)


def test_shortlists_of_all_values_are_averaged_direct():
    f, scores = problem(SEVERAL, (7,))
    noise = SEVERAL.noise((3, 7), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected, gradient, _ = gradients(f, scores, SEVERAL, hm.AveragedDirect(0.7), noise=noise)
    for variables in (None, 4, 9):
        out, estimate, _ = gradients(f, scores, SEVERAL, hm.ShortlistDirect(0.7, 3, variables), noise=noise)
        torch.testing.assert_close(out.value, expected.value)
        torch.testing.assert_close(estimate, gradient)
        assert out.evaluations == 3 * (1 + 4 * 2)


@pytest.mark.parametrize("size", [2, 3])
def test_the_choice_of_variables_has_no_bias(size):
    """A z-test against the evaluation of all variables, with the linear part of the posterior in addition to f."""
    draws, generator = 100_000, torch.Generator().manual_seed(1)
    f, scores = problem(SEVERAL)
    copies = scores.expand(draws, 4, 3)

    def estimates(estimator):
        leaf = copies.clone().requires_grad_()
        hm.elbo(f, leaf, SEVERAL, estimator, generator=generator).value.sum().backward()
        return leaf.grad

    expected, single = estimates(hm.ShortlistDirect(0.7, size)), estimates(hm.ShortlistDirect(0.7, size, variables=1))
    error = ((expected.var(0) + single.var(0)) / draws).sqrt()
    assert float(((expected.mean(0) - single.mean(0)) / error).abs().max()) < 5
    assert float(((expected.mean(0) - 0.9 * single.mean(0)) / error).abs().max()) > 5  # would fail
    assert (single.flatten(1).unflatten(1, (4, 3)).any(-1).sum(-1) <= 1).all()


def test_shortlists_draw_the_same_z_whatever_variables_are_evaluated():
    f, scores = problem(SEVERAL, (7,))
    noise = SEVERAL.noise((3, 7), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    out, _, _ = gradients(f, scores, SEVERAL, hm.ShortlistDirect(0.7, 2, 1), noise=noise)
    assert torch.equal(out.z, SEVERAL.draw(scores, noise))
    assert out.evaluations == 3 * 2


def test_a_shortlist_is_not_for_bits():
    with pytest.raises(hm.NotExactError, match="for categorical variables"):
        hm.expectation(lambda z: z.sum(-1), torch.zeros(3), hm.Binary(3), hm.ShortlistDirect())
