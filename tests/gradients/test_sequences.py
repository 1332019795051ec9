"""The gradient of the mean reward of sequences, against enumeration of all of them."""

from dataclasses import dataclass
from itertools import product

import pytest
import torch

import hardmax as hm
from hardmax.applications.sequences import sequence_expectation

K, T = 3, 3
LIMIT = 5.5  # of the largest z: a false alarm in ten million for each number
BLOCKS, COUNT = 100, 300


@dataclass(frozen=True)
class Table:
    """A writer whose scores are parameters, by place and by the token before."""

    scores: torch.Tensor  # [T, K + 1, K]
    space: hm.Categorical = hm.Categorical(K)  # noqa: RUF009

    def begin(self, count):
        return torch.zeros(count, K, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)

    def step(self, z, place):
        at = self.scores[int(place[0])]  # what stands before the first token is nothing, the row after all others
        return torch.cat([z, 1 - z.sum(-1, keepdim=True)], -1) @ at, place + 1


@dataclass(frozen=True)
class Values:
    """A judge that looks the number of every prefix up; multilinear in tokens that are not hard."""

    numbers: tuple[torch.Tensor, ...]  # [K], [K, K], [K, K, K]

    def begin(self, count):
        return torch.ones(count, 1, dtype=torch.float64)

    def step(self, z, state):
        state = (state[:, :, None] * z[:, None]).flatten(1)  # one-hot of the prefix
        length = {K ** (t + 1): t for t in range(T)}[state.shape[1]]
        return state @ self.numbers[length].flatten(), state


def problem(seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(T, K + 1, K, generator=generator, dtype=torch.float64, requires_grad=True)
    numbers = tuple(torch.randn((K,) * (t + 1), generator=generator, dtype=torch.float64) for t in range(T))
    return Table(scores), Values(numbers)


def enumerated(writer, judge, *, far=True):
    """The exact gradient; not far: what a token does to later rewards is left out."""
    total = 0
    for x in product(range(K), repeat=T):
        log_q, before = [], K
        for t, token in enumerate(x):
            log_q.append(writer.scores[t, before].log_softmax(-1)[token])
            before = token
        q = torch.stack(log_q).sum().exp().detach()
        rewards = [judge.numbers[t][x[: t + 1]] for t in range(T)]
        for t in range(T):
            total = total + q * log_q[t] * (sum(rewards[t:]) if far else rewards[t])
    return torch.autograd.grad(total, writer.scores)[0]


def blocks(writer, judge, estimator, credit, *, samples=1):
    """Gradients of the mean value of many blocks of sequences."""
    generator, found = torch.Generator().manual_seed(1), []
    for _ in range(BLOCKS):
        noise = hm.Categorical(K).noise((samples, COUNT, T), generator, dtype=torch.float64)
        out = sequence_expectation(writer, judge, estimator, noise, credit=credit)
        found.append(torch.autograd.grad(out.value.mean(), writer.scores)[0])
    return torch.stack(found)


def largest_z(found, exact):
    error = found.std(0) / len(found) ** 0.5
    return float(((found.mean(0) - exact).abs() / error.clamp_min(1e-6)).max())


UNBIASED = [
    (hm.Exact(), 1),
    (hm.AveragedDirect(1e-4, two_sided=True), 1),
    (hm.Reinforce("none"), 1),
    (hm.Reinforce("mean"), 1),
    (hm.Reinforce("leave-one-out"), 3),
]


@pytest.mark.parametrize(("estimator", "samples"), UNBIASED, ids=str)
def test_rollouts_have_the_bias_of_the_estimator_alone(estimator, samples):
    writer, judge = problem()
    exact = enumerated(writer, judge)
    found = blocks(writer, judge, estimator, "rollout", samples=samples)
    assert largest_z(found, exact) < LIMIT
    assert largest_z(1.2 * found, exact) > LIMIT  # a planted error shows


@pytest.mark.parametrize(("estimator", "samples"), UNBIASED[:3], ids=str)
def test_prefixes_leave_out_what_comes_later(estimator, samples):
    writer, judge = problem()
    found = blocks(writer, judge, estimator, "prefix", samples=samples)
    assert largest_z(found, enumerated(writer, judge, far=False)) < LIMIT
    assert largest_z(found, enumerated(writer, judge)) > LIMIT


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.AveragedDirect(0.5)], ids=str)
def test_the_best_discriminator_of_prefixes_teaches_the_language(estimator):
    """With the reward log p / q of prefixes, the only point that stands still is q = p."""
    writer, _ = problem(0)
    target, _ = problem(1)
    optimizer = torch.optim.Adam([writer.scores], lr=0.05)
    generator = torch.Generator().manual_seed(0)

    def log_probs(table):
        first = table.scores[0, K].log_softmax(-1)
        second = first[:, None] + table.scores[1, :K].log_softmax(-1)
        return first, second, second[..., None] + table.scores[2, :K].log_softmax(-1)

    def divergence():
        p, q = log_probs(target)[-1].detach(), log_probs(writer)[-1].detach()
        return float((p.exp() * (p - q)).sum())

    before = divergence()
    for step in range(150):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 150)
        with torch.no_grad():
            pairs = zip(log_probs(target), log_probs(writer), strict=True)
            judge = Values(tuple(p - q for p, q in pairs))
        noise = hm.Categorical(K).noise((1, 300, T), generator, dtype=torch.float64)
        out = sequence_expectation(writer, judge, estimator, noise)
        optimizer.zero_grad()
        (-out.value.mean()).backward()
        optimizer.step()
    assert before > 0.5
    assert divergence() < 0.05


SAMPLERS = [hm.StraightThrough(), hm.ReinMax(), hm.GumbelSoftmax(0.7), hm.GumbelSoftmax(0.7, hard=True), hm.GumbelRao()]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_one_token_is_an_expectation(sampler):
    """With a single token, all is as `hm.expectation` has it."""
    writer, judge = problem()
    generator = torch.Generator().manual_seed(0)
    noise = hm.Categorical(K).noise((sampler.noises, 50), generator, dtype=torch.float64)
    out = sequence_expectation(writer, judge, sampler, noise[:, :, None])
    scores = writer.scores[0, K].expand(50, K)
    alone = hm.expectation(lambda z: z @ judge.numbers[0], scores, hm.Categorical(K), sampler, noise=noise)
    torch.testing.assert_close(out.value, alone.value)
    found, expected = (torch.autograd.grad(each.value.sum(), writer.scores)[0] for each in (out, alone))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_the_gradient_goes_back_through_the_tokens_that_are_read(sampler):
    """A reward of the second token alone, whatever the first one is, teaches the first one too: by what follows it."""
    writer, _ = problem()
    second = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    zeros = [torch.zeros((K,) * (t + 1), dtype=torch.float64) for t in range(T)]
    judge = Values((zeros[0], second.expand(K, K), zeros[2]))
    noise = hm.Categorical(K).noise((sampler.noises, 100, T), torch.Generator().manual_seed(0), dtype=torch.float64)
    out = sequence_expectation(writer, judge, sampler, noise)
    first, _, third = torch.autograd.grad(out.value.mean(), writer.scores)[0]
    assert first.abs().max() > 1e-3
    assert third.abs().max() == 0
