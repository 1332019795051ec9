"""Chain: Viterbi and forward-backward."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import hardmax as hm
from hardmax.solvers.viterbi import viterbi
from hardmax.testing import assert_space


def random_scores(space, *batch, seed=0, size=1.0):
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(*batch, *space.score_shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("length", "states"), [(2, 1), (5, 1), (2, 3), (3, 3), (5, 2), (4, 3)])
def test_everything_offered_agrees_with_enumeration(length, states):
    assert_space(hm.Chain(length, states))


@pytest.mark.parametrize(("length", "states"), [(2, 4), (4, 3), (7, 2)])
def test_viterbi_against_brute_force(length, states):
    space = hm.Chain(length, states)
    scores = random_scores(space, 1000)
    scores[500:] = scores[500:].round()  # ties
    values = scores.flatten(1) @ space.statistics(space.enumerate(dtype=torch.float64)).flatten(1).mT
    torch.testing.assert_close(space.dot(scores, space.statistics(space.argmax(scores))), values.amax(-1))


def test_viterbi_of_a_long_chain_is_the_limit_of_a_sharp_one():
    space = hm.Chain(200, 4)
    scores = random_scores(space, 3)
    sharp = space.relax(scores, 1e-5)
    torch.testing.assert_close(sharp, space.argmax(scores), atol=1e-3, rtol=0)


def test_log_partition_against_powers_of_a_matrix():
    """The same transition everywhere: Z = 1' A^(length - 1) 1."""
    step = random_scores(hm.Chain(2, 3))[0]
    for length in (2, 50, 300):
        space, scale = hm.Chain(length, 3), step.exp().sum(-1).max()
        power = torch.linalg.matrix_power(step.exp() / scale, length - 1)
        expected = power.sum().log() + (length - 1) * scale.log()
        torch.testing.assert_close(space.log_partition(step.expand(length - 1, 3, 3)), expected)


def test_marginals_of_states_against_forward_and_backward_sums():
    space = hm.Chain(30, 3)
    weights = random_scores(space).exp()
    forward, backward = [torch.ones(3, dtype=torch.float64)], [torch.ones(3, dtype=torch.float64)]
    for w in weights:
        forward.append(forward[-1] @ w)
    for w in reversed(weights):
        backward.append(w @ backward[-1])
    nodes = torch.stack([a * b for a, b in zip(forward, reversed(backward), strict=True)])
    torch.testing.assert_close(space.relax(weights.log(), 1.0), nodes / nodes.sum(-1, keepdim=True))


def test_scores_of_single_states_are_independent_variables():
    """Unary scores folded into the transitions, as the docstring says, give the chain of independent places."""
    space, independent = hm.Chain(4, 3), hm.Categorical(3, 4)
    unary, prior = (random_scores(hm.Chain(5, 3), 2, seed=seed)[..., 0] for seed in (0, 1))  # [2, 4, 3]

    def folded(unary):
        into = unary[:, 1:, None, :].expand(2, 3, 3, 3).clone()
        into[:, 0] += unary[:, 0, :, None]
        return into

    z = space.argmax(folded(unary))
    assert torch.equal(z, independent.argmax(unary))
    torch.testing.assert_close(space.entropy(folded(unary)), independent.entropy(unary))
    torch.testing.assert_close(space.log_prob(folded(unary), z), independent.log_prob(unary, z))
    torch.testing.assert_close(space.kl(folded(unary), folded(prior)), independent.kl(unary, prior))
    torch.testing.assert_close(space.relax(folded(unary), 1.0), independent.marginals(unary))


def test_long_chains_are_accurate_in_float32():
    space = hm.Chain(1000, 4)
    scores = random_scores(space, size=3.0)
    for quantity in (space.entropy, space.kl, lambda s: space.kl(s, -s)):
        torch.testing.assert_close(quantity(scores.float()).double(), quantity(scores), rtol=1e-5, atol=1e-3)


def test_samples_of_a_long_chain_have_its_marginals():
    space, draws = hm.Chain(40, 3), 20_000
    scores = random_scores(space)
    samples = space.sample(scores, draws, generator=torch.Generator().manual_seed(0))
    joint, p = space.statistics(samples).mean(0), space.marginals(scores)
    z = (joint - p) / (p * (1 - p) / draws).sqrt()
    assert z.abs().max() < 5.5  # two-sided normal tail of 1e-5 among 351


def test_perturb_and_map_is_not_q_but_for_one_transition():
    draws, generator = 20_000, torch.Generator().manual_seed(0)
    for space, same in ((hm.Chain(2, 3), True), (hm.Chain(4, 2), False)):
        scores = random_scores(space, seed=2)
        noise = space.noise((draws,), generator, dtype=torch.float64)
        z, members = space.argmax(scores + noise), space.enumerate(dtype=torch.float64)
        counts = (z[:, None] == members).flatten(2).all(-1).double().sum(0)
        assert (chisquare(counts, draws * space.log_probs(scores).exp()).pvalue > 1e-6) == same


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(1, 4), st.lists(st.integers(0, 3), max_size=2).map(tuple), st.integers(0, 2**32))
def test_what_holds_for_every_size(length, states, batch, seed):
    space, generator = hm.Chain(length, states), torch.Generator().manual_seed(seed)
    scores = random_scores(space, *batch, seed=seed, size=3.0)
    z = space.argmax(scores)
    best = space.dot(scores, space.statistics(z))
    assert (space.dot(scores, space.statistics(space.neighbours(z))) <= best + 1e-12).all()
    joint = space.marginals(scores)
    torch.testing.assert_close(joint[..., :-1, :, :].sum(-2), joint[..., 1:, :, :].sum(-1))
    for probabilities in (z, space.relax(scores, 0.1), space.sample(scores, 1, generator=generator)[0]):
        torch.testing.assert_close(probabilities.sum(-1), torch.ones(*batch, length, dtype=torch.float64))
    torch.testing.assert_close(space.kl(scores), length * math.log(states) - space.entropy(scores))
    backwards = space.entropy(scores.flip(-3).mT)
    torch.testing.assert_close(backwards, space.entropy(scores))


def test_viterbi_takes_the_first_of_equals():
    assert viterbi(torch.zeros(2, 3, 4, 4)).unique().tolist() == [0]


@pytest.mark.parametrize(("length", "states", "message"), [(1, 3, "length=1"), (0, 3, "length=0"), (3, 0, "states=0")])
def test_bad_sizes(length, states, message):
    with pytest.raises(hm.ArgumentError, match=message):
        hm.Chain(length, states)
