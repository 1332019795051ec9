"""f and its derivative in z, and the base class of estimators that use f only through this derivative."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.abstract import AbstractSampler
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Estimate


def evaluate_with_slopes(
    name: str, f: Evaluator, z: Float[Tensor, "C ..."]
) -> tuple[Float[Tensor, "C *B"], Float[Tensor, "C ..."]]:
    """Evaluate f and, by one backward pass, its derivative in z.

    Args:
        name: name of the calling estimator, for the error message.
        f: the objective; each z counts as one evaluation.
        z: `[C, *B, *event]`.

    Returns:
        `[C, *B]` f(z), with the gradient for everything that f closes over; and `[C, *B, *event]` df/dz, detached.

    Raises:
        ArgumentError: f(z) carries no gradient to z.
    """
    if not can_read_values():
        # torch.compile and torch.func do not allow autograd.grad. Under vjp, f cannot split z into chunks itself.
        pairs = [_evaluate_with_vjp(f, chunk) for chunk in z.split(f.chunk_size or len(z))]
        return torch.cat([values for values, _ in pairs]), torch.cat([slopes for _, slopes in pairs])
    leaf = z.detach().requires_grad_()
    slopes = None
    with torch.enable_grad():
        values = f(leaf)
        if values.requires_grad:
            (slopes,) = torch.autograd.grad(values.sum(), leaf, retain_graph=True, allow_unused=True)
    if slopes is None:
        raise ArgumentError(
            f"{name} needs an f that is differentiable in z, but f(z) carries no gradient to z; use an estimator that "
            f"needs only values of f, such as LocalExpectation(), Reinforce() or UnorderedSet()"
        )
    return values if torch.is_grad_enabled() else values.detach(), slopes


def _evaluate_with_vjp(f: Evaluator, z: Tensor) -> tuple[Tensor, Tensor]:
    values, pull = torch.func.vjp(f, z)  # pyright: ignore[reportAssignmentType]
    return values, pull(torch.ones_like(values))[0].detach()


class AbstractLinearised(AbstractSampler):
    """Base class of samplers that turn the slope of f at z into a gradient for the scores.

    z is an arg max, which has no useful derivative. A concrete estimator defines a substitute in the method `gradient`.

    In `hardmax.expectation` the slope is that of f, whatever the loss does with the value. In `hardmax.sample` there is
    no f, and the slope is that of minus the loss on which `backward` is called.
    """

    perturbs = True

    _alternatives_for_values = "Direct() or Reinforce()"

    def perturb_scores(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the scores whose arg max is z, `[S, *B, *score]`, differentiable; by default `scores + noise`."""
        return space.perturb(scores, noise)

    @abstractmethod
    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Return an ascent direction of f for the scores, `[S, *B, *score]`.

        Args:
            space: the space of z.
            perturbed: `[S, *B, *score]`, the scores whose arg max is z.
            z: `[S, *B, *event]`.
            slope: `[S, *B, *score]`, the derivative of f at z in the layout of the scores.
        """

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces where a slope in z cannot be converted to the layout of the scores."""
        super().check(space, samples)
        if space.event_shape != space.score_shape and not (space.offers("change") and space.offers("parts")):
            raise NotExactError(
                f"{self} needs the single changes of z (change, parts) where z has another shape than the scores, "
                f"and {space} does not offer them; use another estimator"
            )

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return the arg max, and the arg max with a gradient."""
        return self._sample(scores, space, noise)[:2]

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z, differentiate by autograd, and pass the weight of each f(z) to the backward pass."""
        hard, z, weight = self._sample(scores, space, noise)
        value = (self._evaluate(f, z) + weight).mean(0)
        return Estimate(value, hard, f.evaluations, solves=float(self.solves * len(hard)))

    def _sample(self, scores: Tensor, space: AbstractSpace, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        perturbed = self.perturb_scores(scores, space, noise)
        hard = space.argmax(perturbed.detach()).to(scores.dtype)
        z, weight = _ArgmaxWithGradient.apply(perturbed, hard, space, self)  # pyright: ignore[reportGeneralTypeIssues]
        return hard, z, weight


class _ArgmaxWithGradient(torch.autograd.Function):
    """Returns z, whose backward pass is the estimator's, and zeros `[S, *B]` whose gradient is the weight of f(z).

    The incoming gradient of z is `weight * slope`, where `weight` is the derivative of the loss for f(z). The backward
    pass divides by the weight, so that the step which an estimator takes along the slope depends neither on the number
    of samples nor on a factor of the value.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(perturbed: Tensor, z: Tensor, space: AbstractSpace, estimator: AbstractLinearised) -> Any:
        return z.clone(), z.new_zeros(z.shape[: z.dim() - len(space.event_shape)])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        perturbed, z, ctx.space, ctx.estimator = inputs
        ctx.save_for_backward(perturbed, z)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        perturbed, z = (saved.detach() for saved in ctx.saved_tensors)
        for_z, weight = (grad.to(perturbed.dtype) for grad in grads)
        z = z.to(perturbed.dtype)
        # Where the weight is zero, z comes from `hardmax.sample`, or f(z) has no effect on the loss and no slope.
        weight = torch.where(weight == 0, -1.0, weight)
        lead = weight.shape
        slope = for_z / weight.view(*lead, *(1 for _ in ctx.space.event_shape))
        gradient = ctx.estimator.gradient(ctx.space, perturbed, z, lay_out_slope(ctx.space, z, slope))
        return gradient * weight.view(*lead, *(1 for _ in ctx.space.score_shape)), None, None, None


def lay_out_slope(space: AbstractSpace, z: Float[Tensor, "..."], slope: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Convert a slope in z to the layout of the scores: z and slope `[*L, *event]` `-> [*L, *score]`.

    For the result v, `<v, statistics(z')>` equals `<slope, z'>` up to a constant, for all z' that are one change away
    from z. Where z has the shape of the scores, v is the slope itself, and this holds for all z'.
    """
    if space.event_shape == space.score_shape:
        return slope
    if space.offers("fields"):  # bits: a change is a flip
        return space.parts(z, ((1 - 2 * z) * slope).movedim(-1, 0))
    event = tuple(range(-len(space.event_shape), 0))
    return space.parts(z, ((space.neighbours(z) - z) * slope).sum(event))


def measure_movement(
    space: AbstractSpace,
    perturbed: Float[Tensor, "S ..."],
    z: Float[Tensor, "S ..."],
    slope: Float[Tensor, "..."],
    step: float | Float[Tensor, ""],
    two_sided: bool,
) -> Float[Tensor, "S ..."]:
    """Return the finite difference of the arg max of the perturbed scores along a slope, `[S, *B, *score]`.

    One-sided `(statistics(z(step)) - statistics(z)) / step`, two-sided
    `(statistics(z(step)) - statistics(z(-step))) / (2 step)`, with `z(step) = argmax(perturbed + step slope)`.
    """

    def solve(step: float | Tensor) -> Tensor:
        return space.argmax(space.augment(perturbed, step * slope)).to(z.dtype)

    z_minus, distance = (solve(-step), 2 * step) if two_sided else (z, step)
    return (space.statistics(solve(step)) - space.statistics(z_minus)) / distance
