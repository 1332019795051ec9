"""Distributions of `torch.distributions` whose samples carry a gradient, and conversion from and to its objects."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as td

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractSampler, ReinMax
from hardmax.expectations import sample
from hardmax.spaces import AbstractSpace, Binary, Categorical


class OneHotCategorical(td.OneHotCategorical):
    r"""A `torch.distributions.OneHotCategorical` with `rsample`: hard samples with a gradient by an estimator.

    $$ p = (1 - \mathrm{unimix}) \operatorname{softmax}(\mathrm{logits}) + \mathrm{unimix} / k $$

    World models mix 1 % of a uniform distribution into their latents, so that no probability vanishes and the KL stays
    finite. Logits of minus infinity stay impossible: the uniform part is shared by the others.

    Bias and variance of the gradient: those of the estimator.

    Args:
        probs: `[*B, k]`, probabilities; or `logits`.
        logits: `[*B, k]`, their logarithms up to a constant; minus infinity for values that are not allowed.
        estimator: a sample-style estimator; by default `ReinMax()`.
        unimix: share of the uniform distribution, from 0 to 1.
        generator: source of the samples; None is torch's global generator.
        validate_args: as in torch.

    Raises:
        ArgumentError: an estimator that gives no z with a gradient, or another unimix.
        ValueError: torch's errors for the other arguments.

    Example:
        >>> import torch, hardmax as hm
        >>> logits = torch.zeros(8, 32, 32, requires_grad=True)
        >>> latent = hm.distributions.OneHotCategorical(logits=logits, unimix=0.01)
        >>> z = torch.distributions.Independent(latent, 1).rsample()
        >>> z.shape, z.requires_grad, bool((z.sum(-1) == 1).all())
        (torch.Size([8, 32, 32]), True, True)

    References:
        Hafner, Pasukonis, Ba & Lillicrap, "Mastering diverse domains through world models", 2023 (unimix).
    """

    has_rsample = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        *,
        estimator: AbstractSampler | None = None,
        unimix: float = 0.0,
        generator: torch.Generator | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.estimator, self.generator = _check_sampler(estimator), generator
        super().__init__(probs, logits, validate_args)
        if _check_unimix(unimix):
            log_p = self.logits
            allowed = (~log_p.isneginf()).sum(-1, keepdim=True)
            uniform = (math.log(unimix) - allowed.log()).expand_as(log_p)
            mixed = torch.logaddexp(log_p + math.log1p(-unimix), uniform) if unimix < 1 else uniform
            mixed = mixed.masked_fill(log_p.isneginf(), -math.inf)
            super().__init__(logits=mixed, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "OneHotCategorical":
        """Return this distribution with another batch shape; see `torch.distributions`."""
        new = type(self).__new__(type(self)) if _instance is None else _instance
        super().expand(torch.Size(batch_shape), new)
        new.estimator, new.generator = self.estimator, self.generator
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples that carry a gradient: `[*sample_shape, *B, k]`."""
        return _draw(self.logits, Categorical(self.logits.shape[-1]), self.estimator, sample_shape, self.generator)

    @torch.no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw one-hot samples without a gradient: `[*sample_shape, *B, k]`."""
        return _draw(self.logits, Categorical(self.logits.shape[-1]), None, sample_shape, self.generator)


class Bernoulli(td.Bernoulli):
    r"""A `torch.distributions.Bernoulli` with `rsample`: bits that carry a gradient by an estimator.

    $$ p = (1 - \mathrm{unimix}) \operatorname{sigmoid}(\mathrm{logits}) + \mathrm{unimix} / 2 $$

    Bias and variance of the gradient: those of the estimator.

    Args:
        probs: `[*B]`, probabilities of one; or `logits`.
        logits: `[*B]`, the log-odds.
        estimator: a sample-style estimator; by default `ReinMax()`.
        unimix: share of the uniform distribution, from 0 to 1.
        generator: source of the samples; None is torch's global generator.
        validate_args: as in torch.

    Raises:
        ArgumentError: an estimator that gives no z with a gradient, or another unimix.
        ValueError: torch's errors for the other arguments.

    Example:
        >>> import torch, hardmax as hm
        >>> logits = torch.zeros(8, 5, requires_grad=True)
        >>> z = hm.distributions.Bernoulli(logits=logits, estimator=hm.StraightThrough()).rsample((3,))
        >>> z.shape, z.requires_grad
        (torch.Size([3, 8, 5]), True)
    """

    has_rsample = True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        *,
        estimator: AbstractSampler | None = None,
        unimix: float = 0.0,
        generator: torch.Generator | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.estimator, self.generator = _check_sampler(estimator), generator
        if _check_unimix(unimix):
            mixed = td.Bernoulli(probs, logits, validate_args).probs
            probs, logits = (1 - unimix) * mixed + unimix / 2, None
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "Bernoulli":
        """Return this distribution with another batch shape; see `torch.distributions`."""
        new = type(self).__new__(type(self)) if _instance is None else _instance
        super().expand(torch.Size(batch_shape), new)
        new.estimator, new.generator = self.estimator, self.generator
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw bits that carry a gradient: `[*sample_shape, *B]`."""
        return _draw(self.logits[..., None], Binary(1), self.estimator, sample_shape, self.generator)[..., 0]

    @torch.no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw bits without a gradient: `[*sample_shape, *B]`."""
        return _draw(self.logits[..., None], Binary(1), None, sample_shape, self.generator)[..., 0]


@td.register_kl(OneHotCategorical, OneHotCategorical)
def _compute_categorical_kl(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    """Return the KL; unlike torch's, its gradient is finite where a logit is minus infinity."""
    return Categorical(p.logits.shape[-1]).kl(p.logits, q.logits)


@td.register_kl(Bernoulli, Bernoulli)
def _compute_bernoulli_kl(p: Bernoulli, q: Bernoulli) -> Tensor:
    """Return the KL; unlike torch's, it is also correct where a probability rounds to zero or one."""
    return Binary(1).kl(p.logits[..., None], q.logits[..., None])


def _draw(
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractSampler | None,
    sample_shape: Sequence[int],
    generator: torch.Generator | None,
) -> Tensor:
    """Return samples `[*sample_shape, *B, *event]`, with a gradient if there is an estimator."""
    shape = torch.Size(sample_shape)
    count = max(shape.numel(), 1)
    if estimator is None:
        z = space.sample(scores, count, generator=generator)
    else:
        z = sample(scores, space, estimator, samples=count, generator=generator)
    return z[: shape.numel()].reshape(*shape, *scores.shape)


def _check_sampler(estimator: AbstractSampler | None) -> AbstractSampler:
    if estimator is None:
        return ReinMax()
    if not isinstance(estimator, AbstractSampler):
        raise ArgumentError(
            f"{estimator} gives no z with a gradient: it needs f; use a sample-style estimator such as ReinMax() or "
            "GumbelSoftmax(hard=True), or hm.expectation"
        )
    return estimator


def _check_unimix(unimix: float) -> float:
    if not 0 <= unimix <= 1:
        raise ArgumentError(f"unimix must be from 0 to 1, got {unimix}")
    return unimix


def from_distribution(distribution: td.Distribution) -> tuple[AbstractSpace, Tensor]:
    r"""Return the space and the scores of a torch distribution: $q(z \mid \mathrm{scores})$ is that distribution.

    Args:
        distribution: `OneHotCategorical` or `Categorical` (z is one-hot here), `Bernoulli` (each element of its batch
            is a `Binary(1)`), or `Independent(..., 1)` of these, whose last batch dimension becomes the variables of z.

    Returns:
        The space, and the scores `[*B, *score]`, which carry the gradient to the distribution's parameters.

    Raises:
        ArgumentError: another distribution.

    Example:
        >>> import torch, hardmax as hm
        >>> d = torch.distributions
        >>> space, scores = hm.from_distribution(d.Independent(d.Bernoulli(logits=torch.zeros(8, 5)), 1))
        >>> space, scores.shape
        (Binary(n=5), torch.Size([8, 5]))
    """
    base, variables = distribution, 0
    if isinstance(distribution, td.Independent):
        base, variables = distribution.base_dist, distribution.reinterpreted_batch_ndims
    if variables <= 1:
        if isinstance(base, td.Bernoulli):
            scores = base.logits if variables else base.logits[..., None]
            return Binary(scores.shape[-1]), scores
        if isinstance(base, td.OneHotCategorical | td.Categorical):
            scores = base.logits
            return Categorical(scores.shape[-1], scores.shape[-2] if variables else None), scores
    raise ArgumentError(
        f"cannot turn {distribution} into a space: expected OneHotCategorical, Categorical, Bernoulli, or "
        f"Independent(..., 1) of one of them"
    )


def to_distribution(scores: Tensor, space: AbstractSpace) -> td.Distribution:
    r"""Return $q(z \mid \mathrm{scores})$ as a torch distribution over the same z.

    Args:
        scores: `[*B, *score]`.
        space: `Categorical` or `Binary`.

    Returns:
        `OneHotCategorical`, or `Independent` of it or of `Bernoulli`: batch shape `*B`, event shape as the space's.

    Raises:
        ArgumentError: a space that torch has no distribution for.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.to_distribution(torch.zeros(8, 4, 3), hm.Categorical(3, 4)).event_shape
        torch.Size([4, 3])
    """
    space.batch_shape(scores)
    if isinstance(space, Binary):
        return td.Independent(td.Bernoulli(logits=scores), 1)
    if isinstance(space, Categorical):
        one_hot = td.OneHotCategorical(logits=scores)
        return one_hot if space.n is None else td.Independent(one_hot, 1)
    raise ArgumentError(f"torch.distributions has no counterpart of {space}")
