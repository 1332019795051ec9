"""Direct with an epsilon that fits itself to the batch."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.estimators.adaptive_step import check_step_search, first_step
from hardmax.estimators.single_changes import single_changes
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.types import Estimate

_TRIES = 6  # finds epsilon to 7 percent between bounds that are a hundredfold apart


@final
@dataclass(frozen=True)
class AdaptiveDirect(AbstractEstimator):
    """Direct whose epsilon is as large as it can be: nothing to tune.

        gradient = (statistics(z(epsilon)) - statistics(z*)) / epsilon,
        epsilon = the first e, from `smallest` on, with P(z(e) != z*) >= share
                  or P(more than one change at e) >= several P(more than one change at `largest`)

    P over the batch. A small epsilon moves hardly an arg max, and the gradient is all noise. A large one saturates, as
    the gradient is at most 1/epsilon; and where variables move together, f's approximation around z*, which knows
    single changes alone, is wrong. So epsilon rises until either shows; for one variable the second never does. What
    z* leads by is linear in epsilon, so that an arg max that has moved stays moved, and epsilon is found by bisection.

    For independent variables all of this is known, given f around z*: variable i moves with probability
    `|q_i(scores + e f) - q_i(scores)|` (for more than two values a lower bound), and the mean of the gradient over the
    noise that z(epsilon) still has is that of `AveragedDirect`, which is taken. For others the arg maxes that move are
    counted.

    Bias: O(epsilon), as Direct's; and, since epsilon is fitted to the very noise it is used with, of the order of 1
    over the number of examples times samples: it wants a batch of 100 or more. Variance: as that of `AveragedDirect`
    or Direct at that epsilon. Cost: as Direct, K evaluations of f for one categorical, 1 + (number of single changes)
    per sample otherwise; one arg max per sample, nine in structured spaces.

    Args:
        share: of the arg maxes that may move, in (0, 1].
        several: of those that move by more than one change at `largest`, the share that may, in (0, 1].
        smallest: epsilon is not below, > 0.
        largest: epsilon is not above; with a bound as the objective, 1 makes z(epsilon) a sample of the posterior.

    Raises:
        ArgumentError: a share outside (0, 1], or bounds that are none.

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
        """Solve for z*, evaluate f around it, find epsilon, and see what it moves."""
        held = scores.detach()
        perturbed = space.perturb(held, noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values, parts = single_changes(f, space, z)
        if isinstance(space, AbstractFactorised) and space.offers("per_variable"):
            moves = _Expected(space, held, parts)
        else:
            moves = _Counted(space, perturbed, z, parts)
        most = self.several * moves.shares(self.largest)[1]

        def enough(step: Tensor) -> Tensor:
            some, several = moves.shares(step)
            return (some >= self.share) | ((several >= most) & (several > 0))

        epsilon = first_step(enough, self.smallest, self.largest, _TRIES, like=noise)
        gradient = moves.difference(epsilon) / epsilon.to(scores.dtype)
        gradient = gradient if gradient.dim() == held.dim() else gradient.mean(0)
        value = carry(values.mean(0), space.dot(gradient, scores))
        return Estimate(value, z, f.evaluations, (1 + moves.solves) * len(noise))


class _Expected:
    """What moves, in expectation over the noise: of independent variables, given f around z*, it is known."""

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
        # Of several values as much goes up as down; a bit goes one way.
        moves = torch.maximum(up, down).reshape(-1, space.variables)
        stays = (1 - moves).clamp_min(torch.finfo(moves.dtype).tiny)
        none = stays.prod(-1)
        one = none * (moves / stays).sum(-1)
        several = (1 - none - one).clamp_min(0).mean()
        return (1 - none).mean(), several if space.variables > 1 else torch.zeros_like(several)


class _Counted:
    """What moves, by counting the arg maxes that do."""

    solves = _TRIES + 2.0  # and one at `largest`, one at epsilon

    def __init__(self, space: AbstractSpace, perturbed: Tensor, z: Tensor, parts: Tensor) -> None:
        self._space, self._perturbed, self._z, self._parts = space, perturbed, z, parts
        self._event = tuple(range(-len(space.event_shape), 0))
        first = z.flatten(0, z.dim() - len(space.event_shape) - 1)[:1]
        # In how many entries a single change differs.
        self._single = (space.change(first, torch.zeros(1, dtype=torch.long, device=z.device)) != first).sum()

    def difference(self, step: float | Tensor) -> Tensor:
        """Return statistics(z(step)) - statistics(z*), `[S, *B, *score]`."""
        return self._space.statistics(self._moved(step)) - self._space.statistics(self._z)

    def shares(self, step: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the shares of z that differ, and that differ in more entries than a single change makes."""
        apart = (self._moved(step) != self._z).sum(self._event)
        return (apart > 0).float().mean(), (apart > self._single).float().mean()

    def _moved(self, step: float | Tensor) -> Tensor:
        ahead = self._space.augment(self._perturbed, step * self._parts)
        return self._space.argmax(ahead).to(self._z.dtype)
