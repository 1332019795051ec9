"""Properties of every space, size and score."""

import torch
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm

SPACES = st.one_of(
    st.builds(hm.Categorical, st.integers(1, 6)),
    st.builds(hm.Categorical, st.integers(1, 4), st.integers(1, 4)),
    st.builds(hm.Binary, st.integers(1, 6)),
)
BATCHES = st.lists(st.integers(0, 3), max_size=2).map(tuple)
SEEDS = st.integers(0, 2**32)


def scores_of(space, batch, seed, size=3.0):
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)


@given(SPACES, BATCHES, SEEDS)
def test_argmax_beats_its_neighbours(space, batch, seed):
    scores = scores_of(space, batch, seed)
    z = space.argmax(scores)
    best = space.dot(scores, space.statistics(z))
    assert (space.dot(scores, space.statistics(space.neighbours(z))) <= best).all()


@given(SPACES, BATCHES, SEEDS)
def test_changes_can_be_taken_back(space, batch, seed):
    z = space.argmax(scores_of(space, batch, seed))
    for neighbour in space.neighbours(z):
        if neighbour.numel():
            back = space.neighbours(neighbour)
            assert (back == z).flatten(len(batch) + 1).all(-1).any(0).all()


@given(SPACES, BATCHES, SEEDS, st.floats(-50, 50))
def test_a_constant_on_one_categorical_s_scores_changes_nothing(space, batch, seed, constant):
    if isinstance(space, hm.Binary):
        return
    scores = scores_of(space, batch, seed)
    torch.testing.assert_close(space.entropy(scores + constant), space.entropy(scores))
    torch.testing.assert_close(space.kl(scores + constant), space.kl(scores))


@given(SPACES, BATCHES, SEEDS)
def test_entropy_and_kl_add_up(space, batch, seed):
    """KL(q || uniform) = log size - H(q), KL(q || q) = 0, and both are never negative."""
    scores = scores_of(space, batch, seed)
    log_size = torch.tensor(float(space.size), dtype=torch.float64).log()
    torch.testing.assert_close(space.kl(scores), log_size - space.entropy(scores))
    torch.testing.assert_close(space.kl(scores, scores), torch.zeros(batch, dtype=torch.float64))
    assert (space.kl(scores, scores_of(space, batch, seed + 1)) >= -1e-12).all()
    assert (space.entropy(scores) >= -1e-12).all()


@given(SPACES, BATCHES, SEEDS, st.floats(0.01, 10))
def test_relaxed_z_lies_between_the_corners(space, batch, seed, tau):
    soft = space.relax(scores_of(space, batch, seed), tau)
    assert ((soft >= 0) & (soft <= 1)).all()
    if not isinstance(space, hm.Binary):
        torch.testing.assert_close(soft.sum(-1), torch.ones(soft.shape[:-1], dtype=torch.float64))


@given(SPACES, BATCHES, SEEDS, st.floats(0.01, 5))
def test_direct_gradient_is_bounded_by_one_over_epsilon(space, batch, seed, epsilon):
    scores = scores_of(space, batch, seed).requires_grad_()
    f = lambda z: 100 * z.flatten(1 + len(batch)).cumsum(-1).square().sum(-1)  # noqa: E731
    generator = torch.Generator().manual_seed(seed)
    hm.expectation(f, scores, space, hm.Direct(epsilon), generator=generator).value.sum().backward()
    assert (scores.grad.abs() <= 1 / epsilon + 1e-9).all()
