"""f and its derivative in z, and the base class of estimators that use nothing else of f."""

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.abstract import AbstractSampler
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import can_read_values


def with_slopes(
    name: str, f: Evaluator, z: Float[Tensor, "C ..."]
) -> tuple[Float[Tensor, "C *B"], Float[Tensor, "C ..."]]:
    """Evaluate f and, by one backward pass, its derivative in z.

    Args:
        name: of the calling estimator, for the error.
        f: the objective; counted once for each z.
        z: `[C, *B, *event]`.

    Returns:
        `[C, *B]` f(z), with the gradient of all that f closes over; and `[C, *B, *event]` df/dz, detached.

    Raises:
        ArgumentError: f(z) carries no gradient to z.
    """
    if not can_read_values():
        # Neither compiling nor torch.func allows autograd.grad inside. Under vjp, f cannot split z into chunks itself.
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
            f"needs values of f alone, such as LocalExpectation(), Reinforce() or UnorderedSet()"
        )
    return values if torch.is_grad_enabled() else values.detach(), slopes


def _evaluate_with_vjp(f: Evaluator, z: Tensor) -> tuple[Tensor, Tensor]:
    values, pull = torch.func.vjp(f, z)  # pyright: ignore[reportAssignmentType]
    return values, pull(torch.ones_like(values))[0].detach()


class AbstractLinearised(AbstractSampler):
    """A sampler whose backward pass uses only the slope of f at z, and turns it into a gradient for the scores.

    z is an arg max, which has no derivative. A concrete estimator defines its substitute, `gradient`.

    In `hardmax.expectation` the slope is that of f, however the value is used afterwards. In `hardmax.sample`, where
    the use of z is unknown, it is that of minus the loss that backward is called on.
    """

    perturbs = True

    _for_values = "Direct() or Reinforce()"

    def start(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Float[Tensor, "S ..."]:
        """Return the scores whose arg max z is, `[S, *B, *score]`, differentiable: the perturbed ones."""
        return space.perturb(scores, noise)

    @abstractmethod
    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Return an ascent direction, `[S, *B, *score]`, from the slope laid out like scores."""

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces where a slope in z cannot be laid out like scores."""
        super().check(space, samples)
        if space.event_shape != space.score_shape and not (space.offers("change") and space.offers("parts")):
            raise NotExactError(
                f"{self} needs the single changes of z (change, parts) where z has another shape than the scores, "
                f"and {space} does not offer them; use another estimator"
            )

    def sample(
        self, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> tuple[Float[Tensor, "S ..."], Float[Tensor, "S ..."]]:
        """Return the arg max, and the same with a gradient."""
        return self._sample(scores, space, noise)[:2]

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Evaluate f at z, differentiate by autograd, and pass the weight of each f(z) to the backward pass."""
        hard, z, weight = self._sample(scores, space, noise)
        value = (self._evaluate(f, z) + weight).mean(0)
        return Estimate(value, hard, f.evaluations, solves=float(self.solves * len(hard)))

    def _sample(self, scores: Tensor, space: AbstractSpace, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        perturbed = self.start(scores, space, noise)
        hard = space.argmax(perturbed.detach()).to(scores.dtype)
        z, weight = _Through.apply(perturbed, hard, space, self)  # pyright: ignore[reportGeneralTypeIssues]
        return hard, z, weight


class _Through(torch.autograd.Function):
    """z, with the estimator's gradient, and zeros `[S, *B]` whose gradient is the weight of f(z) in the loss.

    The incoming gradient of z is `weight * slope`. Divided by the weight it is the slope, so that the step an estimator
    takes along it depends neither on the number of samples nor on a factor of the value.
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
        # Without a weight, z was drawn without an f, or this f(z) has no effect on the loss and no slope either.
        weight = torch.where(weight == 0, -1.0, weight)
        lead = weight.shape
        slope = for_z / weight.view(*lead, *(1 for _ in ctx.space.event_shape))
        gradient = ctx.estimator.gradient(ctx.space, perturbed, z, lay_out_slope(ctx.space, z, slope))
        return gradient * weight.view(*lead, *(1 for _ in ctx.space.score_shape)), None, None, None


def lay_out_slope(space: AbstractSpace, z: Float[Tensor, "..."], slope: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Lay out a slope in z like scores: `[*L, *event]` twice `-> [*L, *score]`.

    The result v makes `<v, statistics(z')>` equal to `<slope, z'>`, up to a constant, for all z' one change away from
    z. Where z has the shape of the scores that is the slope itself, for all z'.
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
    slope: Float[Tensor, "S ..."],
    step: float | Float[Tensor, ""],
    two_sided: bool,
) -> Float[Tensor, "S ..."]:
    """Return how the arg max of the perturbed scores moves along a slope, per unit of step: `[S, *B, *score]`."""

    def moved(step: float | Tensor) -> Tensor:
        return space.argmax(space.augment(perturbed, step * slope)).to(z.dtype)

    behind, distance = (moved(-step), 2 * step) if two_sided else (z, step)
    return (space.statistics(moved(step)) - space.statistics(behind)) / distance
