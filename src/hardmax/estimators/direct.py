"""Direct optimization through the arg max: as published, averaged over the noise, and on short lists of values."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators._direct_search import (
    Solve,
    search_all,
    search_bounded_changes,
    search_neighbours,
    search_single_changes,
)
from hardmax.estimators._single_changes import evaluate_single_changes
from hardmax.estimators.abstract import AbstractEstimator, attach_score_gradient, mean_over_samples
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace, Categorical
from hardmax.spaces.abstract import find_largest, make_one_hot
from hardmax.types import Estimate, Objective
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class Direct(AbstractEstimator):
    r"""Direct optimization: solves the arg max twice with the same noise, the second time with $\epsilon f$ added.

    The gradient is the scaled difference of the two solutions. With

    $$ \begin{aligned}
       z^* &= \arg\max_z \{\mathrm{scores}(z) + \mathrm{noise}(z)\}, \\
       z(\epsilon) &= \arg\max_z \{\epsilon f(z) + \mathrm{scores}(z) + \mathrm{noise}(z)\},
       \end{aligned} $$

    the one-sided and the two-sided gradient are

    $$ \frac{\mathrm{statistics}(z(\epsilon)) - \mathrm{statistics}(z^*)}{\epsilon}, \qquad
       \frac{\mathrm{statistics}(z(\epsilon)) - \mathrm{statistics}(z(-\epsilon))}{2 \epsilon}. $$

    With more than one variable, f is replaced by its low-dimensional approximation around $z^*$,

    $$ \tilde f(z) = f(z^*) + \sum_i \, [f(z^* \text{ with } z_i) - f(z^*)], $$

    so that f is evaluated only at $z^*$ and at its single changes. Where f offers `changes` with upper bounds, it is
    evaluated only at those that can change the arg max, with the same result. With `full`, f is evaluated at every z of
    the space. Where f has a method `augment(scores, epsilon)`, it returns scores whose arg max is $z(\epsilon)$, and
    nothing is approximated (`LinearObjective` has it). A space with `neighbours` alone, such as a `SolverSpace`, is
    searched among $z^*$ and these.

    Bias: $O(\epsilon)$ one-sided, $O(\epsilon^2)$ two-sided; none in the limit. With independent variables this also
    holds for the approximation of f. Where variables interact, several change at once however small epsilon is, and a
    bias remains unless f is additive (for six bits with couplings of size 1, a quarter of the gradient). For a
    structured space the target is the expectation over perturb-and-MAP (the arg max of perturbed scores), not over q.
    Variance: grows as $1/\epsilon$. The gradient is at most $1/\epsilon$, so it saturates where differences of f are
    large compared to $1/\epsilon$. Cost: K evaluations of f for one categorical, 1 + (number of single changes) per
    sample otherwise; two arg maxes per sample, three if two-sided.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        two_sided: perturb in both directions.
        full: evaluate f everywhere instead of around $z^*$; for spaces small enough to enumerate.

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
        """All z, or nothing more than `check` requires."""
        return ("enumerate",) if self.full else ()

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse to enumerate too many z, and spaces where f cannot be evaluated around z."""
        super().check(space, samples)
        if self.full:
            space.check_enumerable()
        elif not _has_changes(space) and not space.offers("neighbours"):
            raise NotExactError(
                f"{self} evaluates f around z, and {space} offers neither single changes of z (change, parts) nor "
                f"neighbours; use ImplicitMLE(), or an f with a method augment (LinearObjective has it)"
            )

    def specialise(self, f: Objective) -> AbstractEstimator:
        """Solve the augmented arg max exactly if f can augment scores."""
        return _AugmentedDirect(self.epsilon, self.two_sided) if hasattr(f, "augment") else self

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Solve for z*, evaluate f around it, and solve again."""
        perturbed = space.perturb(scores.detach(), noise)
        if space.categories is not None:
            return self._estimate_one_variable(f, scores, noise, perturbed)
        z = space.argmax(perturbed).to(scores.dtype)
        values, solve = self._search(f, space, perturbed, z)
        z_plus, solves_plus = solve(self.epsilon)
        z_minus, solves_minus = solve(-self.epsilon) if self.two_sided else (z, 0.0)
        distance = (2 if self.two_sided else 1) * self.epsilon
        gradient = measure_difference(space, z_plus, z_minus, distance, noise, scores.dtype)
        value = attach_score_gradient(mean_over_samples(values), scores, mean_over_samples(gradient))
        return Estimate(value, z, f.evaluations, len(noise) + solves_plus + solves_minus)

    def _estimate_one_variable(self, f: Evaluator, scores: Tensor, noise: Tensor, perturbed: Tensor) -> Estimate:
        """Estimate for one categorical variable: every arg max is the index of a category.

        This is the most common case, and its tensors are small: it is written with as few operations as possible.
        """
        index = find_largest(perturbed)
        values, table = f.evaluate_categories(index)
        table = (table if f.linear is None else table + f.linear.view(table.shape)).view(scores.shape)
        plus = find_largest(torch.add(perturbed, table, alpha=self.epsilon))
        z = make_one_hot(index, scores.shape[-1], scores.dtype)
        if self.two_sided:
            minus = find_largest(perturbed - self.epsilon * table)
            z_minus = make_one_hot(minus, scores.shape[-1], scores.dtype)
        else:
            z_minus = z
        gradient = make_one_hot(plus, scores.shape[-1], scores.dtype) - z_minus
        distance = (2 if self.two_sided else 1) * self.epsilon
        gradient = mean_over_samples(gradient if distance == 1 else gradient / distance)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient)
        return Estimate(value, z, f.evaluations, float((3 if self.two_sided else 2) * len(noise)))

    def _search(self, f: Evaluator, space: AbstractSpace, perturbed: Tensor, z: Tensor) -> tuple[Tensor, Solve]:
        if self.full:
            return search_all(f, space, perturbed, z)
        if not _has_changes(space):
            return search_neighbours(f, space, perturbed, z)
        # Upper bounds are valid for a positive step only.
        changes = None if self.two_sided else f.changes(z)
        bounds = None if changes is None else changes.bounds
        if changes is None or bounds is None:
            return search_single_changes(f, space, perturbed, z)
        return search_bounded_changes(f, space, perturbed, z, changes, bounds)


@final
@dataclass(frozen=True)
class _AugmentedDirect(AbstractEstimator):
    """`Direct` for an f that augments scores by itself: both arg maxes are solved exactly, on any space."""

    epsilon: float
    two_sided: bool

    takes_integrand = True
    perturbs = True

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Solve for z*, and again with scores that f augments."""
        perturbed = space.perturb(scores.detach(), noise)
        z = space.argmax(perturbed).to(scores.dtype)

        def solve(step: float) -> Tensor:
            with torch.no_grad():
                augmented = f.augment(perturbed, step)
            return space.argmax(augmented if f.linear is None else augmented + step * f.linear)

        z_plus, z_minus = solve(self.epsilon), solve(-self.epsilon) if self.two_sided else z
        distance = (2 if self.two_sided else 1) * self.epsilon
        gradient = measure_difference(space, z_plus, z_minus, distance, noise, scores.dtype)
        value = mean_over_samples(f.evaluate_plain(z))
        value = attach_score_gradient(value, scores, mean_over_samples(gradient))
        return Estimate(value, z, f.evaluations, float((3 if self.two_sided else 2) * len(noise)))


def measure_difference(
    space: AbstractSpace, plus: Tensor, minus: Tensor, distance: float, noise: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return the gradient for scores, `(statistics(plus) - statistics(minus)) / distance`: `[S, *B, *score]`."""
    return space.pull_back((space.statistics(plus.to(dtype)) - space.statistics(minus.to(dtype))) / distance, noise)


def _has_changes(space: AbstractSpace) -> bool:
    return space.offers("change") and space.offers("parts")


@final
@dataclass(frozen=True)
class AveragedDirect(AbstractEstimator):
    r"""Averaged direct optimization: the mean of `Direct` over the noise, in closed form for each variable.

    The other variables are held at a sample. By Gumbel-max, $z_i(\epsilon)$ is a sample of
    $\operatorname{softmax}(\mathrm{scores}_i + \epsilon f_i)$ with $f_{ic} = f(z \text{ with } z_i = c)$, so the
    one-sided and the two-sided gradient of variable i are

    $$ \frac{\operatorname{softmax}(\mathrm{scores}_i + \epsilon f_i) - \operatorname{softmax}(\mathrm{scores}_i)}
       {\epsilon}, $$

    $$ \frac{\operatorname{softmax}(\mathrm{scores}_i + \epsilon f_i) - \operatorname{softmax}(\mathrm{scores}_i
       - \epsilon f_i)}{2 \epsilon}, $$

    and for bits with sigmoids. Its limit for $\epsilon \to 0$ is exactly `LocalExpectation`: the derivative of softmax.
    With one variable the gradient is deterministic.

    Bias: $O(\epsilon)$ one-sided, $O(\epsilon^2)$ two-sided, as for `Direct`. Variance: only that of the other
    variables, and bounded as epsilon decreases. So a small epsilon costs nothing, and the remaining effect of epsilon
    is that the gradient is at most $1/\epsilon$: a soft clip of large differences of f. Cost: as `Direct`, 1 + (number
    of single changes) evaluations per sample, K for one categorical.

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
    only_draws = True
    independent = True
    takes_integrand = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z, evaluate f around it, and return the difference of the marginals of each variable."""
        detached = scores.detach()
        z = space.draw(detached, noise)
        values, parts = evaluate_single_changes(f, space, z)
        q_plus = space.marginals(detached + self.epsilon * parts)
        q_minus = space.marginals(detached - self.epsilon * parts) if self.two_sided else space.marginals(detached)
        gradient = (q_plus - q_minus) / ((2 if self.two_sided else 1) * self.epsilon)
        gradient = gradient if gradient.dim() == detached.dim() else gradient.mean(0)
        value = attach_score_gradient(mean_over_samples(values), scores, gradient)
        return Estimate(value, z, f.evaluations, float(len(noise)))


@final
@dataclass(frozen=True)
class ShortlistDirect(AbstractEstimator):
    r"""`AveragedDirect` on a short random list of values, for categorical variables with many values.

    The list L of a variable has the `size` largest values of scores + Gumbel noise. They are samples of q without
    replacement, and the first is $z^*$. With $f_c = f(z^* \text{ with the variable at } c)$ and
    $\operatorname{softmax}_L$ over the list only,

    $$ \mathrm{gradient} = \frac{\operatorname{softmax}_L(\mathrm{scores} + \epsilon f)
       - \operatorname{softmax}_L(\mathrm{scores})}{\epsilon} \quad \text{on } L, \text{ else } 0. $$

    With many variables it is enough to evaluate some of them, different ones in every call: `variables` of n are chosen
    at random, and their gradients are multiplied by n / `variables`.

    All evaluations of f are spent on values that may matter: an unlikely value gets no gradient until it is drawn. With
    the entire integrand of a bound as f, as `elbo` passes it, the gradient at epsilon = 1 is $p_L(z \mid x) - q_L(z)$
    (with several variables, that of each given the others). This is zero where q is the posterior, for any list, so the
    fixed point of one variable is the right one.

    Bias: in addition to that of `AveragedDirect`, values on a list are compared only with the rest of the list. There
    is no additional bias if the list has all K values: then this is `AveragedDirect`. The choice of variables adds no
    bias. Variance: that of the lists and of the choice. Cost: `1 + variables * (size - 1)` evaluations of f per sample
    instead of $1 + n (K - 1)$; only $z^*$ has a backward pass.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        size: number of values on a list, at least 2; at most K are used.
        variables: number of variables evaluated in a call, at least 1; None, or more than there are, for all.

    Raises:
        ArgumentError: epsilon <= 0, size < 2, or variables < 1.
        NotExactError: the space is not `Categorical`.

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
            raise ArgumentError(f"size of the list must be at least 2, z* and another value, got {self.size}")
        if self.variables is not None and self.variables < 1:
            raise ArgumentError(f"number of variables to evaluate must be at least 1, got {self.variables}")

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces that are not categorical: the list of a bit would contain all its values."""
        super().check(space, samples)
        if not isinstance(space, Categorical):
            raise NotExactError(f"{self} is for categorical variables, not for {space}; use AveragedDirect()")

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw the lists, evaluate f on them, and return the change of the probabilities on each list."""
        assert isinstance(space, Categorical)  # check() refuses all other spaces
        samples, rows = len(noise), (*space.batch_shape(scores), space.variables, space.k)
        detached = scores.detach()
        perturbed = space.perturb(detached, noise).reshape(samples, *rows)
        listed = perturbed.topk(min(self.size, space.k), dim=-1).indices
        z = make_one_hot(listed[..., :1], space.k, scores.dtype)
        plain = f.evaluate_plain(z.view(noise.shape))
        values = plain.detach() + f.linear_part(z.view(noise.shape))
        variables = self._choose_variables(detached, space, noise, z)
        lists = listed.gather(-2, variables[..., None].expand(*variables.shape, listed.shape[-1]))
        with torch.no_grad():
            list_values = [
                self._evaluate_list(f, z, variables[..., i], lists[..., i, :], noise.shape)
                for i in range(variables.shape[-1])
            ]
        z_values = values[..., None, None].expand(*variables.shape, 1)
        list_values = torch.cat([z_values, torch.stack(list_values, -2)], -1)
        log_q = detached.view(rows).expand(samples, *rows).gather(-1, listed)
        log_q = log_q.gather(-2, variables[..., None].expand_as(lists))
        on_list = ((log_q + self.epsilon * list_values).softmax(-1) - log_q.softmax(-1)) / self.epsilon
        index = (variables[..., None] * space.k + lists).flatten(-2)
        gradient = torch.zeros_like(perturbed).to(on_list.dtype).flatten(-2).scatter(-1, index, on_list.flatten(-2))
        gradient = (gradient.mean(0) * (space.variables / variables.shape[-1])).view(scores.shape)
        value = attach_score_gradient(mean_over_samples(plain), scores, gradient)
        return Estimate(value, z.view(noise.shape), f.evaluations, float(samples))

    def _choose_variables(self, scores: Tensor, space: AbstractFactorised, noise: Tensor, z: Tensor) -> Tensor:
        """Return the variables that are evaluated, `[S, *B, m]`.

        They are chosen by `space.leftover`, the randomness of the noise that z* does not use. It is also independent of
        the values after z* on the list: Gumbels below a maximum are ordered as if there were no maximum.
        """
        count = min(self.variables or space.variables, space.variables)
        if count == space.variables:
            return torch.arange(count, device=z.device).expand(*z.shape[:-2], count)
        uniform = space.leftover(scores, noise, z.view(noise.shape))
        return uniform.reshape(z.shape[:-1]).topk(count, dim=-1).indices

    def _evaluate_list(self, f: Evaluator, z: Tensor, variable: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
        """Return f of z with a variable `[S, *B]` at each value of its list `[S, *B, L]` after the first.

        The result is `[S, *B, L - 1]`.
        """
        values = variable[..., None] * z.shape[-1] + values
        new = values[..., 1:].movedim(-1, 0)
        index = torch.stack([values[..., 0].expand(new.shape), new], -1)
        entries = torch.tensor([0.0, 1.0], dtype=z.dtype, device=z.device).expand(index.shape)
        changed = z.flatten(-2).expand(*new.shape, -1).scatter(-1, index, entries)
        f_values = f(changed.reshape(len(changed) * shape[0], *shape[1:]))
        return f_values.view(len(changed), *variable.shape).movedim(0, -1)
