"""Subset: k of n."""

import math
import sys
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import hardmax as hm
from hardmax.testing import assert_space

SIZES = [(1, 0), (1, 1), (4, 0), (4, 4), (3, 1), (5, 1), (5, 2), (6, 5), (7, 3)]


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_everything_offered_agrees_with_enumeration(n, k):
    assert_space(hm.Subset(n, k))


def test_size_and_order_of_members():
    members = hm.Subset(4, 2).enumerate()
    numbers = [int("".join(str(int(bit)) for bit in row), 2) for row in members]
    assert numbers == sorted(numbers, reverse=True)
    assert len(hm.Subset(400, 2).enumerate()) == math.comb(400, 2)
    with pytest.raises(hm.NotExactError, match="members"):
        hm.Subset(50, 25).enumerate()


@pytest.mark.parametrize(("n", "k"), [(40, 7), (60, 30), (30, 29)])
def test_large_sizes_against_the_coefficients_of_a_polynomial(n, k):
    """prod_i (1 + w_i x) has the sums over subsets as coefficients; w without one item gives the marginals."""
    scores = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = [math.exp(score) for score in scores.tolist()]

    def coefficients(factors):
        polynomial = [1.0]
        for w in factors:
            polynomial = [a + w * b for a, b in zip([*polynomial, 0.0], [0.0, *polynomial], strict=True)]
        return polynomial

    space, total = hm.Subset(n, k), coefficients(weights)[k]
    torch.testing.assert_close(float(space.log_partition(scores)), math.log(total))
    marginals = [w * coefficients(weights[:i] + weights[i + 1 :])[k - 1] / total for i, w in enumerate(weights)]
    torch.testing.assert_close(space.marginals(scores), torch.tensor(marginals, dtype=torch.float64))


def test_zero_scores_are_uniform_also_for_large_n():
    space = hm.Subset(1000, 3)
    scores = torch.zeros(2, 1000, dtype=torch.float64)
    torch.testing.assert_close(space.log_partition(scores), torch.full((2,), space.log_size, dtype=torch.float64))
    torch.testing.assert_close(space.marginals(scores), torch.full((2, 1000), 0.003, dtype=torch.float64))
    torch.testing.assert_close(space.kl(scores), torch.zeros(2, dtype=torch.float64), atol=1e-9, rtol=0)
    assert (space.sample(scores, 5).sum(-1) == 3).all()


def plackett_luce(weights, members):
    """Return the probability of each set under sampling without replacement, summed over all orders."""
    probabilities = []
    for row in members:
        chosen, total = row.nonzero().flatten().tolist(), 0.0
        for order in permutations(chosen):
            left, chance = weights.sum().item(), 1.0
            for item in order:
                chance *= weights[item].item() / left
                left -= weights[item].item()
            total += chance
        probabilities.append(total)
    return torch.tensor(probabilities, dtype=torch.float64)


def frequencies(z, members):
    return (z[:, None] == members).all(-1).double().sum(0)


def test_perturb_and_map_is_plackett_luce_and_not_q():
    space, draws = hm.Subset(5, 3), 100_000
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, generator=generator, dtype=torch.float64)
    noise = space.noise((draws,), generator=generator, dtype=torch.float64)
    members = space.enumerate(dtype=torch.float64)
    q, sequential = space.log_probs(scores).exp(), plackett_luce(scores.exp(), members)
    mapped = frequencies(space.argmax(space.perturb(scores, noise)), members)
    drawn = frequencies(space.draw(scores, noise), members)
    assert chisquare(mapped, draws * sequential).pvalue > 1e-6
    assert chisquare(drawn, draws * q).pvalue > 1e-6
    assert chisquare(mapped, draws * q).pvalue < 1e-20
    assert (sequential - q).abs().sum() / 2 > 0.03


def test_example_of_the_docstring():
    members, weights = hm.Subset(3, 2).enumerate(dtype=torch.float64), torch.tensor([3.0, 1.0, 1.0]).double()
    first = members[:, 0] == 1
    torch.testing.assert_close(plackett_luce(weights, members)[first].sum().item(), 0.9)
    torch.testing.assert_close(hm.Subset(3, 2).log_probs(weights.log()).exp()[first].sum().item(), 6 / 7)


@pytest.mark.parametrize(("n", "k"), [(5, 2), (6, 3), (4, 1), (4, 3)])
def test_parts_are_the_least_squares_fit(n, k):
    space = hm.Subset(n, k)
    members = space.enumerate(dtype=torch.float64)
    gains = torch.randn(space.changes, len(members), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = space.neighbours(members) - members  # [M, size, n]
    fit = (space.parts(members, gains) * moved).sum(-1)
    best = torch.linalg.lstsq(moved.transpose(0, 1), gains.mT[..., None], driver="gelsd").solution
    torch.testing.assert_close(fit, (moved * best[..., 0]).sum(-1))
    if k in (1, n - 1):
        torch.testing.assert_close(fit, gains)


@settings(max_examples=40)
@given(st.integers(1, 8), st.data(), st.lists(st.integers(0, 3), max_size=2).map(tuple), st.integers(0, 2**32))
def test_what_holds_for_every_size(n, data, batch, seed):
    space = hm.Subset(n, data.draw(st.integers(0, n)))
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(*batch, n, generator=generator, dtype=torch.float64)
    z = space.argmax(scores)
    assert (space.dot(scores, space.neighbours(z)) <= space.dot(scores, z)).all()
    for p in (z, space.marginals(scores), space.relax(scores, 0.1), space.sample(scores, 2, generator=generator)):
        torch.testing.assert_close(p.sum(-1), torch.full(p.shape[:-1], space.k, dtype=torch.float64))
        assert ((p >= 0) & (p <= 1 + 1e-12)).all()
    torch.testing.assert_close(space.kl(scores), space.log_size - space.entropy(scores))
    constant = space.entropy(scores + 5)
    torch.testing.assert_close(constant, space.entropy(scores))


@pytest.mark.parametrize(("n", "k", "message"), [(0, 0, "n=0"), (3, 4, "k=4"), (3, -1, "k=-1")])
def test_bad_sizes(n, k, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.Subset(n, k)


def test_a_planted_error_in_parts_is_found(monkeypatch):
    right = hm.Subset.parts
    monkeypatch.setattr(hm.Subset, "parts", lambda self, z, gains: right(self, z, 1.1 * gains))
    with pytest.raises(AssertionError, match="parts"):
        assert_space(hm.Subset(5, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mask", [-1e3, -1e12, -1e30])
def test_masked_items_that_must_be_chosen(dtype, mask, monkeypatch):
    """If fewer than k items are not masked, all of these are chosen, and the rest of equal masks equally often."""
    for numba in (True, False):
        if not numba:
            monkeypatch.setitem(sys.modules, "numba", None)
        space, scores = hm.Subset(4, 3), torch.tensor([0.0, mask, 1.0, mask], dtype=dtype, requires_grad=True)
        torch.testing.assert_close(space.marginals(scores), torch.tensor([1, 0.5, 1, 0.5], dtype=dtype))
        (gradient,) = torch.autograd.grad(space.log_partition(scores), scores)
        torch.testing.assert_close(gradient, torch.tensor([1, 0.5, 1, 0.5], dtype=dtype))
        z = space.sample(scores, 200, generator=torch.Generator().manual_seed(0))
        assert (z.sum(-1) == 3).all()
        assert (z[:, [0, 2]] == 1).all()
        assert 60 < z[:, 1].sum() < 140
