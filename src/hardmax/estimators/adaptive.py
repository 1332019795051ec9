"""Estimators whose step size adapts to the batch: adaptive direct optimization and adaptive I-MLE."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators._linearization import AbstractLinearised, measure_movement
from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate
from hardmax.validation import check_positive


def find_moving_step(
    moved: Callable[[Tensor], Tensor],
    z: Float[Tensor, "S ..."],
    space: AbstractSpace,
    *,
    share: float | Float[Tensor, ""],
    smallest: float,
    largest: float,
    solves: int,
) -> Float[Tensor, ""]:
    """Return the smallest step at which at least a share of the arg maxes differ from z, one step for all of them.

    With `z(step) = argmax_z' {<perturbed, statistics(z')> + step v(z')}`, z stays the arg max as long as no other z'
    overtakes it. The lead of z over z' is linear in step, so the steps at which z stays are an interval that contains
    zero: an arg max that has moved stays moved, and the share that has moved grows with the step. The step is found by
    bisection of log step.

    The result is a step at which the share has moved, or `largest` if the share moved at none of those tried; it is too
    large by a factor of at most `(largest / smallest)^(1 / 2^solves)`. A z that already maximises v never moves, so the
    share may be unreachable. No values are read, so it compiles; under vmap every slice has its own step.

    Args:
        moved: maps a scalar step to z(step) `[S, *B, *event]`; one arg max for every sample and example.
        z: `[S, *B, *event]`, z(0).
        space: the space of z.
        share: fraction of the S samples of all examples, in (0, 1]; a tensor is not checked.
        smallest: where the search starts, > 0.
        largest: where it ends, at least `smallest`.
        solves: number of calls of `moved`.

    Returns:
        `[]`, in float32 or wider, detached.

    Raises:
        ArgumentError: from `check_step_search`.

    Example:
        >>> import torch, hardmax as hm
        >>> space, scores, z = hm.Binary(1), torch.tensor([[[1.0], [2.0], [4.0], [8.0]]]), torch.ones(1, 4, 1)
        >>> moved = lambda step: space.argmax(scores - step)
        >>> step = find_moving_step(moved, z, space, share=0.5, smallest=0.01, largest=100.0, solves=20)
        >>> round(step.item(), 3)
        2.0
    """
    check_step_search(1.0 if isinstance(share, Tensor) else share, smallest, largest, solves)
    event = tuple(range(-len(space.event_shape), 0))
    wide = torch.promote_types(z.dtype, torch.float32)

    def enough(step: Tensor) -> Tensor:
        return (moved(step) != z).any(event).to(wide).mean() >= share

    return bisect_step(enough, smallest, largest, solves, like=z.to(wide))


def bisect_step(
    enough: Callable[[Tensor], Tensor], smallest: float, largest: float, tries: int, *, like: Tensor
) -> Float[Tensor, ""]:
    """Return the first step from `smallest` on that is enough, by bisection of log step; `largest` if none is.

    Args:
        enough: maps a step to a boolean scalar; true from some step on.
        smallest: where the search starts, > 0.
        largest: where it ends.
        tries: number of calls of `enough`.
        like: a tensor whose dtype and device the steps have.
    """
    with torch.no_grad():
        low = torch.full((), math.log(smallest), dtype=like.dtype, device=like.device)
        high = torch.full((), math.log(largest), dtype=like.dtype, device=like.device)
        for _ in range(tries):
            middle = (low + high) / 2
            is_enough = enough(middle.exp())
            low, high = torch.where(is_enough, low, middle), torch.where(is_enough, middle, high)
        return high.exp()


def check_step_search(share: float, smallest: float, largest: float, solves: int) -> None:
    """Raise `ArgumentError` if the search parameters are invalid; estimators call it on construction."""
    if not 0 < share <= 1:
        raise ArgumentError(f"share must be in (0, 1], got {share}; it is how many of the arg maxes have to move")
    check_positive("smallest", smallest)
    check_positive("largest", largest)
    if largest < smallest:
        raise ArgumentError(f"largest must not be below smallest={smallest}, got {largest}")
    if solves < 1:
        raise ArgumentError(f"solves must be at least 1, got {solves}")


_TRIES = 6  # finds epsilon to 7 percent between bounds that are a hundredfold apart


@final
@dataclass(frozen=True)
class AdaptiveDirect(AbstractEstimator):
    """Direct with an epsilon as large as the batch allows: nothing to tune.

        gradient = (statistics(z(epsilon)) - statistics(z*)) / epsilon,
        epsilon = the first e, from `smallest` on, with P(z(e) != z*) >= share
                  or P(more than one change at e) >= several P(more than one change at `largest`)

    P is taken over the batch. A small epsilon moves few arg maxes, and the gradient is mostly noise. A large one
    saturates, as the gradient is at most 1/epsilon; and where several variables move together, f's approximation around
    z*, which uses single changes only, is wrong. So epsilon rises until either occurs; for one variable the second
    never does. The lead of z* is linear in epsilon, so that an arg max that has moved stays moved, and epsilon is found
    by bisection.

    For independent variables these probabilities have a closed form, given f around z*: variable i moves with
    probability `|q_i(scores + e f) - q_i(scores)|` (for more than two values a lower bound), and the mean of the
    gradient over the remaining noise of z(epsilon) is that of `AveragedDirect`, which is used. For other spaces the arg
    maxes that move are counted.

    Bias: O(epsilon), as Direct's; and, since epsilon is fitted to the same noise it is used with, of the order of 1
    over the number of examples times samples: use a batch of 100 or more. Variance: as that of `AveragedDirect` or
    Direct at that epsilon. Cost: as Direct, K evaluations of f for one categorical, 1 + (number of single changes) per
    sample otherwise; one arg max per sample, nine in structured spaces.

    Args:
        share: fraction of the arg maxes that may move, in (0, 1].
        several: of those that move by more than one change at `largest`, the fraction that may, in (0, 1].
        smallest: epsilon is not below, > 0.
        largest: epsilon is not above; with a bound as the objective, 1 makes z(epsilon) a sample of the posterior.

    Raises:
        ArgumentError: a share outside (0, 1], or invalid bounds.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(100, 3, requires_grad=True), torch.tensor([1.0, 20.0, 400.0])
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(3), hm.AdaptiveDirect())
        >>> out.value.sum().backward()
        >>> out.evaluations, out.solves
        (3.0, 1.0)

    References:
        Ours; Minervini, Franceschi & Niepert, "Adaptive perturbation-based gradient estimation", 2023, adapt the step
        of implicit MLE to the number of gradients that are not zero.
    """

    share: float = 0.5
    several: float = 0.12
    smallest: float = 0.01
    largest: float = 1.0

    needs = ("change", "parts")
    takes_integrand = True
    perturbs = True
    couples_examples = True

    def __post_init__(self) -> None:
        for share in (self.share, self.several):
            check_step_search(share, self.smallest, self.largest, _TRIES)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Solve for z*, evaluate f around it, find epsilon, and return the change of the statistics."""
        held = scores.detach()
        perturbed = space.perturb(held, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values, parts = evaluate_single_changes(f, space, z)
        if isinstance(space, AbstractFactorised) and space.offers("per_variable"):
            moves = _Expected(space, held, parts)
        else:
            moves = _Counted(space, perturbed, z, parts)
        most = self.several * moves.shares(self.largest)[1]

        def enough(step: Tensor) -> Tensor:
            some, several = moves.shares(step)
            return (some >= self.share) | ((several >= most) & (several > 0))

        epsilon = bisect_step(enough, self.smallest, self.largest, _TRIES, like=noise)
        gradient = moves.difference(epsilon) / epsilon.to(scores.dtype)
        gradient = gradient if gradient.dim() == held.dim() else gradient.mean(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, (1 + moves.solves) * len(noise))


class _Expected:
    """Movement in expectation over the noise: closed form for independent variables, given f around z*."""

    solves = 0.0

    def __init__(self, space: AbstractFactorised, scores: Tensor, parts: Tensor) -> None:
        self._space, self._scores, self._parts = space, scores, parts

    def difference(self, step: float | Tensor) -> Tensor:
        """Return statistics(z(step)) - statistics(z*), `[*S, *B, *score]`."""
        tilt = (step * self._parts).to(self._scores.dtype)
        return self._space.marginals(self._scores + tilt) - self._space.marginals(self._scores)

    def shares(self, step: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities that any variable moves, and that more than one does, mean over the batch."""
        space, change = self._space, self.difference(step).float()
        up, down = space.per_variable(change.clamp_min(0)), space.per_variable((-change).clamp_min(0))
        # Over several values, increases equal decreases; a bit has one of them only.
        moves = torch.maximum(up, down).reshape(-1, space.variables)
        stays = (1 - moves).clamp_min(torch.finfo(moves.dtype).tiny)
        none = stays.prod(-1)
        one = none * (moves / stays).sum(-1)
        several = (1 - none - one).clamp_min(0).mean()
        return (1 - none).mean(), several if space.variables > 1 else torch.zeros_like(several)


class _Counted:
    """Movement measured by counting the arg maxes that differ from z*."""

    solves = _TRIES + 2.0  # the search, one at `largest`, one at epsilon

    def __init__(self, space: AbstractSpace, perturbed: Tensor, z: Tensor, parts: Tensor) -> None:
        self._space, self._perturbed, self._z, self._parts = space, perturbed, z, parts
        self._event = tuple(range(-len(space.event_shape), 0))
        first = z.flatten(0, z.dim() - len(space.event_shape) - 1)[:1]
        # The number of entries that a single change alters.
        self._single = (space.change(first, torch.zeros(1, dtype=torch.long, device=z.device)) != first).sum()

    def difference(self, step: float | Tensor) -> Tensor:
        """Return statistics(z(step)) - statistics(z*), `[S, *B, *score]`."""
        return self._space.statistics(self._moved(step)) - self._space.statistics(self._z)

    def shares(self, step: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the shares of z that differ, and that differ in more entries than a single change alters."""
        apart = (self._moved(step) != self._z).sum(self._event)
        return (apart > 0).float().mean(), (apart > self._single).float().mean()

    def _moved(self, step: float | Tensor) -> Tensor:
        ahead = self._space.augment(self._perturbed, step * self._parts)
        return self._space.argmax(ahead).to(self._z.dtype)


@final
@dataclass(frozen=True)
class AdaptiveImplicitMLE(AbstractLinearised):
    """`ImplicitMLE` with the smallest step at which a share of the arg maxes move.

        gradient = (statistics(argmax(perturbed + step slope)) - statistics(z)) / step,
        step = min {t : at least `share` of the draws that can move have argmax(perturbed + t slope) != z}

    With a smaller step few draws have a gradient, with a larger one the bias grows. There is one step for all draws of
    the call, and it is searched between `smallest` and `largest` times `|perturbed| / |slope|`, the step at which both
    have the same norm. So the estimate follows the scale of the slope: twice the loss, half the step, twice the
    gradient. That makes it the one to use in `hardmax.sample`, where the slope comes with unknown factors. Draws that
    do not move at the largest step have a z that is already the best, and are excluded from the share: late in training
    they are the majority.

    Bias: as `ImplicitMLE` at the step found, and a small one because the step depends on the draws; no parameter makes
    it vanish. Variance: the share bounds the draws without a gradient. Cost: one evaluation of f per sample, and its
    derivative in z; `3 + tries` arg maxes, one more if two-sided: worth it where an arg max is cheap against f. Under
    vmap every slice has its own step.

    Args:
        share: fraction that moves, of the draws of the call that can, in (0, 1].
        smallest: where the search starts, > 0.
        largest: where it ends.
        tries: arg maxes that the search takes; the step is found to a factor of `(largest / smallest)^(1 / 2^tries)`.
        two_sided: move the scores in both directions, by the same step.

    Raises:
        ArgumentError: share outside (0, 1], smallest <= 0, largest < smallest, or tries < 1.
        NotExactError: z has another shape than the scores, and the space has no single changes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(100, 6, requires_grad=True)
        >>> z = hm.sample(scores, hm.Subset(6, 2), hm.AdaptiveImplicitMLE(share=0.5))
        >>> (z[..., 0].square().mean() / 1000).backward()
        >>> scores.grad.shape, hm.AdaptiveImplicitMLE().solves
        (torch.Size([100, 6]), 9)

    References:
        Minervini, Franceschi & Niepert, "Adaptive perturbation-based gradient estimation for discrete latent variable
        models", 2023. Deviation: the paper moves its step a little after every batch, towards one non-zero entry of the
        gradient for each draw (which for a swap of two items is a share of one half); ours keeps no state between
        calls, and searches.
    """

    share: float = 0.5
    smallest: float = 1e-3
    largest: float = 10.0
    tries: int = 6
    two_sided: bool = False

    couples_examples = True

    def __post_init__(self) -> None:
        check_step_search(self.share, self.smallest, self.largest, self.tries)

    @property
    def solves(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """z, the search and its end, and one or two at the step found."""
        return self.tries + (4 if self.two_sided else 3)

    def gradient(
        self,
        space: AbstractSpace,
        perturbed: Float[Tensor, "S ..."],
        z: Float[Tensor, "S ..."],
        slope: Float[Tensor, "S ..."],
    ) -> Float[Tensor, "S ..."]:
        """Search for the step, and solve again with it."""
        size = slope.norm()
        ratio = torch.where(size > 0, perturbed.norm() / size, 1.0)

        def moved(step: float | Tensor) -> Tensor:
            return space.argmax(space.augment(perturbed, step * ratio * slope))

        can_move = (moved(self.largest) != z).any(tuple(range(-len(space.event_shape), 0))).to(slope.dtype).mean()
        step = ratio * find_moving_step(
            moved,
            z,
            space,
            share=self.share * can_move,
            smallest=self.smallest,
            largest=self.largest,
            solves=self.tries,
        )
        return measure_movement(space, perturbed, z, slope, step, self.two_sided)
