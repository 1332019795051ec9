"""The gradient of the mean reward of sequences, compared with enumeration of all sequences."""

from dataclasses import dataclass
from itertools import product

import pytest
import torch

import hardmax as hm
from hardmax.applications.sequences import sequence_expectation

K, T = 3, 3
LIMIT = 5.5  # of the largest |z|: one false alarm in ten million for each number
BLOCKS, COUNT = 100, 300


@dataclass(frozen=True)
class Table:
    """A generator of sequences whose scores are parameters, one row for each place and previous token."""

    scores: torch.Tensor  # [T, K + 1, K]
    space: hm.Categorical = hm.Categorical(K)  # noqa: RUF009

    def begin(self, count):
        return torch.zeros(count, K, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)

    def step(self, z, place):
        table = self.scores[int(place[0])]  # the last row is for the first token, which has no previous token
        return torch.cat([z, 1 - z.sum(-1, keepdim=True)], -1) @ table, place + 1


@dataclass(frozen=True)
class Values:
    """A discriminator that looks up the value of every prefix; multilinear in tokens that are not hard."""

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


def exact_gradient(model, discriminator, *, far=True):
    """Return the exact gradient; without `far`, the effect of a token on later rewards is left out."""
    total = 0
    for x in product(range(K), repeat=T):
        log_q, before = [], K
        for t, token in enumerate(x):
            log_q.append(model.scores[t, before].log_softmax(-1)[token])
            before = token
        q = torch.stack(log_q).sum().exp().detach()
        rewards = [discriminator.numbers[t][x[: t + 1]] for t in range(T)]
        for t in range(T):
            total = total + q * log_q[t] * (sum(rewards[t:]) if far else rewards[t])
    return torch.autograd.grad(total, model.scores)[0]


def blocks(model, discriminator, estimator, credit, *, samples=1):
    """Return the gradients of the mean value of many blocks of sequences."""
    generator, estimates = torch.Generator().manual_seed(1), []
    for _ in range(BLOCKS):
        noise = hm.Categorical(K).noise((samples, COUNT, T), generator, dtype=torch.float64)
        out = sequence_expectation(model, discriminator, estimator, noise, credit=credit)
        estimates.append(torch.autograd.grad(out.value.mean(), model.scores)[0])
    return torch.stack(estimates)


def largest_z(estimates, exact):
    error = estimates.std(0) / len(estimates) ** 0.5
    return float(((estimates.mean(0) - exact).abs() / error.clamp_min(1e-6)).max())


UNBIASED = [
    (hm.Exact(), 1),
    (hm.AveragedDirect(1e-4, two_sided=True), 1),
    (hm.Reinforce("none"), 1),
    (hm.Reinforce("mean"), 1),
    (hm.Reinforce("leave-one-out"), 3),
]


@pytest.mark.parametrize(("estimator", "samples"), UNBIASED, ids=str)
def test_rollouts_add_no_bias_to_the_estimator(estimator, samples):
    model, discriminator = problem()
    exact = exact_gradient(model, discriminator)
    estimates = blocks(model, discriminator, estimator, "rollout", samples=samples)
    assert largest_z(estimates, exact) < LIMIT
    assert largest_z(1.2 * estimates, exact) > LIMIT  # a planted error is detected


@pytest.mark.parametrize(("estimator", "samples"), UNBIASED[:3], ids=str)
def test_prefixes_leave_out_what_comes_later(estimator, samples):
    model, discriminator = problem()
    estimates = blocks(model, discriminator, estimator, "prefix", samples=samples)
    assert largest_z(estimates, exact_gradient(model, discriminator, far=False)) < LIMIT
    assert largest_z(estimates, exact_gradient(model, discriminator)) > LIMIT


@pytest.mark.parametrize("estimator", [hm.Exact(), hm.AveragedDirect(0.5)], ids=str)
def test_the_best_discriminator_of_prefixes_teaches_the_language(estimator):
    """With the reward log p / q of prefixes, the only fixed point is q = p."""
    model, _ = problem(0)
    target, _ = problem(1)
    optimizer = torch.optim.Adam([model.scores], lr=0.05)
    generator = torch.Generator().manual_seed(0)

    def log_probs(table):
        first = table.scores[0, K].log_softmax(-1)
        second = first[:, None] + table.scores[1, :K].log_softmax(-1)
        return first, second, second[..., None] + table.scores[2, :K].log_softmax(-1)

    def divergence():
        p, q = log_probs(target)[-1].detach(), log_probs(model)[-1].detach()
        return float((p.exp() * (p - q)).sum())

    before = divergence()
    for step in range(150):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 150)
        with torch.no_grad():
            pairs = zip(log_probs(target), log_probs(model), strict=True)
            discriminator = Values(tuple(p - q for p, q in pairs))
        noise = hm.Categorical(K).noise((1, 300, T), generator, dtype=torch.float64)
        out = sequence_expectation(model, discriminator, estimator, noise)
        optimizer.zero_grad()
        (-out.value.mean()).backward()
        optimizer.step()
    assert before > 0.5
    assert divergence() < 0.05


SAMPLERS = [
    hm.StraightThrough(),
    hm.ReinMax(),
    hm.ReinMaxRao(),
    hm.ReinMaxCV(),
    hm.GumbelSoftmax(0.7),
    hm.GumbelSoftmax(0.7, hard=True),
    hm.GumbelRao(),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_one_token_is_an_expectation(sampler):
    """With a single token, the result equals that of `hm.expectation`."""
    model, discriminator = problem()
    generator = torch.Generator().manual_seed(0)
    noise = hm.Categorical(K).noise((sampler.noises, 50), generator, dtype=torch.float64)
    out = sequence_expectation(model, discriminator, sampler, noise[:, :, None])
    scores = model.scores[0, K].expand(50, K)
    single = hm.expectation(lambda z: z @ discriminator.numbers[0], scores, hm.Categorical(K), sampler, noise=noise)
    torch.testing.assert_close(out.value, single.value)
    estimates, expected = (torch.autograd.grad(each.value.sum(), model.scores)[0] for each in (out, single))
    torch.testing.assert_close(estimates, expected)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_the_gradient_goes_back_through_the_tokens_that_are_read(sampler):
    """A reward of the second token only also trains the first token, since the second depends on it."""
    model, _ = problem()
    second = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    zeros = [torch.zeros((K,) * (t + 1), dtype=torch.float64) for t in range(T)]
    discriminator = Values((zeros[0], second.expand(K, K), zeros[2]))
    noise = hm.Categorical(K).noise((sampler.noises, 100, T), torch.Generator().manual_seed(0), dtype=torch.float64)
    out = sequence_expectation(model, discriminator, sampler, noise)
    first, _, third = torch.autograd.grad(out.value.mean(), model.scores)[0]
    assert first.abs().max() > 1e-3
    assert third.abs().max() == 0
