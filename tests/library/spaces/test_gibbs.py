"""Tests of all structured spaces with a partition function: derivatives, extremes, batches, estimators."""

import pytest
import torch
from cases import PATH, Toy

import hardmax as hm
from hardmax.testing import assert_exact, assert_unbiased

SPACES = [hm.Subset(5, 2), hm.Permutation(3), hm.Chain(3, 2), hm.SpanningTree(4), PATH, hm.GridPath(3, 3, on="nodes")]
WITH_CHANGES = [space for space in SPACES if space.offers("change")]
each = pytest.mark.parametrize("space", SPACES, ids=str)


def scores_of(space, *batch, size=1.0, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)).to(dtype)


def enumerated_entropy(space, scores):
    log_q = space.log_probs(scores)
    return -(log_q.exp() * log_q).sum(-1)


@each
def test_gradients_against_enumeration(space):
    scores, prior = scores_of(space, 2, 3).requires_grad_()

    def enumerated_kl(scores, prior):
        log_q = space.log_probs(scores)
        return (log_q.exp() * (log_q - space.log_probs(prior))).sum(-1)

    pairs = [
        (space.entropy(scores), enumerated_entropy(space, scores)),
        (space.kl(scores), space.log_size - enumerated_entropy(space, scores)),
        (space.kl(scores, prior), enumerated_kl(scores, prior)),
    ]
    for value, expected in pairs:
        torch.testing.assert_close(value, expected)
        inputs = {"inputs": [scores, prior], "allow_unused": True, "materialize_grads": True}
        torch.testing.assert_close(
            torch.autograd.grad(value.sum(), **inputs), torch.autograd.grad(expected.sum(), **inputs)
        )
    (gradient,) = torch.autograd.grad(space.log_partition(scores).sum(), scores)
    torch.testing.assert_close(gradient, space.marginals(scores))


@each
def test_derivatives_of_first_and_second_order(space):
    scores = scores_of(space).requires_grad_()
    z = space.argmax(scores_of(space, seed=1))
    quantities = [space.log_partition, space.entropy, space.kl, space.marginals, lambda s: space.log_prob(s, z)]
    for quantity in quantities:
        assert torch.autograd.gradcheck(quantity, scores)
        assert torch.autograd.gradgradcheck(quantity, scores)
    assert torch.autograd.gradcheck(lambda s: space.relax(s, 0.7), scores, atol=1e-4 if _uses_newton(space) else 1e-5)


@each
def test_second_derivatives_at_a_distance_are_finite(space):
    """Where terms differ by thousands, `torch.logaddexp` would give NaN."""
    scores = scores_of(space, size=3e3).requires_grad_()
    (gradient,) = torch.autograd.grad(space.log_partition(scores), scores, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), scores)
    assert second.isfinite().all()


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [50.0, 1e4])
def test_large_scores(space, dtype, size):
    scores = scores_of(space, 20, size=size, dtype=dtype).requires_grad_()
    total = space.entropy(scores) + space.kl(scores) + space.kl(-scores, scores) / size + space.log_partition(scores)
    (gradient,) = torch.autograd.grad(total.sum() + space.relax(scores, 0.1).square().sum(), scores)
    assert total.isfinite().all()
    assert gradient.isfinite().all()
    expected = enumerated_entropy(space, scores.detach().double())
    off = (space.entropy(scores).detach().double() - expected).abs().max()
    assert off < 100 * size * torch.finfo(dtype).eps


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(space, dtype):
    scores = scores_of(space, 3, dtype=dtype).requires_grad_()
    generator = torch.Generator().manual_seed(0)
    z = space.sample(scores, 4, generator=generator)
    everything = {
        "argmax": space.argmax(scores), "sample": z, "log_prob": space.log_prob(scores, z), "kl": space.kl(scores),
        "entropy": space.entropy(scores), "marginals": space.marginals(scores), "relax": space.relax(scores, 1e-4),
        "log_partition": space.log_partition(scores),
    }  # fmt: skip
    for name, value in everything.items():
        assert value.dtype == dtype, name
        assert value.isfinite().all(), name
    torch.testing.assert_close(space.entropy(scores).double(), space.entropy(scores.double()), atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(everything["relax"], everything["argmax"], atol=1e-2, rtol=0)
    assert torch.autograd.grad(space.kl(scores).sum(), scores)[0].isfinite().all()


@each
@pytest.mark.parametrize("batch", [(), (0,), (2,), (3, 0), (2, 3)], ids=str)
def test_batches(space, batch):
    scores = scores_of(space, *batch)
    z = space.sample(scores, 4, generator=torch.Generator().manual_seed(0))
    shapes = {
        space.argmax: space.event_shape, space.marginals: space.score_shape, space.entropy: (), space.kl: (),
        space.log_partition: (), lambda s: space.relax(s, 0.5): space.event_shape,
    }  # fmt: skip
    for quantity, shape in shapes.items():
        value = quantity(scores)
        assert value.shape == (*batch, *shape)
        if batch == (2, 3):
            torch.testing.assert_close(value[1, 2], quantity(scores[1, 2]))
    assert z.shape == (4, *batch, *space.event_shape)
    assert space.log_prob(scores, z).shape == (4, *batch)
    assert space.kl(scores, scores_of(space)).shape == batch
    assert space.statistics(z).shape == (4, *batch, *space.score_shape)
    if space.offers("change"):
        neighbours = space.neighbours(z)
        assert neighbours.shape == (space.changes, *z.shape)
        gains = torch.zeros(space.changes, 4, *batch, dtype=torch.float64)
        assert space.parts(z, gains).shape == (4, *batch, *space.score_shape)


@each
def test_only_the_noise_determines_the_sample(space):
    scores = scores_of(space, 5)
    noise = space.noise((7, 5), torch.Generator().manual_seed(3), dtype=torch.float64)
    state = torch.get_rng_state()
    first, second = space.draw(scores, noise), space.draw(scores, noise)
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first[2, 4], space.draw(scores[4], noise[2, 4]))  # each from its own noise
    assert not torch.equal(first, space.draw(scores, noise.flip(0)))
    assert not space.draw(scores.requires_grad_(), noise).requires_grad


@each
def test_extreme_noise_still_gives_members(space):
    scores = scores_of(space, size=5.0)
    members = space.enumerate(dtype=torch.float64).flatten(1)
    for value in (-6.0, 0.0, 40.0, 700.0):
        z = space.draw(scores, torch.full_like(scores, value)).flatten()
        assert (members == z).all(-1).any()


@each
def test_wrong_shapes_say_what_is_needed(space):
    wrong = torch.zeros(*space.score_shape[:-1], space.score_shape[-1] + 1)
    z = space.argmax(torch.zeros(space.score_shape))
    for call in (lambda: space.log_prob(wrong, z), lambda: space.kl(torch.zeros(space.score_shape), wrong)):
        with pytest.raises(hm.ShapeError, match=r"needs \[\*B, "):
            call()


# ------------------------------------------------------------------------------- estimators
@each
def test_exact(space):
    assert_exact(hm.Exact(), space)


@each
@pytest.mark.parametrize(("estimator", "samples"), [(hm.Reinforce("none"), 1), (hm.Reinforce("leave-one-out"), 3)])
def test_reinforce_is_unbiased(space, estimator, samples):
    assert_unbiased(estimator, space, samples=samples, resolution=0.3)


@each
def test_straight_through_is_unbiased_for_linear_f_where_it_serves(space):
    event = tuple(range(-len(space.event_shape), 0))
    weight = scores_of(space) if space.event_shape == space.score_shape else None
    if weight is None:
        with pytest.raises(hm.NotExactError, match="shape of its scores"):
            hm.expectation(pytest.fail, scores_of(space), space, hm.StraightThrough())
    else:
        assert_unbiased(hm.StraightThrough(), space, f=lambda z: (z * weight).sum(event))


@each
@pytest.mark.parametrize("tau", [2.0, 0.5, 0.05])
def test_relaxed_samples_lie_in_the_polytope(space, tau):
    """Every relaxed z is a mean of members: in no direction is it farther than all members."""
    scores = scores_of(space, 3).requires_grad_()
    generator = torch.Generator().manual_seed(0)
    z = hm.sample(scores, space, hm.GumbelSoftmax(tau), samples=5, generator=generator)
    (gradient,) = torch.autograd.grad(z.pow(3).sum(), scores)
    assert gradient.isfinite().all()
    members = space.enumerate(dtype=torch.float64).flatten(1)
    directions = torch.randn(200, members.shape[1], generator=generator, dtype=torch.float64)
    inner, outer = z.detach().flatten(2) @ directions.mT, (members @ directions.mT).amax(0)
    assert (inner <= outer + 1e-6).all()
    hard = hm.sample(scores, space, hm.GumbelSoftmax(tau, hard=True), samples=2, generator=generator)
    assert ((hard == 0) | (hard == 1)).all()


@pytest.mark.parametrize("space", WITH_CHANGES, ids=str)
@pytest.mark.parametrize("two_sided", [False, True])
def test_direct_runs_and_is_bounded(space, two_sided):
    scores = scores_of(space, 4).requires_grad_()
    estimator, generator = hm.Direct(0.5, two_sided=two_sided), torch.Generator().manual_seed(0)
    out = hm.expectation(Toy(space), scores, space, estimator, samples=2, generator=generator)
    (gradient,) = torch.autograd.grad(out.value.sum(), scores)
    assert gradient.abs().max() <= 1 / 0.5
    assert gradient.abs().max() > 0
    assert out.evaluations == 2 * (1 + space.changes)


def _uses_newton(space):
    """Return whether the relaxation is solved to a tolerance, not in closed form."""
    return isinstance(space, hm.Permutation)
