"""`hm.expectation` and `hm.sample`: apply an estimator to an objective and a space."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator, AbstractSampler
from hardmax.estimators.automatic import check_estimator, choose_estimator
from hardmax.evaluator import Evaluator
from hardmax.solvers.solution import record_solvers
from hardmax.spaces import AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Estimate, Objective
from hardmax.validation import check_noise, check_samples, check_scores


def expectation(
    f: Objective,
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractEstimator | Literal["auto"] = "auto",
    *,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    chunk_size: int | None = None,
    validate: bool = True,
) -> Estimate:
    r"""Estimate $\mathbb{E}_{z \sim q(z \mid \mathrm{scores})}[f(z)]$ so that backward gives its gradient.

    The estimator determines the gradient for `scores`; its page states the bias and the variance. Everything that f
    closes over (a decoder's weights) gets the ordinary gradient.

    Args:
        f: `f(z [C, *B, *event]) -> [C, *B]`, one leading dimension for samples or candidates; deterministic within one
            call. Optional methods make it faster and change nothing else: `f.table() -> [*B, K]`, the value of every
            category of a single categorical; `f.pairs(z [M, *event]) -> [*B, M]`, the values of the same z for every
            example; `f.rows(z [R, *event], index [R]) -> [R]`, values for chosen examples (flat batch index);
            `f.changes(z [S, *B, *event])`, for bits and categories, the gains of the single changes of z and bounds of
            them (`hardmax.types.Changes`).
        scores: `[*B, *score]`, floating point; minus infinity for what is not allowed, all others finite.
        space: the space of z.
        estimator: how the gradient is estimated. "auto": `Exact` for one categorical, `LocalExpectation`
            (with roulette if f has rows) for independent variables, `GibbsCovariance` for structured spaces with
            exact samples, else `Direct`. Where the first two would take more than 20 evaluations of f, and f has no
            method that makes them cheap (`table`, `pairs`, `changes`), `GibbsCovariance` with 16.
        samples: S, the number of z drawn for each example; by default 1, for `GibbsCovariance` 16.
        generator: source of the noise; None is torch's global generator.
        noise: `[S, *B, *score]`, noise to use instead of drawing it (`space.noise`): the same noise gives the same
            estimate. `[S * estimator.noises, *B, *score]` for the few estimators that use more than one noise tensor
            for a sample.
        chunk_size: maximal number of candidates C in one call of f; this limits the memory. With more candidates, the
            backward pass recomputes the activations of f. By default, candidates without a backward pass are evaluated
            about 256 rows at a time, and all others at once.
        validate: check values for NaN and inf; values are never checked while compiling or under `torch.func`.

    Returns:
        The value `[*B]`, the draws, and their cost.

    Raises:
        ArgumentError: an argument, the scores or a value of f cannot be used; `ShapeError`, `DtypeError` are
            subclasses.
        NotExactError: the space lacks a method that the estimator needs.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.randn(8, 10, requires_grad=True)
        >>> target = torch.randn(8, 10)
        >>> f = lambda z: -(z - target).square().sum(-1)
        >>> out = hm.expectation(f, scores, hm.Categorical(10), hm.Direct(epsilon=0.5), samples=4)
        >>> (-out.value.mean()).backward()
        >>> scores.grad.shape
        torch.Size([8, 10])

    References:
        Mohamed et al., "Monte Carlo gradient estimation in machine learning", 2020.
    """
    if isinstance(estimator, str):
        estimator = choose_estimator(estimator, f, space)
    return estimate(
        f,
        scores,
        space,
        estimator,
        linear=None,
        samples=samples,
        generator=generator,
        noise=noise,
        chunk_size=chunk_size,
        validate=validate,
    )


def estimate(
    f: Objective,
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractEstimator,
    *,
    linear: Tensor | None,
    samples: int | None,
    generator: torch.Generator | None,
    noise: Tensor | None,
    chunk_size: int | None,
    validate: bool,
) -> Estimate:
    r"""Estimate an expectation: `expectation` for objectives with a linear part.

    The gradient for scores is that of

    $$ \mathbb{E}_q[f(z) + \langle \mathrm{linear}, \mathrm{statistics}(z) \rangle], $$

    the value that of f alone: the caller knows the linear part, and often its expectation, better than from draws.
    """
    finite = check_scores(scores, space, values=validate and can_read_values())
    if linear is not None and finite is not scores:
        linear = linear.masked_fill(scores.detach().isneginf(), 0.0)  # cannot allow what is not allowed
    scores, batch_shape = finite, space.batch_shape(scores)
    check_estimator(estimator)
    estimator = estimator.specialise(f)
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(f"chunk_size must be at least 1, got {chunk_size}")
    noise = _prepare_noise(scores, space, estimator, batch_shape, samples, generator, noise)
    evaluator = Evaluator(f, scores, space, linear=linear, chunk_size=chunk_size, validate=validate)
    if space.chosen_solver is None:
        return estimator.estimate(evaluator, scores, space, noise)
    if not can_read_values():  # the solver that will run is not known while compiling, or under vmap
        return replace(estimator.estimate(evaluator, scores, space, noise), solver=space.chosen_solver)
    with record_solvers() as solvers:
        out = estimator.estimate(evaluator, scores, space, noise)
    return replace(out, solver=", ".join(solvers) or None)


def sample(
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractSampler,
    *,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """Draw z that carry a gradient to scores, for use anywhere in a model.

    Args:
        scores: `[*B, *score]`, floating point; minus infinity for what is not allowed, all others finite.
        space: the space of z.
        estimator: a sample-style estimator: `GumbelSoftmax`, `StraightThrough`, `ReinMax`, `GumbelRao`; for structured
            spaces `ImplicitMLE`, `AdaptiveImplicitMLE`, `PerturbedOptimizer`, `Blackbox`, `IdentityBackward`.
        samples: S, the number of z drawn for each example; None: one, without a dimension for samples.
        generator: source of the noise; None is torch's global generator.
        noise: `[S, *B, *score]`, noise to use instead of drawing it; the result then has a dimension for samples.
        validate: check scores for NaN and inf.

    Returns:
        `[*B, *event]`, or `[S, *B, *event]` with `samples` or `noise`.

    Raises:
        ArgumentError: a value-style estimator (they need f: use `expectation`), or scores that cannot be used.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.randn(8, 10, requires_grad=True)
        >>> z = hm.sample(scores, hm.Categorical(10), hm.GumbelSoftmax(tau=0.5, hard=True))
        >>> z.shape, z.requires_grad
        (torch.Size([8, 10]), True)
    """
    scores = check_scores(scores, space, values=validate and can_read_values())
    batch_shape = space.batch_shape(scores)
    check_estimator(estimator)
    if not isinstance(estimator, AbstractSampler):
        raise ArgumentError(
            f"{estimator} gives no z with a gradient: it needs f. Call hardmax.expectation(f, scores, space, "
            f"estimator), or use a sample-style estimator such as GumbelSoftmax() or StraightThrough()"
        )
    has_samples = samples is not None or noise is not None
    noise = _prepare_noise(scores, space, estimator, batch_shape, samples if has_samples else 1, generator, noise)
    z = estimator.sample_with_gradient(scores, space, noise)
    return z if has_samples else z.squeeze(0)


def _prepare_noise(
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractEstimator,
    batch_shape: tuple[int, ...],
    samples: int | None,
    generator: torch.Generator | None,
    noise: Tensor | None,
) -> Tensor:
    """Check the caller's noise and return it, or draw noise if there is none; the estimator checks the space first."""
    if noise is not None:
        draw_shape = (*batch_shape, *space.draw_shape) if estimator.only_draws else scores.shape
        estimator.check(space, check_noise(noise, scores, samples, estimator.noises, draw_shape))
        return noise
    samples = estimator.default_samples if samples is None else samples
    check_samples(samples)
    estimator.check(space, samples)
    return estimator.draw_noise(space, samples, batch_shape, generator, dtype=scores.dtype, device=scores.device)
