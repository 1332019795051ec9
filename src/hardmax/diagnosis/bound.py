"""Estimators of the gradient of the evidence lower bound, measured."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis.calls import bounded
from hardmax.diagnosis.candidates import candidates
from hardmax.diagnosis.expectation import REFERENCE, Source
from hardmax.diagnosis.measuring import Observe, check_draws, measure
from hardmax.diagnosis.reference import enumerated, monte_carlo
from hardmax.diagnosis.result import Diagnosis
from hardmax.errors import ArgumentError
from hardmax.estimators import AbstractEstimator
from hardmax.objectives.elbo import Kl
from hardmax.objectives.prior import check_prior
from hardmax.spaces import AbstractSpace
from hardmax.types import Objective


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
    KL's own gradient added. The exact gradient is that of the whole bound, whatever `kl` is: with "none" the KL's
    gradient is missing, and what is missing is measured as bias.

    Args:
        likelihood: `log p(x | z)`, as for `hardmax.elbo`.
        scores: `[*B, *score]`, the encoder's output.
        space: what z may be.
        estimators: as for `diagnose`.
        prior: scores of the prior `[*score]`; None is uniform.
        kl: how the KL takes part in the gradient, as for `hardmax.elbo`.
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
        >>> found = diagnose_elbo(
        ...     likelihood, encoder(x), hm.Categorical(10), [hm.Exact(), hm.StraightThrough()], draws=8
        ... )
        >>> found.recommendation.name, [row.evaluations for row in found.rows]
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
