"""The expected reward of sequences that are drawn token by token, with an estimated gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator, AbstractSampler
from hardmax.expectations import expectation, sample
from hardmax.spaces import Categorical


@runtime_checkable
class Writer(Protocol):
    """Draws tokens: `SequenceGenerator`, or anything that steps like it."""

    @property
    def space(self) -> Categorical:
        """What a token may be."""
        ...

    def begin(self, count: int) -> tuple[Tensor, Any]:
        """Return what stands before the first token of so many sequences `[N, K]`, and the state there."""
        ...

    def step(self, z: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token `[N, K]`; return the scores of the next one `[N, K]`, and the state there."""
        ...


@runtime_checkable
class Judge(Protocol):
    """Gives a number to every prefix: `SequenceDiscriminator`, or anything that steps like it."""

    def begin(self, count: int) -> Any:
        """Return the state before the first token of so many sequences."""
        ...

    def step(self, z: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token `[N, K]`; return the numbers of the prefixes that end with it `[N]`, and the state there."""
        ...


def repeat_state(state: Any, times: int) -> Any:
    """Return a state, a tensor `[N, H]` or a tuple of such, for so many copies of each sequence `[times * N, H]`."""
    if isinstance(state, tuple):
        return tuple(repeat_state(part, times) for part in state)
    return state.repeat(times, *[1] * (state.dim() - 1))


def judge_sequences(judge: Judge, z: Tensor) -> Tensor:
    """Return the numbers of all prefixes: `[N, T, K] -> [N, T]`."""
    state, found = judge.begin(len(z)), []
    for token in z.unbind(1):
        number, state = judge.step(token, state)
        found.append(number)
    return torch.stack(found, 1)


Credit = Literal["prefix", "rollout"]
Reward = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True)
class SequenceEstimate:
    """What `sequence_expectation` found.

    Attributes:
        value: `[N]`, the rewards of each sequence, added up; backward gives the estimated gradient to the writer.
        rewards: `[N, T]`, detached.
        z: `[N, T, K]`, what the judge has seen, detached: hard, unless the estimator softens.
        evaluations: steps of the judge for each token that was drawn.
        auxiliary: loss for an estimator's own parameters, else None.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.sequences import SequenceDiscriminator, SequenceGenerator, sequence_expectation
        >>> writer, judge = SequenceGenerator(5, length=8), SequenceDiscriminator(5)
        >>> out = sequence_expectation(writer, judge, hm.ReinMax(), writer.noise((1, 10)))
        >>> torch.equal(out.value, out.rewards.sum(1)), out.evaluations
        (True, 1.0)
    """

    value: Float[Tensor, "N"]
    rewards: Float[Tensor, "N T"]
    z: Float[Tensor, "N T K"]
    evaluations: float
    auxiliary: Tensor | None = None


def sequence_expectation(
    writer: Writer,
    judge: Judge,
    estimator: AbstractEstimator,
    noise: Float[Tensor, "S N T K"],
    *,
    reward: Reward = lambda judged: judged,
    credit: Credit = "prefix",
) -> SequenceEstimate:
    r"""Estimate the mean reward of a writer's sequences so that backward gives its gradient.

    $$ E_{x \sim q}\Big[\sum_t r_t(x_1 .. x_t)\Big], \qquad q(x) = \prod_t \mathrm{softmax}(\mathrm{scores}_t)[x_t] $$

    A sample-style estimator draws tokens that carry a gradient: it goes back through the judge, and through the tokens
    that the writer reads, to all tokens before. Any other one is asked at every position, given the prefix: there
    one token is a single categorical z, `hardmax.expectation` draws it, and f(z) is what it is worth:

    - `credit="prefix"`: the reward of the prefix that ends with z. A change costs one step of the judge.
    - `credit="rollout"`: the rewards from there to the end, the rest of the sequence drawn after z with the noise that
      the sequence itself is drawn with. A change costs the rest of a sequence.

    Bias: with rollouts, that of the estimator alone, so that an unbiased one has none. With prefixes, what a token does
    to later rewards is left out, so that it is no gradient of the mean reward; but for the best discriminator the
    reward `log p/q` of a prefix is highest where p(token | prefix) exceeds q(token | prefix), so that q = p is the only
    point on all prefixes of q where it stands still. Variance: lower with prefixes, by far. A sample-style estimator
    has its own bias at every token, and the reading of relaxed tokens on top.

    Args:
        writer: a `SequenceGenerator`, or anything that steps like it.
        judge: a `SequenceDiscriminator`, or anything that steps like it; its parameters should stand still.
        estimator: of the library, for `Categorical`.
        noise: `[S, N, T, K]`, Gumbel noise of N sequences, S draws at each position of which the first is written; S
            is 1 for a sample-style estimator, and times `estimator.noises` for the few that take more.
        reward: from the judge's numbers to rewards, such as `generator_reward`.
        credit: what a token is worth.

    Returns:
        The value of each sequence, its tokens, and what they cost.

    Raises:
        ArgumentError: an unknown credit, or more than one draw with a sample-style estimator.
        ShapeError: noise that is not `[S, N, T, K]`.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.sequences import SequenceDiscriminator, SequenceGenerator, sequence_expectation
        >>> writer, judge = SequenceGenerator(5, length=8), SequenceDiscriminator(5).requires_grad_(False)
        >>> out = sequence_expectation(writer, judge, hm.AveragedDirect(), writer.noise((1, 100)))
        >>> (-out.value.mean()).backward()
        >>> out.z.shape, out.evaluations
        (torch.Size([100, 8, 5]), 5.0)

    References:
        Yu et al., "SeqGAN", 2017 (rollouts); de Masson d'Autume et al., "Training language GANs from scratch", 2019
        (rewards of prefixes); Kusner & Hernandez-Lobato, "GANs for sequences of discrete elements with the
        Gumbel-softmax distribution", 2016.
    """
    if credit not in ("prefix", "rollout"):
        raise ArgumentError(f"credit must be 'prefix' or 'rollout', got {credit!r}")
    if isinstance(estimator, AbstractSampler):
        z = write(writer, estimator, noise)
        rewards = reward(judge_sequences(judge, z))
        return SequenceEstimate(rewards.sum(1), rewards.detach(), z.detach(), 1.0)
    _check_noise(writer, noise)
    return _by_position(writer, judge, estimator, noise, reward, credit)


def write(writer: Writer, estimator: AbstractEstimator, noise: Float[Tensor, "S N T K"]) -> Float[Tensor, "N T K"]:
    """Draw the sequences that a judge sees: with gradients, relaxed or hard, of a sample-style estimator; else hard.

    Args:
        writer: who draws.
        estimator: the one that it is trained with.
        noise: as for `sequence_expectation`; the sequences are those that it draws.

    Raises:
        ArgumentError: more than one draw with a sample-style estimator.
        ShapeError: noise that is not `[S, N, T, K]`.
    """
    _check_noise(writer, noise)
    sampler = isinstance(estimator, AbstractSampler)
    if sampler and len(noise) != estimator.noises:
        raise ArgumentError(
            f"{estimator} writes one sequence from {estimator.noises} noise, got {len(noise)}: draw more sequences "
            f"instead of more samples of each token"
        )
    z, state = writer.begin(noise.shape[1])
    drawn = []
    for own in noise.unbind(2):
        scores, state = writer.step(z, state)
        if sampler:
            z = sample(scores, writer.space, estimator, noise=own, validate=False)[0]
        else:
            z = writer.space.draw(scores.detach(), own[:1])[0]
        drawn.append(z)
    return torch.stack(drawn, 1)


def _by_position(
    writer: Writer, judge: Judge, estimator: AbstractEstimator, noise: Tensor, reward: Reward, credit: Credit
) -> SequenceEstimate:
    """Ask the estimator at every position, given the prefix that it has drawn so far."""
    count, length = noise.shape[1:3]
    (z, state), seen = writer.begin(count), judge.begin(count)
    drawn, rewards, carried, evaluations, auxiliary = [], [], [], 0.0, []
    for t in range(length):
        scores, state = writer.step(z, state)
        f = _Token(writer, judge, reward, state, seen, noise[0, :, t + 1 :] if credit == "rollout" else None)
        out = expectation(f, scores, writer.space, estimator, noise=noise[:, :, t], validate=False)
        z = out.z[0]
        number, seen = judge.step(z, seen)
        drawn.append(z)
        rewards.append(reward(number).detach())
        carried.append(out.value - out.value.detach())
        evaluations += out.evaluations
        auxiliary += [] if out.auxiliary is None else [out.auxiliary]
    found = torch.stack(rewards, 1)
    return SequenceEstimate(
        found.sum(1) + torch.stack(carried, 1).sum(1),
        found,
        torch.stack(drawn, 1),
        evaluations / length,
        torch.stack(auxiliary).mean() if auxiliary else None,
    )


@final
@dataclass(frozen=True)
class _Token:
    """What a token is worth at one position, given the prefix: f of a single categorical.

    Attributes:
        state: the writer's, before the token.
        seen: the judge's, before the token.
        later: `[N, rest, K]`, noise of the tokens after it; None where rewards after it do not count.
    """

    writer: Writer
    judge: Judge
    reward: Reward
    state: Any
    seen: Any
    later: Tensor | None

    def __call__(self, z: Float[Tensor, "C N K"]) -> Float[Tensor, "C N"]:
        candidates, token = len(z), z.flatten(0, 1)
        number, seen = self.judge.step(token, repeat_state(self.seen, candidates))
        value = self.reward(number)
        if self.later is not None:
            value = value + self._rest(token, repeat_state(self.state, candidates), seen, candidates)
        return value.view(candidates, -1)

    @torch.no_grad()  # f must not hand the writer a gradient of its own, beside the estimated one
    def _rest(self, token: Tensor, state: Any, seen: Any, candidates: int) -> Tensor:
        """Return the rewards of the tokens that follow, drawn with the noise of the sequence itself."""
        assert self.later is not None
        value = token.new_zeros(len(token))
        for own in self.later.unbind(1):
            scores, state = self.writer.step(token, state)
            token = self.writer.space.draw(scores, own.repeat(candidates, 1)[None])[0]
            number, seen = self.judge.step(token, seen)
            value = value + self.reward(number)
        return value


def _check_noise(writer: Writer, noise: Tensor) -> None:
    if noise.dim() != 4 or noise.shape[-1] != writer.space.k or 0 in noise.shape[:3]:
        raise ShapeError(
            f"noise must be [S, N, T, K] with K = {writer.space.k} tokens, got {list(noise.shape)}; "
            f"draw it with writer.noise((S, N))"
        )
