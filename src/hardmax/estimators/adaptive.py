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
from hardmax.estimators.abstract import AbstractEstimator, attach_score_gradient, mean_over_samples
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.spaces.abstract import IMPOSSIBLE
from hardmax.types import Estimate
from hardmax.validation import check_positive


def find_moving_step(
    solve: Callable[[Tensor], Tensor],
    z: Float[Tensor, "S ..."],
    space: AbstractSpace,
    *,
    share: float | Float[Tensor, ""],
    smallest: float,
    largest: float,
    solves: int,
) -> Float[Tensor, ""]:
    """Find the smallest step at which at least a given share of the arg maxes differs from z; one step for all of them.

    With `z(step) = argmax_z' {<perturbed, statistics(z')> + step v(z')}`, z stays the arg max as long as no other z'
    overtakes it. The lead of z over z' is linear in step, so the steps at which z stays are an interval that contains
    zero: an arg max that has moved stays moved, and the share that has moved grows with the step. The step is found by
    bisection of log step.

    The result is a step at which the share has moved, or `largest` if the share moved at none of those tried; it is too
    large by a factor of at most `(largest / smallest)^(1 / 2^solves)`. A z that already maximises v never moves, so the
    share may be unreachable. The search reads no tensor values in Python, so it can be compiled; under vmap every slice
    has its own step.

    Args:
        solve: maps a scalar step to z(step) `[S, *B, *event]`; one arg max for every sample and example.
        z: `[S, *B, *event]`, z(0).
        space: the space of z.
        share: fraction of the S samples of all examples, in (0, 1]; a tensor is not checked.
        smallest: where the search starts, > 0.
        largest: where it ends, at least `smallest`.
        solves: number of calls of `solve`.

    Returns:
        `[]`, in float32 or wider, detached.

    Raises:
        ArgumentError: invalid search parameters (see `check_step_search`).

    Example:
        >>> import torch, hardmax as hm
        >>> space, scores, z = hm.Binary(1), torch.tensor([[[1.0], [2.0], [4.0], [8.0]]]), torch.ones(1, 4, 1)
        >>> solve = lambda step: space.argmax(scores - step)
        >>> step = find_moving_step(solve, z, space, share=0.5, smallest=0.01, largest=100.0, solves=20)
        >>> round(step.item(), 3)
        2.0
    """
    check_step_search(1.0 if isinstance(share, Tensor) else share, smallest, largest, solves)
    event = tuple(range(-len(space.event_shape), 0))
    dtype = torch.promote_types(z.dtype, torch.float32)

    def is_enough(step: Tensor) -> Tensor:
        return (solve(step) != z).any(event).to(dtype).mean() >= share

    return bisect_step(is_enough, smallest, largest, solves, like=z.to(dtype))


def bisect_step(
    is_enough: Callable[[Tensor], Tensor], smallest: float, largest: float, tries: int, *, like: Tensor
) -> Float[Tensor, ""]:
    """Find the smallest step that is enough by bisection of log step; return `largest` if no step is.

    Args:
        is_enough: maps a step to a boolean scalar: false below some step, true from there on.
        smallest: where the search starts, > 0.
        largest: where it ends.
        tries: number of calls of `is_enough`.
        like: a tensor with the dtype and device of the steps.
    """
    with torch.no_grad():
        low = torch.full((), math.log(smallest), dtype=like.dtype, device=like.device)
        high = torch.full((), math.log(largest), dtype=like.dtype, device=like.device)
        for _ in range(tries):
            middle = (low + high) / 2
            stop = is_enough(middle.exp())
            low, high = torch.where(stop, low, middle), torch.where(stop, middle, high)
        return high.exp()


def check_step_search(share: float, smallest: float, largest: float, solves: int) -> None:
    """Raise `ArgumentError` if the search parameters are invalid; estimators call it on construction."""
    if not 0 < share <= 1:
        raise ArgumentError(f"share must be in (0, 1], got {share}; it is the fraction of the arg maxes that must move")
    check_positive("smallest", smallest)
    check_positive("largest", largest)
    if largest < smallest:
        raise ArgumentError(f"largest must not be below smallest={smallest}, got {largest}")
    if solves < 1:
        raise ArgumentError(f"solves must be at least 1, got {solves}")


_TRIES = 6  # finds epsilon within 7 percent between bounds that differ by a factor of 100


@final
@dataclass(frozen=True)
class AdaptiveDirect(AbstractEstimator):
    r"""Adaptive direct optimization: `Direct` that chooses epsilon for each batch, so that there is nothing to tune.

    $$ \mathrm{gradient} = \frac{\mathrm{statistics}(z(\epsilon)) - \mathrm{statistics}(z^*)}{\epsilon} $$

    Epsilon is as large as the batch allows: the first e, from `smallest` on, with

    $$ \begin{aligned}
       P(z(e) \ne z^*) &\ge \mathrm{share} \qquad \text{or} \\
       P(\text{more than one change at } e) &\ge \mathrm{several} \cdot P(\text{more than one change at largest})
       \end{aligned} $$

    P is the fraction over the batch. A small epsilon moves few arg maxes, and the gradient is mostly noise. A large
    epsilon saturates, since the gradient is at most $1/\epsilon$. It also moves several variables together, and there
    the approximation of f around $z^*$, which uses single changes only, is wrong. So epsilon increases until one of the
    two conditions holds; with one variable the second never does. The lead of $z^*$ is linear in epsilon, so an arg max
    that has moved stays moved, and epsilon is found by bisection.

    For independent variables these probabilities have a closed form, given f around $z^*$: variable i moves with
    probability $|q_i(\mathrm{scores} + e f) - q_i(\mathrm{scores})|$ (for more than two values a lower bound). The mean
    of the gradient over the remaining noise of $z(\epsilon)$ is then that of `AveragedDirect`, and this mean is used.
    For other spaces the arg maxes that move are counted.

    Bias: $O(\epsilon)$, as for `Direct`. In addition, epsilon is fitted to the same noise it is used with, which adds a
    bias of the order of 1 / (examples times samples): use a batch of 100 or more. Variance: that of `AveragedDirect` or
    `Direct` at that epsilon. Cost: as `Direct`, K evaluations of f for one categorical, 1 + (number of single changes)
    per sample otherwise; one arg max per sample, nine in structured spaces.

    Args:
        share: fraction of the arg maxes that may move, in (0, 1].
        several: of the arg maxes that move by more than one change at `largest`, the fraction that may, in (0, 1].
        smallest: lower bound of epsilon, > 0.
        largest: upper bound of epsilon; with a bound such as the ELBO as the objective, 1 makes $z(\epsilon)$ a sample
            of the posterior.

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
        detached = scores.detach()
        perturbed = space.perturb(detached, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values, parts = evaluate_single_changes(f, space, z)
        if isinstance(space, AbstractFactorised) and space.offers("per_variable"):
            movement = _ExpectedMovement(space, detached, parts)
        else:
            movement = _CountedMovement(space, perturbed, z, parts)
        limit = self.several * movement.shares(self.largest)[1]

        def is_enough(step: Tensor) -> Tensor:
            share, several = movement.shares(step)
            return (share >= self.share) | ((several >= limit) & (several > 0))

        epsilon = bisect_step(is_enough, self.smallest, self.largest, _TRIES, like=noise)
        gradient = movement.difference(epsilon) / epsilon.to(scores.dtype)
        gradient = gradient if gradient.dim() == detached.dim() else gradient.mean(0)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient)
        return Estimate(value, z, f.evaluations, (1 + movement.solves) * len(noise))


class _ExpectedMovement:
    """How z(step) differs from z*, in expectation over the noise: a closed form for independent variables.

    f enters through its values at the single changes of z*.
    """

    solves = 0.0

    def __init__(self, space: AbstractFactorised, scores: Tensor, parts: Tensor) -> None:
        self._space, self._scores, self._parts = space, scores, parts

    def difference(self, step: float | Tensor) -> Tensor:
        """Return statistics(z(step)) - statistics(z*), `[*S, *B, *score]`."""
        tilt = (step * self._parts).to(self._scores.dtype)
        return self._space.marginals(self._scores + tilt) - self._space.marginals(self._scores)

    def shares(self, step: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the probability that a variable moves, and that more than one does; means over the batch."""
        space, change = self._space, self.difference(step).float()
        up, down = space.per_variable(change.clamp_min(0)), space.per_variable((-change).clamp_min(0))
        # For a categorical variable the increases equal the decreases; a bit has only one of the two.
        moves = torch.maximum(up, down).reshape(-1, space.variables)
        stays = (1 - moves).clamp_min(torch.finfo(moves.dtype).tiny)
        none = stays.prod(-1)
        one = none * (moves / stays).sum(-1)
        several = (1 - none - one).clamp_min(0).mean()
        return (1 - none).mean(), several if space.variables > 1 else torch.zeros_like(several)


class _CountedMovement:
    """How z(step) differs from z*, by counting the arg maxes that differ."""

    solves = _TRIES + 2.0  # the search, one arg max at `largest`, one at epsilon

    def __init__(self, space: AbstractSpace, perturbed: Tensor, z: Tensor, parts: Tensor) -> None:
        self._space, self._perturbed, self._z, self._parts = space, perturbed, z, parts
        self._event = tuple(range(-len(space.event_shape), 0))
        first = z.flatten(0, z.dim() - len(space.event_shape) - 1)[:1]
        # The number of entries that a single change alters.
        self._single = (space.change(first, torch.zeros(1, dtype=torch.long, device=z.device)) != first).sum()

    def difference(self, step: float | Tensor) -> Tensor:
        """Return statistics(z(step)) - statistics(z*), `[S, *B, *score]`."""
        return self._space.statistics(self._solve(step)) - self._space.statistics(self._z)

    def shares(self, step: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the share of z that differ, and the share that differ in more entries than a single change alters."""
        distance = (self._solve(step) != self._z).sum(self._event)
        return (distance > 0).float().mean(), (distance > self._single).float().mean()

    def _solve(self, step: float | Tensor) -> Tensor:
        augmented = self._space.augment(self._perturbed, step * self._parts)
        return self._space.argmax(augmented).to(self._z.dtype)


@final
@dataclass(frozen=True)
class AdaptiveImplicitMLE(AbstractLinearised):
    r"""Adaptive implicit MLE: `ImplicitMLE` that chooses its step in each call so that a given share of arg maxes move.

    $$ \mathrm{gradient} = \frac{\mathrm{statistics}(\operatorname{argmax}(\mathrm{perturbed}
       + \mathrm{step} \cdot \mathrm{slope})) - \mathrm{statistics}(z)}{\mathrm{step}} $$

    The step is the smallest t at which at least `share` of the draws that can move have
    $\operatorname{argmax}(\mathrm{perturbed} + t \cdot \mathrm{slope}) \ne z$.

    With a smaller step few draws have a gradient, with a larger step the bias grows. All draws of the call share one
    step. It is searched between `smallest` and `largest` times $|\mathrm{perturbed}| / |\mathrm{slope}|$, the step at
    which both have the same norm. So the estimate follows the scale of the slope: twice the loss, half the step, twice
    the gradient. That makes it the right choice in `hardmax.sample`, where the slope comes with unknown factors. Draws
    that do not move at the largest step already have the best z, and are excluded from the share: late in training they
    are the majority.

    Bias: that of `ImplicitMLE` at the chosen step, and a small one because the step depends on the draws; no parameter
    makes it vanish. Variance: the share limits the number of draws without a gradient. Cost: one evaluation of f per
    sample, and its derivative in z; `3 + tries` arg maxes, one more if two-sided: worth it where an arg max is cheap
    compared to f. Under vmap every slice has its own step.

    Args:
        share: fraction of the draws of the call that must move, among those that can, in (0, 1].
        smallest: where the search starts, > 0.
        largest: where it ends.
        tries: arg maxes of the search; the step is found up to a factor of
            $(\mathrm{largest} / \mathrm{smallest})^{1 / 2^\mathrm{tries}}$.
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
        models", 2023. Deviation: the paper adjusts its step a little after every batch, towards one non-zero entry of
        the gradient for each draw (which for a swap of two items is a share of one half); ours keeps no state between
        calls, and searches in each.
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
        """Number of arg maxes: z, one at the largest step, the search, and one or two at the chosen step."""
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
        allowed = perturbed.masked_fill(perturbed < IMPOSSIBLE / 2, 0.0)  # other scores stand for minus infinity
        ratio = torch.where(size > 0, allowed.norm() / size, 1.0)

        def solve(step: float | Tensor) -> Tensor:
            return space.argmax(space.augment(perturbed, step * ratio * slope))

        can_move = (solve(self.largest) != z).any(tuple(range(-len(space.event_shape), 0))).to(slope.dtype).mean()
        step = ratio * find_moving_step(
            solve,
            z,
            space,
            share=self.share * can_move,
            smallest=self.smallest,
            largest=self.largest,
            solves=self.tries,
        )
        return measure_movement(space, perturbed, z, slope, step, self.two_sided)
