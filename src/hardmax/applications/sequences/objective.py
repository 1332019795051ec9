"""The expected reward of sequences that are sampled token by token, with an estimated gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax._deprecation import load_renamed, rename_arguments
from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators import AbstractEstimator, AbstractSampler
from hardmax.expectations import expectation, sample
from hardmax.spaces import Categorical

__getattr__ = load_renamed(__name__, {"Judge": "PrefixDiscriminator", "Writer": "TokenGenerator"})


@runtime_checkable
class TokenGenerator(Protocol):
    """A model that samples tokens: `SequenceGenerator`, or any object with the same `begin` and `step`."""

    @property
    def space(self) -> Categorical:
        """The space of one token."""
        ...

    def begin(self, count: int) -> tuple[Tensor, Any]:
        """Return the input before the first token of N = `count` sequences `[N, K]`, and the initial state."""
        ...

    def step(self, z: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token `[N, K]`; return the scores of the next one `[N, K]`, and the new state."""
        ...


@runtime_checkable
class PrefixDiscriminator(Protocol):
    """A model that scores every prefix: `SequenceDiscriminator`, or any object with the same `begin` and `step`."""

    def begin(self, count: int) -> Any:
        """Return the state before the first token of `count` sequences."""
        ...

    def step(self, z: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token `[N, K]`; return the values of the prefixes that end with it `[N]`, and the new state."""
        ...


def repeat_state(state: Any, times: int) -> Any:
    """Return a state, a tensor `[N, H]` or a tuple of such, with all sequences repeated: `[times * N, H]`."""
    if isinstance(state, tuple):
        return tuple(repeat_state(part, times) for part in state)
    return state.repeat(times, *[1] * (state.dim() - 1))


def evaluate_prefixes(discriminator: PrefixDiscriminator, z: Tensor) -> Tensor:
    """Return the values that the discriminator assigns to all prefixes: `[N, T, K] -> [N, T]`."""
    state, values = discriminator.begin(len(z)), []
    for token in z.unbind(1):
        value, state = discriminator.step(token, state)
        values.append(value)
    return torch.stack(values, 1)


Credit = Literal["prefix", "rollout"]
Reward = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True)
class SequenceEstimate:
    """The result of `sequence_expectation`.

    Attributes:
        value: `[N]`, the sum of the rewards of each sequence; backward gives the generator the estimated gradient.
        rewards: `[N, T]`, the rewards of all prefixes, detached.
        z: `[N, T, K]`, the sequences that the discriminator reads, detached: hard, unless the estimator relaxes them.
        evaluations: number of steps of the discriminator for each sampled token.
        auxiliary: loss for the estimator's own parameters, if it has any; else None.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.sequences import SequenceDiscriminator, SequenceGenerator, sequence_expectation
        >>> generator, discriminator = SequenceGenerator(5, length=8), SequenceDiscriminator(5)
        >>> out = sequence_expectation(generator, discriminator, hm.ReinMax(), generator.noise((1, 10)))
        >>> torch.equal(out.value, out.rewards.sum(1)), out.evaluations
        (True, 1.0)
    """

    value: Float[Tensor, "N"]
    rewards: Float[Tensor, "N T"]
    z: Float[Tensor, "N T K"]
    evaluations: float
    auxiliary: Tensor | None = None


@rename_arguments(writer="generator", judge="discriminator")
def sequence_expectation(
    generator: TokenGenerator,
    discriminator: PrefixDiscriminator,
    estimator: AbstractEstimator,
    noise: Float[Tensor, "S N T K"],
    *,
    reward: Reward = lambda value: value,
    credit: Credit = "prefix",
) -> SequenceEstimate:
    r"""Estimate the expected reward of sampled sequences; backward gives the generator its gradient.

    $$ \mathbb{E}_{x \sim q}\Big[\sum_t r_t(x_1, \ldots, x_t)\Big], \qquad
       q(x) = \prod_t \mathrm{softmax}(\mathrm{scores}_t)[x_t] $$

    The generator samples the tokens; the discriminator assigns a value to every prefix, and `reward` turns this value
    into the reward $r_t$. A sample-style estimator draws tokens that carry a gradient: it flows back through the
    discriminator, and through the tokens that the generator reads, to all earlier tokens. Any other estimator is
    applied at every position, given the prefix: there the token is a single categorical z, which `hardmax.expectation`
    draws, and f(z) is its value:

    - `credit="prefix"`: the reward of the prefix that ends with z. A candidate token costs one step of the
      discriminator.
    - `credit="rollout"`: the sum of the rewards from there to the end. The rest of the sequence is drawn after z, from
      the same noise as the sequence itself. A candidate token costs the rest of a sequence.

    Bias: with rollouts, only that of the estimator; an unbiased estimator stays unbiased. With prefixes, the effect of
    a token on later rewards is left out, so the result is not a gradient of the expected reward. But for the optimal
    discriminator, the reward $\log p/q$ of a prefix is highest where $p(\mathrm{token} \mid \mathrm{prefix})$ exceeds
    $q(\mathrm{token} \mid \mathrm{prefix})$, so q = p is the only stationary point on all prefixes of q. A sample-style
    estimator has its own bias at every token, and in addition the bias of reading relaxed tokens. Variance: much lower
    with prefixes.

    Args:
        generator: a `SequenceGenerator`, or any object with the same `begin` and `step`.
        discriminator: a `SequenceDiscriminator`, or any object with the same `begin` and `step`; its parameters should
            be frozen.
        estimator: any estimator that supports `Categorical`.
        noise: `[S, N, T, K]`, Gumbel noise of N sequences with S draws at each position; the first draw becomes the
            token. S is 1 for a sample-style estimator; it is multiplied by `estimator.noises`, which few need.
        reward: maps the discriminator's values to rewards, such as `generator_reward`.
        credit: the value of a token, "prefix" or "rollout", as above.

    Returns:
        The value of each sequence, its tokens, and the number of evaluations.

    Raises:
        ArgumentError: the credit is unknown, or a sample-style estimator is given more than one draw.
        ShapeError: the noise is not `[S, N, T, K]`.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.applications.sequences import SequenceDiscriminator, SequenceGenerator, sequence_expectation
        >>> generator, discriminator = SequenceGenerator(5, length=8), SequenceDiscriminator(5).requires_grad_(False)
        >>> out = sequence_expectation(generator, discriminator, hm.AveragedDirect(), generator.noise((1, 100)))
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
        z = draw_sequences(generator, estimator, noise)
        rewards = reward(evaluate_prefixes(discriminator, z))
        return SequenceEstimate(rewards.sum(1), rewards.detach(), z.detach(), 1.0)
    _check_noise(generator, noise)
    return _estimate_by_position(generator, discriminator, estimator, noise, reward, credit)


def draw_sequences(
    generator: TokenGenerator, estimator: AbstractEstimator, noise: Float[Tensor, "S N T K"]
) -> Float[Tensor, "N T K"]:
    """Draw sequences as the discriminator reads them: one-hot, or with gradients for a sample-style estimator.

    Args:
        generator: the model that samples the tokens.
        estimator: the estimator that the generator is trained with.
        noise: `[S, N, T, K]`, as for `sequence_expectation`, which draws the same sequences.

    Raises:
        ArgumentError: a sample-style estimator is given more than one draw.
        ShapeError: the noise is not `[S, N, T, K]`.
    """
    _check_noise(generator, noise)
    is_sampler = isinstance(estimator, AbstractSampler)
    if is_sampler and len(noise) != estimator.noises:
        raise ArgumentError(
            f"{estimator} draws one sequence from {estimator.noises} noise, got {len(noise)}: draw more sequences "
            f"instead of more samples of each token"
        )
    z, state = generator.begin(noise.shape[1])
    tokens = []
    for token_noise in noise.unbind(2):
        scores, state = generator.step(z, state)
        if is_sampler:
            z = sample(scores, generator.space, estimator, noise=token_noise, validate=False)[0]
        else:
            z = generator.space.draw(scores.detach(), token_noise[:1])[0]
        tokens.append(z)
    return torch.stack(tokens, 1)


def _estimate_by_position(
    generator: TokenGenerator,
    discriminator: PrefixDiscriminator,
    estimator: AbstractEstimator,
    noise: Tensor,
    reward: Reward,
    credit: Credit,
) -> SequenceEstimate:
    """Apply the estimator at every position, given the prefix drawn so far."""
    count, length = noise.shape[1:3]
    (z, state), discriminator_state = generator.begin(count), discriminator.begin(count)
    tokens, rewards, surrogates, evaluations, auxiliary = [], [], [], 0.0, []
    for t in range(length):
        scores, state = generator.step(z, state)
        f = _TokenValue(
            generator,
            discriminator,
            reward,
            state,
            discriminator_state,
            noise[0, :, t + 1 :] if credit == "rollout" else None,
        )
        out = expectation(f, scores, generator.space, estimator, noise=noise[:, :, t], validate=False)
        z = out.z[0]
        value, discriminator_state = discriminator.step(z, discriminator_state)
        tokens.append(z)
        rewards.append(reward(value).detach())
        surrogates.append(out.value - out.value.detach())  # zero, with the estimated gradient
        evaluations += out.evaluations
        auxiliary += [] if out.auxiliary is None else [out.auxiliary]
    all_rewards = torch.stack(rewards, 1)
    return SequenceEstimate(
        all_rewards.sum(1) + torch.stack(surrogates, 1).sum(1),
        all_rewards,
        torch.stack(tokens, 1),
        evaluations / length,
        torch.stack(auxiliary).mean() if auxiliary else None,
    )


@final
@dataclass(frozen=True)
class _TokenValue:
    """The value of a token at one position, given the prefix: the objective f of a single categorical variable.

    Attributes:
        state: the state of the generator before the token.
        discriminator_state: the state of the discriminator before the token.
        later: `[N, rest, K]`, noise of the tokens after it; None if later rewards do not count.
    """

    generator: TokenGenerator
    discriminator: PrefixDiscriminator
    reward: Reward
    state: Any
    discriminator_state: Any
    later: Tensor | None

    def __call__(self, z: Float[Tensor, "C N K"]) -> Float[Tensor, "C N"]:
        candidates, token = len(z), z.flatten(0, 1)
        prefix_value, discriminator_state = self.discriminator.step(
            token, repeat_state(self.discriminator_state, candidates)
        )
        value = self.reward(prefix_value)
        if self.later is not None:
            value = value + self._roll_out(token, repeat_state(self.state, candidates), discriminator_state, candidates)
        return value.view(candidates, -1)

    @torch.no_grad()  # f must not add a gradient for the generator to the estimated one
    def _roll_out(self, token: Tensor, state: Any, discriminator_state: Any, candidates: int) -> Tensor:
        """Return the sum of the rewards of the later tokens, which are drawn with the noise of the sequence itself."""
        assert self.later is not None
        value = token.new_zeros(len(token))
        for token_noise in self.later.unbind(1):
            scores, state = self.generator.step(token, state)
            token = self.generator.space.draw(scores, token_noise.repeat(candidates, 1)[None])[0]
            prefix_value, discriminator_state = self.discriminator.step(token, discriminator_state)
            value = value + self.reward(prefix_value)
        return value


def _check_noise(generator: TokenGenerator, noise: Tensor) -> None:
    if noise.dim() != 4 or noise.shape[-1] != generator.space.k or 0 in noise.shape[:3]:
        raise ShapeError(
            f"noise must be [S, N, T, K] with K = {generator.space.k} tokens, got {list(noise.shape)}; "
            f"draw it with generator.noise((S, N))"
        )
