"""What is estimated: the gradient of an expectation, or of a bound, for many copies of the scores at once."""

from torch import Tensor

from hardmax.diagnosis.blocks import Call
from hardmax.diagnosis.repeated import Repeated
from hardmax.estimators import AbstractEstimator
from hardmax.expectations import expectation
from hardmax.objectives import elbo
from hardmax.objectives.elbo import Kl
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate, Objective


def expected(f: Objective, space: AbstractSpace, *, chunk_size: int | None = None) -> Call:
    """Return the call of `hardmax.expectation`; f gets at most `chunk_size` candidates at a time, copies included."""

    def call(estimator: AbstractEstimator, copies: Tensor, noise: Tensor) -> Estimate:
        repeated, chunk = _repeated(f, copies, space, chunk_size)
        return expectation(repeated, copies, space, estimator, noise=noise, chunk_size=chunk)

    return call


def bounded(
    likelihood: Objective,
    space: AbstractSpace,
    *,
    prior: Tensor | None = None,
    kl: Kl = "auto",
    chunk_size: int | None = None,
) -> Call:
    """Return the call of `hardmax.elbo`, arguments as there."""
    prior = None if prior is None else prior.detach()

    def call(estimator: AbstractEstimator, copies: Tensor, noise: Tensor) -> Estimate:
        repeated, chunk = _repeated(likelihood, copies, space, chunk_size)
        return elbo(repeated, copies, space, estimator, prior=prior, kl=kl, noise=noise, chunk_size=chunk)

    return call


def _repeated(
    f: Objective, copies: Tensor, space: AbstractSpace, chunk_size: int | None
) -> tuple[Objective, int | None]:
    """Return f for the copies, and how many candidates of all of them keep within f's own number."""
    count, *batch = space.batch_shape(copies)
    return Repeated(f, count, tuple(batch)), chunk_size and max(chunk_size // count, 1)
