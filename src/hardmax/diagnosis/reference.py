"""The gradient that estimates are compared with: exact, or the mean of many unbiased estimates."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax._deprecation import RenamedMember
from hardmax.diagnosis.estimates import ROWS_PER_BLOCK, Call, GradientSampler, Moments, draw_seed
from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import AbstractEstimator, GibbsCovariance, LocalExpectation, PerturbedReinforce
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace, SolverSpace
from hardmax.types import Objective
from hardmax.validation import check_scores

_SMALLEST = 0.01  # gradient of an example, relative to the root mean square over examples


@dataclass(frozen=True)
class Reference:
    """The gradient that estimates are compared with.

    Attributes:
        gradient: `[*B, *score]`, float64.
        variance: `[*B, *score]`, float64. Variance of the gradient if it is a mean of estimates; zero if it is exact.
        source: how the gradient was computed, as readable text.
    """

    gradient: Float[Tensor, "..."]
    variance: Float[Tensor, "..."]
    source: str

    @property
    def squared_norm(self) -> float:
        """Sum over examples of the squared norms, minus the contribution of the noise.

        Raises:
            ArgumentError: the gradient is zero, or smaller than its noise.
        """
        square = float(self.gradient.square().sum() - self.variance.sum())
        if not square > 0:
            reason = "is zero" if not self.variance.any() else "is smaller than its noise: raise draws"
            raise ArgumentError(
                f"the gradient that estimates are compared with, by {self.source}, {reason}; errors cannot be "
                "relative to it"
            )
        return square

    square = RenamedMember("squared_norm")

    def has_gradient(self, space: AbstractSpace) -> Bool[Tensor, "*B"]:
        """Return which examples have a gradient: at least 1 % of the root mean square over examples, without its noise.

        The direction of a smaller one has no effect in a batch, and its estimates are often zero or noise.
        """
        excess = self.gradient.square() - self.variance
        squares = space.dot(excess, torch.ones_like(excess))
        return squares > _SMALLEST**2 * self.squared_norm / squares.numel()

    @property
    def error(self) -> float:
        """Relative standard error of the gradient; zero if it is exact."""
        return float(self.variance.sum() / self.squared_norm) ** 0.5


def make_exact_reference(gradient: Float[Tensor, "..."], source: str = "the caller") -> Reference:
    """Return a reference without noise from a gradient `[*B, *score]` that is already known."""
    gradient = gradient.detach().double()
    return Reference(gradient, torch.zeros_like(gradient), source)


def enumerate_reference(
    f: Objective,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    *,
    linear: Float[Tensor, "..."] | None = None,
    chunk_size: int | None = None,
) -> Reference:
    r"""Return the exact gradient of an expectation, by enumerating every z, in float64.

    $$ \mathbb{E}_q[f(z) + \langle \mathrm{linear}, \mathrm{statistics}(z) \rangle] $$

    With `linear = prior - scores` this is the gradient of a bound: the gradient of $\log q(z)$ itself has mean zero.

    Args:
        f: the objective.
        scores: `[*B, *score]`.
        space: a space small enough to enumerate.
        linear: `[*B, *score]`, held fixed; None is zero.
        chunk_size: maximum number of candidates that f gets in one call; None chooses a number that bounds the memory.

    Raises:
        NotExactError: there are too many z.
    """
    scores = check_scores(scores, space, values=True)
    if not space.offers("enumerate"):
        raise NotExactError(f"{space} cannot be enumerated; pass exact='monte-carlo'")
    space.check_enumerable()
    with torch.no_grad():
        fixed = None if linear is None else linear.detach().expand(scores.shape)
        most = chunk_size or max(ROWS_PER_BLOCK // max(prod(space.batch_shape(scores)), 1), 1)
        values = Evaluator(f, scores.detach(), space, linear=fixed, chunk_size=most).table()
        rounding = 4 * torch.finfo(values.dtype).eps * values.abs().amax(-1, keepdim=True)
        table = values.double()
    wide = scores.detach().double().requires_grad_()
    q = space.log_probs(wide).exp()
    # A constant has no gradient, and differences within rounding have none either.
    differences = table - (q.detach() * table).sum(-1, keepdim=True)
    differences = torch.where(differences.abs() > rounding, differences, 0.0)
    (gradient,) = torch.autograd.grad((q * differences).sum(), wide)
    return make_exact_reference(gradient, "enumeration")


def choose_unbiased(space: AbstractSpace) -> tuple[AbstractEstimator, int]:
    """Return an unbiased estimator that works for a large space, and its number of samples.

    Raises:
        NotExactError: there is no unbiased estimator for the space.
    """
    if isinstance(space, AbstractFactorised):
        return LocalExpectation(), 1
    if space.offers("draw"):
        return GibbsCovariance(), GibbsCovariance.default_samples
    if isinstance(space, SolverSpace):
        return PerturbedReinforce(), PerturbedReinforce.default_samples
    raise NotExactError(
        f"{space} has no exact samples, so no estimator gives its gradient without bias; diagnose a smaller space of "
        "the same kind"
    )


def estimate_reference(
    call: Call,
    scores: Float[Tensor, "..."],
    space: AbstractSpace,
    *,
    draws: int,
    generator: torch.Generator | None = None,
    chunk_size: int | None = None,
    observe: Callable[[str, int], None] | None = None,
) -> Reference:
    """Return the mean of many estimates of an unbiased estimator, and its variance.

    The estimator is `LocalExpectation` for independent variables, otherwise `GibbsCovariance`; where the space has an
    arg max alone (`SolverSpace`), `PerturbedReinforce`, for the expectation over perturb-and-MAP.

    Args:
        call: defines what is estimated, as for `measure_estimators`.
        scores: `[*B, *score]`.
        space: a space of independent variables, or one with exact samples.
        draws: number of estimates, at least 2.
        generator: where the noise comes from; None is torch's global generator.
        chunk_size: maximum number of copies in one call.
        observe: called to report progress, under the name "reference".

    Raises:
        NotExactError: no unbiased estimator works for the space.
    """
    scores = check_scores(scores, space, values=True)
    estimator, samples = choose_unbiased(space)
    noise_generator = torch.Generator(scores.device).manual_seed(draw_seed(generator))
    sampler, moments = GradientSampler(call, estimator, scores, space), Moments()
    most = sampler.count_copies_per_block(
        samples, sampler.draw_block(samples, 1, noise_generator).evaluations, chunk_size
    )
    for block in sampler.draw_blocks(samples, draws, most, noise_generator):
        moments.add(block.gradient)
        if observe is not None:
            observe("reference", len(block.gradient))
    source = f"{draws:,} draws of {type(estimator).__name__}"
    return Reference(moments.mean, moments.variance / draws, source)
