"""Interacting bits against enumeration: the two distributions that the scores define, and the bound between them."""

import pytest
import torch

import hardmax as hm
from hardmax.nn import convert_to_scores
from hardmax.testing import assert_space

SPACES = [
    hm.PairwiseBinary(1),
    hm.PairwiseBinary(2),
    hm.PairwiseBinary(5),
    hm.PairwiseBinary(4, []),
    hm.PairwiseBinary(6, [(0, 3), (5, 1), (2, 3)]),
    hm.PairwiseBinary.grid(2, 3),
]


def scores_of(space, batch=(3,), seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)
    scores[..., space.n :] *= scale
    return scores.abs() if space.supermodular else scores


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_against_enumeration(space):
    assert_space(space)


def test_supermodular_against_enumeration():
    space = hm.PairwiseBinary(6, supermodular=True)
    scores = scores_of(space, (8,))
    scores[:, :6] -= 2.5  # neither all zeros nor all ones
    assert_space(space, scores=scores)


def test_in_chunks_of_the_batch(monkeypatch):
    """A batch too large for one table of energies gives the same results."""
    from hardmax.spaces import _pairwise_gibbs as pairwise_gibbs

    space = hm.PairwiseBinary(6)
    scores = scores_of(space, (7,))
    noise = space.noise((4, 7), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unchunked = space.kl(scores), space.draw(scores, noise), space.log_partition(scores)
    monkeypatch.setattr(pairwise_gibbs, "_BLOCK_SIZE", 2 * 2**6)
    chunked = space.kl(scores), space.draw(scores, noise), space.log_partition(scores)
    torch.testing.assert_close(chunked, unchunked)


@pytest.mark.parametrize("name", ["log_partition", "entropy", "kl"])
def test_gradients_of_the_gibbs_distribution(name):
    space = hm.PairwiseBinary(4)
    scores = scores_of(space).requires_grad_()
    assert torch.autograd.gradcheck(getattr(space, name), scores)


def test_marginals_are_the_gradient_of_log_partition():
    space = hm.PairwiseBinary(7, [(0, 6), (1, 2), (3, 5)])
    scores = scores_of(space).requires_grad_()
    slope = torch.autograd.grad(space.log_partition(scores).sum(), scores)[0]
    torch.testing.assert_close(space.marginals(scores), slope)


def test_fields_and_differential_are_single_flips():
    space = hm.PairwiseBinary(5)
    scores, z = scores_of(space), (torch.rand(4, 3, 5, dtype=torch.float64) < 0.5).double()
    on, off = z.clone(), z.clone()
    on[..., 2], off[..., 2] = 1, 0
    difference = space.statistics(on) - space.statistics(off)
    torch.testing.assert_close(space.fields(scores, z)[..., 2], space.dot(scores, difference))
    step = torch.zeros(4, 3, 5, dtype=torch.float64)
    step[..., 2] = 1
    torch.testing.assert_close(space.differential(z, step), difference)


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.5])
def test_the_pseudo_likelihood_bounds_perturb_and_map(scale):
    """P(z) <= PL(z) for every z; without couplings they are equal, and both are the Gibbs distribution."""
    space, draws = hm.PairwiseBinary(4), 200_000
    scores = scores_of(space, (), seed=1, scale=scale)
    noise = space.noise((draws,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = space.argmax(space.perturb(scores, noise))
    members = space.enumerate(dtype=torch.float64)
    frequency = (z[:, None] == members).all(-1).double().mean(0)
    bound = space.log_prob_bound(scores, members).exp()
    tolerance = 5.5 * (frequency * (1 - frequency) / draws).sqrt() + 1e-4
    assert (frequency <= bound + tolerance).all()
    gibbs = space.log_prob(scores, members).exp()
    distance = float((frequency - gibbs).abs().sum() / 2)
    if scale == 0:
        torch.testing.assert_close(bound, gibbs)
        assert distance < 0.01
    else:
        assert bound.sum() > 1.02
        assert distance > 0.05  # perturb-and-MAP is another distribution


def test_half_precision_and_empty_batches():
    space = hm.PairwiseBinary(5)
    for dtype in (torch.float16, torch.bfloat16):
        scores = scores_of(space).to(dtype)
        assert space.kl(scores).dtype == space.argmax(scores).dtype == space.sample(scores, 2).dtype == dtype
    empty = torch.zeros(0, 15)
    assert space.argmax(empty).shape == (0, 5)
    assert space.kl(empty).shape == (0,)
    assert space.sample(empty, 3).shape == (3, 0, 5)


def test_more_bits_than_can_be_enumerated():
    space = hm.PairwiseBinary(30)
    assert not space.offers("log_prob")
    assert not space.offers("draw")
    assert space.offers("log_prob_bound")
    scores = scores_of(space, (2,), scale=0.3)
    with pytest.raises(hm.NotExactError, match="n = 20"):
        space.kl(scores)
    with pytest.raises(hm.NotExactError, match="needs draw"):
        hm.expectation(lambda z: z.sum(-1), scores, space, hm.GibbsCovariance())
    solution = space.solve(scores)
    assert solution.is_exact
    torch.testing.assert_close(solution.value, space.dot(scores, space.statistics(solution.z)))


def test_solutions_that_cannot_be_proved_are_reported_with_their_gap():
    hard = hm.PairwiseBinary(90)
    scores = scores_of(hard, (2,), seed=2)
    with pytest.raises(hm.NotExactError, match=r"gap.*heuristic"):
        hard.argmax(scores)
    solution = hard.solve(scores, node_limit=2000)
    assert not solution.is_exact
    assert (solution.gap > 0).any()
    heuristic = hm.PairwiseBinary(90, solver="heuristic")
    z = heuristic.argmax(scores)
    assert (heuristic.dot(scores, heuristic.statistics(z)) <= solution.bound).all()
    assert "heuristic" in heuristic.solve(scores).solver
    assert "heuristic" in hm.expectation(lambda z: z.sum(-1), scores, heuristic, hm.Direct()).solver


def test_disconnected_graphs_and_no_number():
    space = hm.PairwiseBinary(5, [(0, 1), (3, 4)])
    scores = scores_of(space)
    best = space.argmax(scores)
    for left, right in (((0, 1), 5), ((3, 4), 6)):
        pair = hm.PairwiseBinary(2)
        torch.testing.assert_close(best[:, left], pair.argmax(scores[:, [*left, right]]))
    scores[1, 2] = float("nan")
    with pytest.raises(hm.ArgumentError, match=r"finite.*\[1, 2\]"):
        hm.expectation(lambda z: z.sum(-1), scores, space, hm.Direct())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hm.PairwiseBinary(0), "at least one bit.*n=0"),
        (lambda: hm.PairwiseBinary(3, [(0, 1), (1, 0)]), r"edges 0 and 1 are both \(0, 1\)"),
        (lambda: hm.PairwiseBinary(3, [(0, 3)]), r"edge 0 is \(0, 3\)"),
        (lambda: hm.PairwiseBinary(3, [(1, 1)]), "two different bits"),
        (lambda: hm.PairwiseBinary(3, [(0, 1, 2)]), "pairs of bits"),
        (lambda: hm.PairwiseBinary.grid(0, 3), "at least one row"),
    ],
)
def test_graphs_that_cannot_be(make, message):
    with pytest.raises(hm.ArgumentError, match=message):
        make()


def test_a_broken_promise_is_reported():
    space = hm.PairwiseBinary(3, supermodular=True)
    scores = torch.ones(2, 6)
    scores[1, 4] = -0.5
    for call in (
        lambda: hm.expectation(lambda z: z.sum(-1), scores, space, hm.Direct()),
        lambda: space.argmax(scores),
        lambda: space.solve(scores),
    ):
        with pytest.raises(hm.ArgumentError, match=r"-0\.5"):
            call()


def test_plain_softplus_makes_every_bit_one():
    """The trap that `convert_to_scores` avoids with its offset."""
    n = 15
    space = hm.PairwiseBinary(n, supermodular=True)
    raw = torch.randn(1000, *space.score_shape, generator=torch.Generator().manual_seed(0)) * 0.1
    noise = space.noise((1, 1000), generator=torch.Generator().manual_seed(1))
    plain = torch.cat([raw[:, :n], torch.nn.functional.softplus(raw[:, n:])], -1)
    assert space.argmax(space.perturb(plain, noise)).mean() > 0.97
    share = space.argmax(space.perturb(convert_to_scores(raw, space), noise)).mean()
    assert 0.3 < share < 0.7


def test_equal_and_hashable():
    assert hm.PairwiseBinary(3) == hm.PairwiseBinary(3, [(0, 1), (0, 2), (1, 2)])
    assert len({hm.PairwiseBinary(3), hm.PairwiseBinary(3, torch.tensor([[0, 1]]))}) == 2
    assert str(hm.PairwiseBinary.grid(10, 10, supermodular=True)) == "PairwiseBinary(100, 180 edges, supermodular)"


def test_the_estimate_names_the_solver_that_ran():
    space, f = hm.PairwiseBinary(4), lambda z: z.sum(-1)
    scores = scores_of(space, (3,), seed=0)
    positive = torch.cat([scores[:, :4], scores[:, 4:].abs()], -1)
    assert (scores[:, 4:] < 0).any()
    assert hm.expectation(f, scores, space, hm.Direct()).solver == "branch-and-bound"
    assert hm.expectation(f, positive, space, hm.Direct()).solver == "min-cut"  # although the space was not promised it
    assert hm.expectation(f, scores, space, hm.Exact()).solver is None  # no arg max was solved
    assert hm.expectation(f, scores, hm.PairwiseBinary(4, solver="enumeration"), hm.Direct()).solver == "enumeration"
    assert hm.expectation(f, scores[:, :4], hm.PairwiseBinary(4, []), hm.Direct()).solver == "separate bits"
    assert hm.expectation(f, scores[:, :4], hm.Binary(4), hm.Direct()).solver is None


def test_scores_that_reward_agreement_differ_from_the_energy_by_a_constant():
    generator = torch.Generator().manual_seed(0)
    unary, right, below = (
        torch.randn(4, *shape, dtype=torch.float64, generator=generator) for shape in ((2, 3), (2, 2), (1, 3))
    )
    space = hm.PairwiseBinary.grid(2, 3)
    scores = space.reward_agreement(unary, right, below)
    z = space.enumerate(dtype=torch.float64)[:, None].unflatten(-1, (2, 3))
    energy = (unary * z).sum((-2, -1))
    energy += (right * (z[..., 1:] == z[..., :-1])).sum((-2, -1)) + (below * (z[..., 1:, :] == z[..., :-1, :])).sum(
        (-2, -1)
    )
    difference = space.dot(scores, space.statistics(z.flatten(-2).expand(-1, 4, -1))) - energy
    torch.testing.assert_close(difference, difference[:1].expand_as(difference))
    assert not energy.std(0).lt(0.1).any()
