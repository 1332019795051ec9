"""Direct optimization through the arg max: the estimator, its average over the noise, and its form on short lists."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace, Categorical
from hardmax.types import Estimate
from hardmax.validation import can_read_values, check_positive

# From a step to z(step) `[S, *B, *event]` and the number of arg maxes that took, mean per example over all S.
Moved = Callable[[float | Tensor], tuple[Tensor, float]]


def search_all(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Moved]:
    """Return f(z) and `step -> argmax_z' {<perturbed, statistics(z')> + step f(z')}`, by enumerating every z'."""
    with torch.no_grad():
        table = f.table()
    members = space.enumerate(dtype=perturbed.dtype, device=perturbed.device)
    flat = perturbed.flatten(perturbed.dim() - len(space.score_shape))
    base = flat @ space.statistics(members).flatten(1).mT

    def moved(step: float | Tensor) -> tuple[Tensor, float]:
        return members[(base + step * table).argmax(-1)], float(len(z))

    return f(z), moved


def search_single_changes(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Moved]:
    """Return f(z) and z(step) for f's low-dimensional approximation, from all single changes of z."""
    values, parts = evaluate_single_changes(f, space, z)

    def moved(step: float | Tensor) -> tuple[Tensor, float]:
        return space.argmax(space.augment(perturbed, step * parts)), float(len(z))

    return values, moved


def search_bounded_flips(
    f: Evaluator, space: AbstractSpace, perturbed: Float[Tensor, "S ..."], z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Moved]:
    """Return the same as `search_single_changes`, for bits and a positive step; evaluates only flips that can matter.

    Flips start at their upper bounds. An arg max that uses only exact flips is the true one, since no other z' can be
    worth more than its bounds; until then, the flips it used are evaluated and it is solved again.
    """
    plain = f.plain(z)
    linear = 0.0 if f.linear is None else f.linear

    @torch.no_grad()
    def moved(step: float | Tensor) -> tuple[Tensor, float]:
        flips = f.flips(z)
        gains = flips.bounds.clone()

        def solve(chosen: Tensor) -> Tensor:
            parts = space.parts(z[chosen], gains[chosen].movedim(-1, 0))
            tilt = linear.expand(perturbed.shape)[chosen] if isinstance(linear, Tensor) else 0.0
            return space.argmax(perturbed[chosen] + step * (parts + tilt)).to(z.dtype)

        best, known = torch.empty_like(z), torch.zeros_like(z, dtype=torch.bool)
        open_ = torch.ones(z.shape[:-1], dtype=torch.bool, device=z.device)
        solves = 0.0
        while open_.any():
            best[open_] = solve(open_)
            solves += float(open_.sum()) * len(z) / open_.numel()
            used = (best != z) & ~known & open_[..., None]
            gains[used] = flips.gains(used)
            known |= used
            open_ = used.any(-1)
        return best, solves

    return plain + f.linear_part(z), moved


@final
@dataclass(frozen=True)
class Direct(AbstractEstimator):
    """Direct optimization: the difference of two arg maxes that share their noise.

    With `z* = argmax_z {scores(z) + noise(z)}` and `z(e) = argmax_z {e f(z) + scores(z) + noise(z)}`,

        gradient = (statistics(z(epsilon)) - statistics(z*)) / epsilon                          one-sided
        gradient = (statistics(z(epsilon)) - statistics(z(-epsilon))) / (2 epsilon)             two-sided

    For more than one variable f is replaced by its low-dimensional approximation around z*,
    `f~(z) = f(z*) + sum_i [f(z* with z_i) - f(z*)]`, so that f is evaluated at the single changes of z* alone; where f
    offers `flips` with upper bounds, only at those that can change the arg max, with the same result. With `full`, f is
    evaluated at every z of the space.

    Bias: O(epsilon) one-sided, O(epsilon^2) two-sided; none in the limit. The approximation keeps that for independent
    variables; where they interact, several change at once however small epsilon is, and a bias remains unless f is
    additive (for six bits with couplings of size 1, a quarter of the gradient). For a structured space the target
    is the expectation over perturb-and-MAP, not over q. Variance: grows as 1/epsilon. The gradient is at most
    1/epsilon, so differences of f that are large against 1/epsilon saturate. Cost: K evaluations of f for one
    categorical, 1 + (number of single changes) per sample otherwise; two arg maxes per sample, three if two-sided.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        two_sided: perturb in both directions.
        full: evaluate f everywhere instead of around z*; for spaces small enough to enumerate.

    Raises:
        ArgumentError: epsilon <= 0.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(5, 3, requires_grad=True), torch.tensor([1.0, 2.0, 4.0])
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(3), hm.Direct(epsilon=0.5))
        >>> out.value.sum().backward()
        >>> scores.grad.shape, out.evaluations, out.solves
        (torch.Size([5, 3]), 3.0, 2.0)

    References:
        Lorberbom, Gane, Jaakkola & Hazan, "Direct optimization through arg max for discrete variational
        auto-encoder", 2019, theorem 1 and section 4.1; McAllester, Hazan & Keshet, 2010.
    """

    epsilon: float = 1.0
    two_sided: bool = False
    full: bool = False

    takes_integrand = True
    perturbs = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    @property
    def needs(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Single changes of z, or all z."""
        return ("enumerate",) if self.full else ("change", "parts")

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to enumerate too many z."""
        super().check(space, samples)
        if self.full:
            space.check_enumerable()

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Solve for z*, evaluate f around it, and solve again."""
        perturbed = space.perturb(scores.detach(), noise)
        z = space.argmax(perturbed).to(scores.dtype)
        values, moved = self._search(f)(f, space, perturbed, z)
        ahead, solves = moved(self.epsilon)
        behind, more = moved(-self.epsilon) if self.two_sided else (z, 0.0)
        distance = (2 if self.two_sided else 1) * self.epsilon
        gradient = (space.statistics(ahead.to(scores.dtype)) - space.statistics(behind.to(scores.dtype))) / distance
        value = carry(values.mean(0), space.dot(gradient.mean(0), scores))
        return Estimate(value, z, f.evaluations, len(noise) + solves + more)

    def _search(self, f: Evaluator) -> Callable[..., tuple[Tensor, Moved]]:
        if self.full:
            return search_all
        # Bounds from above serve a positive step; which flips are evaluated is not known while compiling.
        bounded = f.has_flips and not self.two_sided and can_read_values()
        return search_bounded_flips if bounded else search_single_changes


@final
@dataclass(frozen=True)
class AveragedDirect(AbstractEstimator):
    """Direct without the noise of its second arg max: the mean over the noise, for each variable given the others.

    By Gumbel-max z_i(epsilon) is a sample of `softmax(scores_i + epsilon f_i)`, `f_ic = f(z with z_i = c)`, so

        gradient_i = (softmax(scores_i + epsilon f_i) - softmax(scores_i)) / epsilon                       one-sided
        gradient_i = (softmax(scores_i + epsilon f_i) - softmax(scores_i - epsilon f_i)) / (2 epsilon)     two-sided

    and for bits with sigmoids. Its limit for epsilon -> 0 is `LocalExpectation`, exactly: the derivative of softmax.
    With one variable the gradient is deterministic.

    Bias: O(epsilon) one-sided, O(epsilon^2) two-sided, as Direct's. Variance: that of the other variables alone, and
    bounded as epsilon falls. So a small epsilon costs nothing, and the remaining effect of epsilon is that the gradient
    is at most 1/epsilon: a soft clip of large differences of f. Cost: as Direct, 1 + (number of single changes)
    evaluations per sample, K for one categorical.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        two_sided: perturb in both directions.

    Raises:
        ArgumentError: epsilon <= 0.
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, f = torch.zeros(2, requires_grad=True), lambda z: z[..., 0]
        >>> hm.expectation(f, scores, hm.Categorical(2), hm.AveragedDirect(epsilon=1e-3)).value.backward()
        >>> scores.grad
        tensor([ 0.2500, -0.2500])

    References:
        Ours, after Lorberbom et al., 2019, theorem 1.
    """

    epsilon: float = 1.0
    two_sided: bool = False

    needs = ("draw", "marginals", "change", "parts")
    independent = True
    takes_integrand = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z for the other variables, and move the marginals of each."""
        held = scores.detach()
        z = space.draw(held, noise)
        values, parts = evaluate_single_changes(f, space, z)
        ahead = space.marginals(held + self.epsilon * parts)
        behind = space.marginals(held - self.epsilon * parts) if self.two_sided else space.marginals(held)
        gradient = (ahead - behind) / ((2 if self.two_sided else 1) * self.epsilon)
        gradient = gradient if gradient.dim() == held.dim() else gradient.mean(0)
        return Estimate(carry(values.mean(0), space.dot(gradient, scores)), z, f.evaluations, float(len(noise)))


@final
@dataclass(frozen=True)
class ShortlistDirect(AbstractEstimator):
    """`AveragedDirect` restricted to a list of the values drawn first, for categorical variables of many values.

    The list L of a variable has the `size` largest of scores + Gumbel: samples of q without replacement, z* the first
    of them. With `f_c = f(z* with the variable at c)` and `softmax_L` on the list alone,

        gradient = (softmax_L(scores + epsilon f) - softmax_L(scores)) / epsilon     on L, else 0.

    With many variables only some need be evaluated, different ones in every call: `variables` of n are chosen at
    random, and their gradients are multiplied by n / variables.

    An unlikely value gets no gradient until it is drawn; all evaluations of f are spent on values that may matter. With
    the whole integrand of a bound as f, as `elbo` gives it, the gradient at epsilon = 1 is `p_L(z | x) - q_L(z)`, of
    several variables that of each given the others: zero where q is the posterior, for any list, so the fixed point of
    one variable is the right one.

    Bias: in addition to that of AveragedDirect, values on a list are compared only with the rest of the list; none if
    the list has all K values, when this is AveragedDirect. The choice of variables has none. Variance: that of the
    lists and of the choice. Cost: `1 + variables * (size - 1)` evaluations of f per sample instead of `1 + n (K - 1)`,
    of which z* alone has a backward pass.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        size: of a list, at least 2; lists of more than K have K.
        variables: number of variables evaluated in a call, at least 1; None, or more than there are, is all.

    Raises:
        ArgumentError: epsilon <= 0, a list of fewer than two, or no variable to evaluate.
        NotExactError: the space is not one of categorical variables.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, worth = torch.zeros(5, 100, requires_grad=True), torch.arange(100.0)
        >>> out = hm.expectation(lambda z: z @ worth, scores, hm.Categorical(100), hm.ShortlistDirect(size=4))
        >>> out.value.sum().backward()
        >>> out.evaluations, (scores.grad != 0).sum(-1).max().item() <= 4
        (4.0, True)
        >>> scores, estimator = torch.zeros(5, 49, 100), hm.ShortlistDirect(size=4, variables=6)
        >>> hm.expectation(lambda z: (z @ worth).sum(-1), scores, hm.Categorical(100, 49), estimator).evaluations
        19.0

    References:
        Ours, after Lorberbom et al., 2019, theorem 1, and Vieira, "Gumbel-max trick and weighted reservoir sampling",
        2014.
    """

    epsilon: float = 1.0
    size: int = 4
    variables: int | None = None

    needs = ("draw", "marginals")
    independent = True
    takes_integrand = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.size < 2:
            raise ArgumentError(f"size of the list must be at least 2, z* and another, got {self.size}")
        if self.variables is not None and self.variables < 1:
            raise ArgumentError(f"variables to look at must be at least 1, got {self.variables}")

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse bits, whose lists would hold every value."""
        super().check(space, samples)
        if not isinstance(space, Categorical):
            raise NotExactError(f"{self} is for categorical variables, not for {space}; use AveragedDirect()")

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw the lists, evaluate f on them, and move the probabilities between their members."""
        assert isinstance(space, Categorical)  # check() refuses all others
        samples, rows = len(noise), (*space.batch_shape(scores), space.variables, space.k)
        held = scores.detach()
        perturbed = space.perturb(held, noise).reshape(samples, *rows)
        listed = perturbed.topk(min(self.size, space.k), dim=-1).indices
        each = torch.arange(space.k, device=scores.device)
        z = (listed[..., :1] == each).to(scores.dtype)
        values = f(z.view(noise.shape))
        chosen = self._choose_variables(held, space, noise, z)
        on_list = listed.gather(-2, chosen[..., None].expand(*chosen.shape, listed.shape[-1]))
        with torch.no_grad():
            worth = [
                self._worth(f, z, chosen[..., i], on_list[..., i, :], noise.shape) for i in range(chosen.shape[-1])
            ]
        worth = torch.cat([values.detach()[..., None, None].expand(*chosen.shape, 1), torch.stack(worth, -2)], -1)
        log_q = held.view(rows).expand(samples, *rows).gather(-1, listed)
        log_q = log_q.gather(-2, chosen[..., None].expand_as(on_list))
        moved = ((log_q + self.epsilon * worth).softmax(-1) - log_q.softmax(-1)) / self.epsilon
        flat = (chosen[..., None] * space.k + on_list).flatten(-2)
        gradient = torch.zeros_like(perturbed).to(moved.dtype).flatten(-2).scatter(-1, flat, moved.flatten(-2))
        gradient = (gradient.mean(0) * (space.variables / chosen.shape[-1])).view(scores.shape)
        return Estimate(
            carry(values.mean(0), space.dot(gradient, scores)), z.view(noise.shape), f.evaluations, float(samples)
        )

    def _choose_variables(self, scores: Tensor, space: AbstractFactorised, noise: Tensor, z: Tensor) -> Tensor:
        """Return the variables that are evaluated, `[S, *B, m]`.

        They are chosen by the leftover noise of z*, which is also independent of the values after z* on its list:
        Gumbels below a maximum are ordered as if there were no maximum.
        """
        count = min(self.variables or space.variables, space.variables)
        if count == space.variables:
            return torch.arange(count, device=z.device).expand(*z.shape[:-2], count)
        left = space.leftover(scores, noise, z.view(noise.shape))
        return left.reshape(z.shape[:-1]).topk(count, dim=-1).indices

    def _worth(self, f: Evaluator, z: Tensor, variable: Tensor, listed: Tensor, shape: torch.Size) -> Tensor:
        """Return f with one variable at each of the others on its list: `[S, *B]`, `[S, *B, L] -> [S, *B, L - 1]`."""
        values, variables = (torch.arange(count, device=z.device) for count in (z.shape[-1], z.shape[-2]))
        others = (listed[..., 1:].movedim(-1, 0)[..., None, None] == values).to(z.dtype)
        changed = torch.where((variables == variable[..., None])[..., None], others, z)
        worth = f(changed.reshape(len(changed) * shape[0], *shape[1:]))
        return worth.view(len(changed), *variable.shape).movedim(0, -1)
