"""Diagnose estimators of a gradient: of an expectation (`hm.diagnose`), or of the evidence lower bound."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis.candidates import candidates
from hardmax.diagnosis.estimates import bounded, expected
from hardmax.diagnosis.measurement import Observe, check_draws, measure
from hardmax.diagnosis.reference import enumerated, monte_carlo
from hardmax.diagnosis.result import Diagnosis
from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.objectives.elbo import Kl, check_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective

Source = Literal["enumerate", "monte-carlo"]
REFERENCE = 4  # draws of the reference, as a multiple of those of an estimator


def diagnose(
    f: Objective,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator] | None = None,
    *,
    draws: int = 1024,
    exact: Source = "enumerate",
    evaluations: float | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    observe: Observe | None = None,
) -> Diagnosis:
    """Measure bias, noise and cost of estimators of the gradient of `E_{z ~ q(z | scores)}[f(z)]` on your problem.

    Every estimator computes `draws` independent estimates, with the most samples that fit the same number of
    evaluations of f, and they are compared with the exact gradient. `Quality` documents the measurements, and how
    examples are aggregated. Copies of the batch share a call: 1,024 estimates take a few calls, not 1,024.

    The noise of the mean of the estimates is subtracted from the bias, and reported. An estimator that uses the whole
    batch (`Reinforce("mean")`) computes its estimates one batch at a time, since copies would give it a better baseline
    than in training; so pass a batch of the size you train with.

    Args:
        f: the objective, as for `expectation`; its optional methods are used.
        scores: `[*B, *score]`: those of a few typical examples, at the stage of training of interest.
        space: the space of z.
        estimators: by name, or a sequence; None is `candidates(space, f)`, which has ladders of epsilon and tau. Those
            that refuse are listed with their reasons.
        draws: number of independent estimates of each, at least 2.
        exact: "enumerate" every z; or "monte-carlo", for larger spaces: the mean of 4 x `draws` estimates of an
            unbiased estimator (`LocalExpectation` for independent variables, `GibbsCovariance` for structured spaces
            with exact samples). Its variance is subtracted as well, and reported.
        evaluations: of f for each example that an estimate may take; None is the cost of the most expensive estimator
            with its fewest samples. The number actually used is reported.
        samples: S of every estimator, instead of the most that fit.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: the most candidates that f gets in one call.
        observe: called with the name of an estimator and the number of estimates completed since the last call.

    Returns:
        A row for each estimator; `print` shows the table, `figure()` draws it, `recommendation` names the one to use.

    Raises:
        ArgumentError: an argument that cannot be used; the exact gradient is zero.
        NotExactError: too many z to enumerate, or no unbiased estimator to replace that.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, target = torch.zeros(16, 4, 5), torch.rand(16, 4, 5)
        >>> f = lambda z: -(z - target).square().sum((-2, -1))
        >>> diagnosis = hm.diagnose(
        ...     f, scores, hm.Categorical(5, 4), [hm.Direct(0.1), hm.Reinforce("leave-one-out")], draws=64
        ... )
        >>> [round(row.evaluations) for row in diagnosis.rows], diagnosis.rows[1].biased
        ([17, 17], False)
    """
    check_draws(draws)
    call = expected(f, space, chunk_size=chunk_size)
    if exact == "enumerate":
        reference = enumerated(f, scores, space, chunk_size=chunk_size)
    elif exact == "monte-carlo":
        count = REFERENCE * draws
        reference = monte_carlo(
            call, scores, space, draws=count, generator=generator, chunk_size=chunk_size, observe=observe
        )
    else:
        raise ArgumentError(f"exact must be 'enumerate' or 'monte-carlo', got {exact!r}")
    return measure(
        call,
        scores,
        space,
        candidates(space, f) if estimators is None else estimators,
        exact=reference,
        draws=draws,
        evaluations=evaluations,
        samples=samples,
        generator=generator,
        chunk_size=chunk_size,
        observe=observe,
    )


def diagnose_elbo(
    likelihood: Objective,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    estimators: Mapping[str, AbstractEstimator] | Sequence[AbstractEstimator] | None = None,
    *,
    prior: Float[Tensor, "..."] | None = None,
    kl: Kl = "auto",
    draws: int = 1024,
    exact: Source = "enumerate",
    evaluations: float | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    observe: Observe | None = None,
) -> Diagnosis:
    """Measure estimators of the gradient of `E_q[log p(x | z)] - KL(q(z | scores) || p(z))`, as in `hardmax.elbo`.

    With `kl="auto"`, `Direct` and others that take the whole integrand get it ("posterior direct"); the rest have the
    KL's analytic gradient added. The exact gradient is that of the whole bound, whatever `kl` is: with "none" the KL's
    gradient is missing, and counts as bias.

    Args:
        likelihood: `log p(x | z)`, as for `hardmax.elbo`.
        scores: `[*B, *score]`, the encoder's output.
        space: the space of z.
        estimators: as for `diagnose`.
        prior: scores of the prior `[*score]`; None is uniform.
        kl: how the KL enters the gradient, as for `hardmax.elbo`.
        draws: as for `diagnose`, and so are the others.
        exact: see there.
        evaluations: see there.
        samples: see there.
        generator: see there.
        chunk_size: see there.
        observe: see there.

    Returns:
        A row for each estimator.

    Raises:
        ArgumentError: an argument that cannot be used; the exact gradient is zero.
        NotExactError: too many z to enumerate, or no unbiased estimator to replace that.

    Example:
        >>> import torch, hardmax as hm
        >>> from hardmax.diagnosis import diagnose_elbo
        >>> encoder, decoder = torch.nn.Linear(784, 10), torch.nn.Linear(10, 784)
        >>> x = torch.rand(8, 784).round()
        >>> likelihood = hm.BernoulliLikelihood(decoder, x)
        >>> diagnosis = diagnose_elbo(
        ...     likelihood, encoder(x), hm.Categorical(10), [hm.Exact(), hm.StraightThrough()], draws=8
        ... )
        >>> diagnosis.recommendation.name, [row.evaluations for row in diagnosis.rows]
        ('Exact()', [10.0, 10.0])
    """
    check_draws(draws)
    check_prior(prior, space)
    call = bounded(likelihood, space, prior=prior, kl=kl, chunk_size=chunk_size)
    if exact == "enumerate":
        linear = -scores if prior is None else prior - scores
        reference = enumerated(likelihood, scores, space, linear=linear, chunk_size=chunk_size)
    elif exact == "monte-carlo":
        # Of the whole bound, whatever kl is.
        whole = bounded(likelihood, space, prior=prior, chunk_size=chunk_size)
        count = REFERENCE * draws
        reference = monte_carlo(
            whole, scores, space, draws=count, generator=generator, chunk_size=chunk_size, observe=observe
        )
    else:
        raise ArgumentError(f"exact must be 'enumerate' or 'monte-carlo', got {exact!r}")
    return measure(
        call,
        scores,
        space,
        candidates(space, likelihood) if estimators is None else estimators,
        exact=reference,
        draws=draws,
        evaluations=evaluations,
        samples=samples,
        generator=generator,
        chunk_size=chunk_size,
        observe=observe,
    )
