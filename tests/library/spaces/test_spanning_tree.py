"""SpanningTree: Prim and the matrix-tree theorem."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.stats import chisquare

import hardmax as hm
from hardmax.testing import assert_space


def random_scores(space, *batch, seed=0, size=1.0):
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)


def matrix(space, values):
    """Return values of edges as a symmetric matrix, by the definition of their order."""
    result = torch.zeros(space.n, space.n, dtype=values.dtype)
    for (i, j), value in zip(space.edges, values, strict=True):
        result[i, j] = result[j, i] = value
    return result


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_everything_offered_agrees_with_enumeration(n):
    assert_space(hm.SpanningTree(n))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_members_are_all_trees(n):
    space = hm.SpanningTree(n)
    members = space.enumerate()
    assert len(members.unique(dim=0)) == space.size == n ** (n - 2)
    assert (members.sum(-1) == n - 1).all()
    for z in members[:: max(len(members) // 50, 1)]:
        assert connected_components(matrix(space, z).numpy())[0] == 1


def test_order_of_edges():
    assert hm.SpanningTree(4).edges == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


@pytest.mark.parametrize("n", [3, 4, 5])
def test_argmax_against_brute_force(n):
    space = hm.SpanningTree(n)
    scores = random_scores(space, 2000)
    scores[1000:] = scores[1000:].round()  # ties
    values = scores @ space.enumerate(dtype=torch.float64).mT
    torch.testing.assert_close(space.dot(scores, space.argmax(scores)), values.amax(-1))


@pytest.mark.parametrize("n", [10, 40])
def test_argmax_against_scipy(n):
    space = hm.SpanningTree(n)
    scores = random_scores(space, 10)
    for example, z in zip(scores, space.argmax(scores), strict=True):
        costs = matrix(space, 10 - example)  # positive: for scipy a zero means no edge
        tree = torch.from_numpy(minimum_spanning_tree(costs.numpy()).toarray()) != 0
        assert torch.equal(tree | tree.mT, matrix(space, z) == 1)


@pytest.mark.parametrize("n", [2, 3, 10, 50])
def test_cayley_s_formula(n):
    space = hm.SpanningTree(n)
    zeros = torch.zeros(space.score_shape, dtype=torch.float64)
    torch.testing.assert_close(float(space.log_partition(zeros)), (n - 2) * math.log(n))
    torch.testing.assert_close(space.marginals(zeros), torch.full_like(zeros, 2 / n))
    torch.testing.assert_close(float(space.kl(zeros)), 0.0, atol=1e-9, rtol=0)


def test_against_determinant_and_resistances():
    space = hm.SpanningTree(12)
    scores = random_scores(space)
    weights = matrix(space, scores.exp())
    laplacian = weights.sum(-1).diag() - weights
    torch.testing.assert_close(space.log_partition(scores), laplacian[1:, 1:].logdet())
    inverse = torch.linalg.pinv(laplacian)
    resistance = inverse.diagonal()[:, None] + inverse.diagonal() - 2 * inverse
    torch.testing.assert_close(matrix(space, space.marginals(scores)), weights * resistance)


@pytest.mark.parametrize("size", [50.0, 1e4])
def test_scores_that_no_determinant_survives(size):
    space = hm.SpanningTree(6)
    scores = size * (2 * torch.rand(50, *space.score_shape, generator=torch.Generator().manual_seed(0)).double() - 1)
    members = space.enumerate(dtype=torch.float64)
    log_q = space.log_probs(scores)
    torch.testing.assert_close(space.log_partition(scores), (scores @ members.mT).logsumexp(-1))
    torch.testing.assert_close(space.marginals(scores), log_q.exp() @ members, atol=1e-9, rtol=0)
    torch.testing.assert_close(space.entropy(scores), -(log_q.exp() * log_q).sum(-1), atol=1e-9, rtol=0)
    z = space.sample(scores, 200, generator=torch.Generator().manual_seed(0))
    certain = log_q.exp().amax(-1) > 1 - 1e-9
    assert certain.any()
    assert (z[:, certain] == space.argmax(scores)[certain]).all()
    assert (z.mean(0) - space.marginals(scores)).abs().max() < 5.5 * 0.5 / 200**0.5


def test_samples_of_a_large_tree_are_trees_with_its_marginals():
    space, draws = hm.SpanningTree(12), 20_000
    scores = random_scores(space)
    z = space.sample(scores, draws, generator=torch.Generator().manual_seed(0))
    assert (z.sum(-1) == 11).all()
    for tree in z[:50]:
        assert connected_components(matrix(space, tree).numpy())[0] == 1
    p = space.marginals(scores)
    assert ((z.mean(0) - p) / (p * (1 - p) / draws).sqrt()).abs().max() < 5.5
    pairs = (z[:, :-1] * z[:, 1:]).mean(0)  # edges repel each other
    assert (pairs <= p[:-1] * p[1:] + 5.5 * 0.5 / draws**0.5).all()


def test_best_tree_of_random_weights_is_not_uniform():
    """n = 4, zero scores: 4 of 16 trees are stars, and the best tree is a star with probability 4/15."""
    space, draws = hm.SpanningTree(4), 40_000
    zeros = torch.zeros(6, dtype=torch.float64)
    noise = space.noise((draws,), torch.Generator().manual_seed(0), dtype=torch.float64)

    def stars(z):
        degrees = torch.stack([sum(z[:, e] for e, pair in enumerate(space.edges) if node in pair) for node in range(4)])
        count = float((degrees == 3).any(0).sum())
        return [count, draws - count]

    mapped, drawn = stars(space.argmax(zeros + noise)), stars(space.draw(zeros, noise))
    assert chisquare(mapped, [draws * 4 / 15, draws * 11 / 15]).pvalue > 1e-6
    assert chisquare(mapped, [draws / 4, draws * 3 / 4]).pvalue < 1e-6
    assert chisquare(drawn, [draws / 4, draws * 3 / 4]).pvalue > 1e-6


def test_no_changes_of_one_variable():
    space, scores = hm.SpanningTree(4), torch.zeros(6, requires_grad=True)
    assert not space.offers("change")
    with pytest.raises(hm.NotExactError, match="SpanningTree"):
        space.changes  # noqa: B018
    with pytest.raises(hm.NotExactError, match="change"):
        hm.expectation(pytest.fail, scores, space, hm.Direct())


@settings(max_examples=40)
@given(st.integers(2, 7), st.lists(st.integers(0, 3), max_size=2).map(tuple), st.integers(0, 2**32))
def test_what_holds_for_every_size(n, batch, seed):
    space, generator = hm.SpanningTree(n), torch.Generator().manual_seed(seed)
    scores = random_scores(space, *batch, seed=seed, size=3.0)
    z = space.argmax(scores)
    for p in (z, space.marginals(scores), space.relax(scores, 0.1), space.sample(scores, 1, generator=generator)[0]):
        torch.testing.assert_close(p.sum(-1), torch.full(batch, n - 1.0, dtype=torch.float64))
        assert ((p >= -1e-12) & (p <= 1 + 1e-12)).all()
    drawn = space.sample(scores, 3, generator=generator)
    assert (space.dot(scores, drawn) <= space.dot(scores, z) + 1e-12).all()
    torch.testing.assert_close(space.kl(scores), space.log_size - space.entropy(scores))
    torch.testing.assert_close(space.entropy(scores + 7), space.entropy(scores))


@pytest.mark.parametrize("n", [1, 0, -1])
def test_bad_sizes(n):
    with pytest.raises(hm.ArgumentError, match=f"n={n}"):
        hm.SpanningTree(n)
