"""Averaged direct on short lists of values, for an f that is dear."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators.abstract import AbstractEstimator, carry
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace, Categorical
from hardmax.types import Estimate
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class ShortlistDirect(AbstractEstimator):
    """`AveragedDirect` between the values that are drawn first, for categorical variables of many values.

    The list L of a variable has the `size` largest of scores + Gumbel: samples of q without replacement, z* the first
    of them. With `f_c = f(z* with the variable at c)` and `softmax_L` on the list alone,

        gradient = (softmax_L(scores + epsilon f) - softmax_L(scores)) / epsilon     on L, else 0.

    Of many variables only some need be looked at, others at every call: `variables` of n are chosen at random, and
    their gradients are multiplied by n / variables.

    A value that is unlikely waits until it is drawn; all that f costs is spent on those that may matter. With
    the whole integrand of a bound as f, as `elbo` gives it, the gradient at epsilon = 1 is `p_L(z | x) - q_L(z)`, of
    several variables that of each given the others: zero where q is the posterior, for any list, so the fixed point of
    one variable is the right one.

    Bias: beside that of AveragedDirect, what is on a list is compared with the rest of it alone; none if the list has
    all K values, when this is AveragedDirect. The choice of variables has none. Variance: that of the lists and of the
    choice. Cost: `1 + variables * (size - 1)` evaluations of f per sample instead of `1 + n (K - 1)`, of which z*
    alone has a backward pass.

    Args:
        epsilon: how strongly f perturbs the arg max, > 0.
        size: of a list, at least 2; lists of more than K have K.
        variables: how many are looked at in a call, at least 1; None, or more than there are, is all.

    Raises:
        ArgumentError: epsilon <= 0, a list of fewer than two, or no variable to look at.
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
        """Refuse bits, which have nothing to be left off a list."""
        super().check(space, samples)
        if not isinstance(space, Categorical):
            raise NotExactError(f"{self} is for categorical variables, not for {space}; use AveragedDirect()")

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw the lists, evaluate f on them, and move the probabilities between their members."""
        assert isinstance(space, Categorical)  # check() has told the caller
        samples, rows = len(noise), (*space.batch_shape(scores), space.variables, space.k)
        held = scores.detach()
        perturbed = space.perturb(held, noise).reshape(samples, *rows)
        listed = perturbed.topk(min(self.size, space.k), dim=-1).indices
        each = torch.arange(space.k, device=scores.device)
        z = (listed[..., :1] == each).to(scores.dtype)
        values = f(z.view(noise.shape))
        chosen = self._chosen(held, space, noise, z)
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

    def _chosen(self, scores: Tensor, space: AbstractFactorised, noise: Tensor, z: Tensor) -> Tensor:
        """Return the variables that are looked at, `[S, *B, m]`.

        By what is left of the noise of z*, which is also independent of who comes after z* on its list: Gumbels below
        a top are ordered as if there were none.
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
        found = f(changed.reshape(len(changed) * shape[0], *shape[1:]))
        return found.view(len(changed), *variable.shape).movedim(0, -1)
