"""The gradient that estimates are compared with: exact, or the mean of many unbiased estimates."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.diagnosis.estimates import ROWS, Call, GradientSampler, Moments, draw_seed
from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import AbstractEstimator, GibbsCovariance, LocalExpectation
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Objective
from hardmax.validation import check_scores


@dataclass(frozen=True)
class Reference:
    """The gradient that estimates are compared with.

    Attributes:
        gradient: `[*B, *score]`, float64.
        variance: `[*B, *score]`, float64. Of the gradient, which is itself a mean of estimates; zero if it is exact.
        source: how it was computed, as readable text.
    """

    gradient: Float[Tensor, "..."]
    variance: Float[Tensor, "..."]
    source: str

    @property
    def square(self) -> float:
        """Sum over examples of the squared norms, minus the contribution of the noise.

        Raises:
            ArgumentError: the gradient is zero, or smaller than its noise.
        """
        square = float(self.gradient.square().sum() - self.variance.sum())
        if not square > 0:
            reason = "is zero" if not self.variance.any() else "drowns in its own noise: raise draws"
            raise ArgumentError(
                f"the gradient that estimates are compared with, by {self.source}, {reason}; nothing is relative to it"
            )
        return square

    @property
    def error(self) -> float:
        """Relative standard error of the gradient; zero if it is exact."""
        return float(self.variance.sum() / self.square) ** 0.5


def exactly(gradient: Float[Tensor, "..."], source: str = "the caller") -> Reference:
    """Return a gradient `[*B, *score]` known from elsewhere as a reference without noise."""
    gradient = gradient.detach().double()
    return Reference(gradient, torch.zeros_like(gradient), source)


def enumerated(
    f: Objective,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    *,
    linear: Float[Tensor, "..."] | None = None,
    chunk_size: int | None = None,
) -> Reference:
    """Return the exact gradient of `E_q[f(z) + <linear, statistics(z)>]`, by enumerating every z, in float64.

    With `linear = prior - scores` that is the gradient of a bound: the gradient of log q(z) itself has mean zero.

    Args:
        f: the objective.
        scores: `[*B, *score]`.
        space: small enough to enumerate.
        linear: `[*B, *score]`, held fixed; None is zero.
        chunk_size: the most candidates that f gets in one call; None is a number that bounds the memory.

    Raises:
        NotExactError: too many z.
    """
    check_scores(scores, space, values=True)
    if not space.offers("enumerate"):
        raise NotExactError(f"{space} cannot be enumerated; pass exact='monte-carlo'")
    space.check_enumerable()
    with torch.no_grad():
        held = None if linear is None else linear.detach().expand(scores.shape)
        most = chunk_size or max(ROWS // max(prod(space.batch_shape(scores)), 1), 1)
        values = Evaluator(f, scores.detach(), space, linear=held, chunk_size=most).table()
        rounding = 4 * torch.finfo(values.dtype).eps * values.abs().amax(-1, keepdim=True)
        table = values.double()
    wide = scores.detach().double().requires_grad_()
    q = space.log_probs(wide).exp()
    # A constant has no gradient, and differences within rounding have none either.
    differences = table - (q.detach() * table).sum(-1, keepdim=True)
    differences = torch.where(differences.abs() > rounding, differences, 0.0)
    (gradient,) = torch.autograd.grad((q * differences).sum(), wide)
    return exactly(gradient, "enumeration")


def choose_unbiased(space: AbstractSpace) -> tuple[AbstractEstimator, int]:
    """Return an unbiased estimator that works for a large space, and its number of samples.

    Raises:
        NotExactError: there is none.
    """
    if isinstance(space, AbstractFactorised):
        return LocalExpectation(), 1
    if space.offers("draw"):
        return GibbsCovariance(), GibbsCovariance.default_samples
    raise NotExactError(
        f"{space} has no exact samples, so nothing gives its gradient without bias; diagnose a smaller one of its kind"
    )


def monte_carlo(
    call: Call,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    *,
    draws: int,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    observe: Callable[[str, int], None] | None = None,
) -> Reference:
    """Return the mean of many unbiased estimates, `LocalExpectation` or `GibbsCovariance`, and its variance.

    Args:
        call: defines what is estimated, as for `measure`.
        scores: `[*B, *score]`.
        space: independent variables, or exact samples.
        draws: number of estimates, at least 2.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: the most copies in one call.
        observe: called to report progress, under the name "reference".

    Raises:
        NotExactError: no unbiased estimator works for the space.
    """
    check_scores(scores, space, values=True)
    estimator, samples = choose_unbiased(space)
    noise_generator = torch.Generator(scores.device).manual_seed(draw_seed(generator))
    sampler, moments = GradientSampler(call, estimator, scores, space), Moments()
    most = sampler.copies_at_once(samples, sampler.block(samples, 1, noise_generator).evaluations, chunk_size)
    for block in sampler.blocks(samples, draws, most, noise_generator):
        moments.add(block.gradient)
        if observe is not None:
            observe("reference", len(block.gradient))
    source = f"{draws:,} draws of {type(estimator).__name__}"
    return Reference(moments.mean, moments.variance / draws, source)
