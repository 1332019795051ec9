"""Scores of minus infinity: what they forbid has probability and gradient zero, and all else is as without it."""

import cases
import pytest
import torch

import hardmax as hm

SPACES = [
    hm.Categorical(5),
    hm.Categorical(4, 2),
    hm.Binary(4),
    hm.Subset(6, 2),
    hm.Permutation(4),
    cases.PATH,
    hm.GridPath(3, 3),
    hm.GridPath(3, 3, connectivity=8, on="nodes"),
    hm.Chain(3, 3),
    hm.SpanningTree(4),
    hm.Knapsack([3.0, 2.0, 2.0, 1.0], 4.0),
]
INF = float("inf")


def make_masked_scores(space, *, dtype=torch.float64, examples=4, seed=0):
    """Return scores with some entries of minus infinity, such that every example allows a z; and log q of all z."""
    generator = torch.Generator().manual_seed(seed)
    members = space.enumerate(dtype=dtype)
    statistics = space.statistics(members)
    shape = (examples, *space.score_shape)
    scores = torch.randn(shape, generator=generator, dtype=dtype)
    kept = statistics[torch.randint(len(members), (examples,), generator=generator)] != 0
    masked = (torch.rand(shape, generator=generator, dtype=dtype) < 0.4) & ~kept
    scores = scores.masked_fill(masked, -INF)
    finite = scores.masked_fill(masked, 0.0).flatten(1)
    totals = finite @ statistics.flatten(1).mT
    forbidden = (masked.flatten(1).to(dtype) @ (statistics != 0).flatten(1).mT.to(dtype)) > 0
    assert masked.any()
    return scores, masked, totals.masked_fill(forbidden, -INF).log_softmax(-1), members


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_space_with_masked_scores_equals_enumeration(space):
    scores, _, log_q, members = make_masked_scores(space)
    q = log_q.exp()
    statistics = space.statistics(members)
    assert torch.equal(space.argmax(scores), members[log_q.argmax(-1)])
    torch.testing.assert_close(space.marginals(scores), torch.tensordot(q, statistics, 1))
    entropy = -(q * log_q.masked_fill(q == 0, 0.0)).sum(-1)
    torch.testing.assert_close(space.entropy(scores), entropy)
    torch.testing.assert_close(space.kl(scores), space.log_size - entropy)
    lead = members[:, None].expand(len(members), len(scores), *space.event_shape)
    log_prob = space.log_prob(scores, lead).mT
    torch.testing.assert_close(log_prob[q > 0], log_q[q > 0])
    assert (log_prob[q == 0] < -1e20).all()
    z = space.sample(scores, 2000, generator=torch.Generator().manual_seed(1))
    drawn = (z[:, :, None].flatten(3) == members.flatten(1)).all(-1).to(q.dtype).mean(0)
    assert (drawn[q == 0] == 0).all()
    assert (drawn - q).abs().max() < 6 * (0.25 / 2000) ** 0.5


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_gradient_of_space_with_masked_scores_is_zero_at_the_mask(space):
    scores, masked, _, _ = make_masked_scores(space)
    scores.requires_grad_()
    for function in (space.entropy, space.kl, lambda s: space.marginals(s).square()):
        (gradient,) = torch.autograd.grad(function(scores).sum(), scores)
        assert gradient.isfinite().all()
        assert (gradient[masked] == 0).all()


def make_objective(space, *, seed=3):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(space.event_shape, generator=generator, dtype=torch.float64)
    dims = tuple(range(-len(space.event_shape), 0))
    return lambda z: ((z * weights).sum(dims) + 0.3).square()


@pytest.mark.parametrize(("space", "estimator"), cases.pairs(SPACES), ids=str)
def test_estimators_give_masked_scores_no_gradient(space, estimator):
    scores, masked, _, _ = make_masked_scores(space)
    scores.requires_grad_()
    f, generator = cases.Rows(space, (len(scores),)), torch.Generator().manual_seed(5)
    samples = cases.samples_for(space, estimator, 2)
    out = hm.expectation(f, scores, space, estimator, samples=samples, generator=generator)
    (gradient,) = torch.autograd.grad(out.value.sum(), scores)
    assert out.value.isfinite().all()
    assert gradient.isfinite().all()
    assert (gradient[masked] == 0).all()
    if space == SPACES[0] and estimator != hm.Blackbox():  # elsewhere, few draws may give no gradient at all
        assert (gradient != 0).any()
    if estimator != hm.Exact():
        assert not ((space.statistics(out.z) != 0) & masked).any()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_exact_gradient_with_a_mask_is_that_of_the_allowed_members(space):
    scores, masked, log_q, members = make_masked_scores(space)
    f, leaf = make_objective(space), scores.clone().requires_grad_()
    out = hm.expectation(f, leaf, space, hm.Exact())
    values, q = f(members), log_q.exp()
    torch.testing.assert_close(out.value, q @ values)
    (gradient,) = torch.autograd.grad(out.value.sum(), leaf)
    statistics = space.statistics(members)
    centred = values - (q @ values)[:, None]
    torch.testing.assert_close(gradient, torch.tensordot(q * centred, statistics, 1).masked_fill(masked, 0.0))


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_posterior_direct_never_leaves_the_mask(epsilon):
    """The score of a forbidden value is part of log p(z) - log q(z), which must not make it the posterior's choice."""
    space = hm.Categorical(4)
    scores = torch.tensor([[0.0, 1.0, -INF, -INF]], dtype=torch.float64).expand(500, 4).clone().requires_grad_()
    worth = torch.tensor([0.0, 1.0, 50.0, 2.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    out = hm.elbo(lambda z: z @ worth, scores, space, hm.Direct(epsilon), samples=20, generator=generator)
    out.value.sum().backward()
    assert (scores.grad[:, 2:] == 0).all()
    # Swaps between the two allowed values alone: their gradients cancel.
    torch.testing.assert_close(scores.grad.sum(-1), torch.zeros(500, dtype=torch.float64))


def test_masks_without_z_name_the_example():
    scores = torch.zeros(3, 4)
    scores[1] = -INF
    with pytest.raises(hm.ArgumentError, match=r"leave no z of Categorical.* in example \[1\]"):
        hm.sample(scores, hm.Categorical(4), hm.StraightThrough())
    scores = torch.zeros(3, 4)
    scores[2, :3] = -INF
    with pytest.raises(hm.ArgumentError, match=r"leave no z of Subset.* in example \[2\]"):
        hm.sample(scores, hm.Subset(4, 2), hm.StraightThrough())
    table = torch.zeros(3, 3)
    table[:2, :2] = -INF
    with pytest.raises(hm.ArgumentError, match="leave no z of Permutation"):
        hm.sample(table, hm.Permutation(3), hm.ImplicitMLE())
    edges = torch.zeros(8)
    edges[5] = -INF  # the bridge
    with pytest.raises(hm.ArgumentError, match="leave no z of ShortestPath"):
        hm.sample(edges, cases.PATH, hm.ImplicitMLE())


def test_walls_of_a_grid_with_cycles():
    space = hm.GridPath(3, 3, connectivity=4, monotone=False, on="nodes")
    scores = -torch.ones(3, 3)
    scores[0, 1] = scores[1, 1] = -INF
    z = hm.sample(scores.requires_grad_(), space, hm.ImplicitMLE(), generator=torch.Generator().manual_seed(0))
    assert z.tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("space", [hm.PairwiseBinary(3), hm.SolverSpace(lambda scores: scores, 3)], ids=str)
def test_spaces_that_cannot_be_masked_need_finite_scores(space):
    scores = torch.zeros(space.score_shape)
    scores[0] = -INF
    with pytest.raises(hm.ArgumentError, match="scores must be finite, got -inf"):
        hm.sample(scores, space, hm.ImplicitMLE())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_masks_in_narrow_dtypes(space, dtype):
    scores, masked, _, _ = make_masked_scores(space, dtype=torch.float32)
    scores = scores.to(dtype).requires_grad_()
    for estimator in (hm.StraightThrough(), hm.ImplicitMLE(), hm.GumbelSoftmax(0.5)):
        try:
            estimator.check(space, 1)
        except hm.NotExactError:
            continue
        z = hm.sample(scores, space, estimator, generator=torch.Generator().manual_seed(0))
        (gradient,) = torch.autograd.grad(z.float().square().sum(), scores)
        assert z.isfinite().all()
        assert gradient.isfinite().all()
        assert (gradient[masked] == 0).all()
