"""Diagnose estimators of a gradient: of an expectation (`hm.diagnose`), or of the evidence lower bound."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis.candidates import list_candidates
from hardmax.diagnosis.estimates import make_elbo_call, make_expectation_call
from hardmax.diagnosis.measurement import Collect, Observe, check_draws, measure_estimators
from hardmax.diagnosis.reference import enumerate_reference, estimate_reference
from hardmax.diagnosis.result import Diagnosis
from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.objectives.elbo import Kl, check_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective

Source = Literal["enumerate", "monte-carlo"]
REFERENCE_FACTOR = 4  # a Monte Carlo reference has this many times the draws of an estimator


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
    collect: Collect | None = None,
) -> Diagnosis:
    r"""Measure bias, noise and cost of estimators of a gradient on your problem.

    $$ \nabla_{\mathrm{scores}} \, \mathbb{E}_{z \sim q(z \mid \mathrm{scores})}[f(z)] $$

    Each estimator computes `draws` independent estimates, which are compared with the exact gradient. All estimators
    have the same budget of evaluations of f, and each uses as many samples as fit. `Quality` documents the
    measurements, and how examples are aggregated. Copies of the batch share a call: 1,024 estimates take a few calls,
    not 1,024.

    The noise of the mean of the estimates is subtracted from the bias, and reported. An estimator that uses the entire
    batch (`Reinforce("mean")`) computes its estimates one batch at a time, since copies would give it a better baseline
    than in training. Therefore pass a batch of the size that you train with.

    Args:
        f: the objective, as for `expectation`; its optional methods are used.
        scores: `[*B, *score]`, of a few typical examples, at the stage of training that you are interested in.
        space: the space of z.
        estimators: a mapping from names to estimators, or a sequence; None is `list_candidates(space, f)`, which has
            several values of epsilon and tau. Estimators that refuse are listed with their reasons.
        draws: number of independent estimates of each estimator, at least 2.
        exact: how to compute the exact gradient. "enumerate": sum over every z. "monte-carlo", for larger spaces: the
            mean of 4 x `draws` estimates of an unbiased estimator (`LocalExpectation` for independent variables,
            `GibbsCovariance` for structured spaces with exact samples, `PerturbedReinforce` for a `SolverSpace`). Its
            variance is subtracted as well, and reported.
        evaluations: budget of an estimate, in evaluations of f for each example; None is the cost of the most expensive
            estimator with its fewest samples. The number actually used is reported.
        samples: S of every estimator, instead of as many as fit the budget.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: maximum number of candidates that f gets in one call.
        observe: called with the name of an estimator and the number of estimates completed since the last call.
        collect: called with the name of an estimator and a block of its estimates `[D, *B, *score]`, in float64.

    Returns:
        A row for each estimator; `print` shows the table, `figure()` draws it, `recommendation` is the one to use.

    Raises:
        ArgumentError: an argument is invalid, or the exact gradient is zero.
        NotExactError: there are too many z to enumerate, or no unbiased estimator for "monte-carlo".

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
    call = make_expectation_call(f, space, chunk_size=chunk_size)
    if exact == "enumerate":
        reference = enumerate_reference(f, scores, space, chunk_size=chunk_size)
    elif exact == "monte-carlo":
        count = REFERENCE_FACTOR * draws
        reference = estimate_reference(
            call, scores, space, draws=count, generator=generator, chunk_size=chunk_size, observe=observe
        )
    else:
        raise ArgumentError(f"exact must be 'enumerate' or 'monte-carlo', got {exact!r}")
    return measure_estimators(
        call,
        scores,
        space,
        list_candidates(space, f) if estimators is None else estimators,
        f=f,
        exact=reference,
        draws=draws,
        evaluations=evaluations,
        samples=samples,
        generator=generator,
        chunk_size=chunk_size,
        observe=observe,
        collect=collect,
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
    r"""Measure estimators of the gradient of the evidence lower bound, as in `hardmax.elbo`.

    $$ \mathbb{E}_q[\log p(x \mid z)] - \mathrm{KL}(q(z \mid \mathrm{scores}) \,\|\, p(z)) $$

    With `kl="auto"`, the objective of `Direct` and similar estimators is the complete integrand ("posterior direct");
    for the other estimators, the analytic gradient of the KL is added. The exact gradient is that of the complete
    bound, whatever `kl` is. With "none" the KL's gradient is missing, which counts as bias.

    Args:
        likelihood: $\log p(x \mid z)$, as for `hardmax.elbo`.
        scores: `[*B, *score]`, the encoder's output.
        space: the space of z.
        estimators: as for `diagnose`.
        prior: scores of the prior `[*score]`; None is uniform.
        kl: how the KL enters the gradient, as for `hardmax.elbo`.
        draws: as for `diagnose`.
        exact: as for `diagnose`.
        evaluations: as for `diagnose`.
        samples: as for `diagnose`.
        generator: as for `diagnose`.
        chunk_size: as for `diagnose`.
        observe: as for `diagnose`.

    Returns:
        A row for each estimator.

    Raises:
        ArgumentError: an argument is invalid, or the exact gradient is zero.
        NotExactError: there are too many z to enumerate, or no unbiased estimator for "monte-carlo".

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
    call = make_elbo_call(likelihood, space, prior=prior, kl=kl, chunk_size=chunk_size)
    if exact == "enumerate":
        linear = -scores if prior is None else prior - scores
        reference = enumerate_reference(likelihood, scores, space, linear=linear, chunk_size=chunk_size)
    elif exact == "monte-carlo":
        # Of the complete bound, whatever kl is.
        complete = make_elbo_call(likelihood, space, prior=prior, chunk_size=chunk_size)
        count = REFERENCE_FACTOR * draws
        reference = estimate_reference(
            complete, scores, space, draws=count, generator=generator, chunk_size=chunk_size, observe=observe
        )
    else:
        raise ArgumentError(f"exact must be 'enumerate' or 'monte-carlo', got {exact!r}")
    return measure_estimators(
        call,
        scores,
        space,
        list_candidates(space, likelihood) if estimators is None else estimators,
        exact=reference,
        draws=draws,
        evaluations=evaluations,
        samples=samples,
        generator=generator,
        chunk_size=chunk_size,
        observe=observe,
    )
