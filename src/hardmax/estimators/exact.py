"""The exact gradient by enumeration, and local expectation gradients, which are exact in one variable at a time."""

import warnings
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.estimators._single_changes import evaluate_chosen_changes, evaluate_single_changes
from hardmax.estimators.abstract import AbstractEstimator, attach_gradient, mean_over_samples
from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.types import Estimate
from hardmax.validation import check_positive


@final
@dataclass(frozen=True)
class Exact(AbstractEstimator):
    r"""The exact expectation and its exact gradient, computed by enumerating every z of the space.

    $$ \mathbb{E}[f] = \sum_z q(z) \, f(z), \qquad \nabla \mathbb{E}[f] = \sum_z q(z) \, \nabla \log q(z) \, f(z) $$

    This is eq. 2 of the paper. The samples in `Estimate.z` are for inspection only; the value does not depend on them.

    Bias and variance: none. Cost: one evaluation of f for every z of the space; K in one call where f has `table`.

    Raises:
        NotExactError: the space has too many members to enumerate.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(2, requires_grad=True)
        >>> out = hm.expectation(lambda z: z[..., 0], scores, hm.Categorical(2), hm.Exact())
        >>> out.value.backward()
        >>> scores.grad
        tensor([ 0.2500, -0.2500])

    References:
        Lorberbom et al., "Direct optimization through arg max for discrete variational auto-encoder", 2019.
    """

    needs = ("enumerate",)
    only_draws = True

    def check(self, space: AbstractSpace, samples: int) -> None:
        """Refuse spaces that are too large to enumerate."""
        super().check(space, samples)
        space.check_enumerable()

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Sum over the space."""
        draw = space.draw if space.offers("draw") else lambda h, g: space.argmax(space.perturb(h, g))
        z = draw(scores.detach(), noise)
        value = (space.log_probs(scores).exp() * f.table()).sum(-1)
        return Estimate(value, z, f.evaluations, solves=float(len(noise)))


@final
@dataclass(frozen=True)
class Roulette:
    r"""Russian roulette: evaluate only a random part of the variables, mostly those that are uncertain under q.

    The single changes of a variable are evaluated with probability `p = clamp(rate * uncertainty, floor, 1)`, and its
    gradient is weighted by $1/p$. A variable that is nearly certain under q has a small gradient, and is rarely worth
    an evaluation of f.

    Args:
        rate: how fast p grows with the uncertainty, $q (1 - q)$ of a bit (for k values: $\sum_{c < d} q_c q_d$ over
            pairs).
        floor: smallest probability, in (0, 1]; bounds the weights.

    Raises:
        ArgumentError: rate <= 0, or floor outside (0, 1].

    Example:
        >>> import torch, hardmax as hm
        >>> hm.Roulette().probability(hm.Binary(3).uncertainty(torch.tensor([0.0, 4.0, 20.0])))
        tensor([1.0000, 0.3533, 0.0500])
    """

    rate: float = 20.0
    floor: float = 0.05

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        if not 0 < self.floor <= 1:
            raise ArgumentError(f"floor must be in (0, 1], got {self.floor}")

    def probability(self, uncertainty: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return p of every variable from its uncertainty, a tensor of any shape."""
        return (self.rate * uncertainty).clamp(self.floor, 1.0)


@final
@dataclass(frozen=True)
class LocalExpectation(AbstractEstimator):
    r"""Local expectation gradients: sum out each variable exactly, with the other variables held at a sample.

    For variable i with values c, and $f_{ic} = f(z \text{ with } z_i = c)$,

    $$ \mathrm{gradient}_{ic} = q_{ic} \Big(f_{ic} - \sum_d q_{id} f_{id}\Big), $$

    and for a bit, $q_i (1 - q_i) \, (f(z_i = 1) - f(z_i = 0))$.

    With `roulette` the single changes of a variable are evaluated with a probability that increases with its
    uncertainty, and weighted by the inverse (`Roulette`). That saves evaluations only if f has `rows`. Without `rows`,
    all changes are evaluated, with a warning, and the result is the same as with `rows`.

    Bias: none, also with roulette. Variance: the lowest that we have measured for a factorised q at this cost; none for
    one variable. Cost: K evaluations of f for one categorical (where roulette is not used); otherwise 1 + (number of
    single changes) per sample, with roulette and `f.rows` two to five times fewer.

    Args:
        roulette: False, True for the default `Roulette()`, or a `Roulette`.

    Raises:
        NotExactError: the space's variables are not independent.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(4, 6, requires_grad=True)
        >>> out = hm.expectation(lambda z: z.prod(-1), scores, hm.Binary(6), hm.LocalExpectation())
        >>> out.value.sum().backward()
        >>> out.evaluations
        7.0

    References:
        Titsias & Lazaro-Gredilla, "Local expectation gradients for black box variational inference", 2015.
        Roulette is ours.
    """

    roulette: bool | Roulette = False

    needs = ("draw", "marginals", "change", "parts")
    independent = True

    @property
    def only_draws(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """False with roulette, which chooses variables by the rest of the noise."""
        return not self.roulette

    def estimate(
        self, f: Evaluator, scores: Float[Tensor, "..."], space: AbstractSpace, noise: Float[Tensor, "S ..."]
    ) -> Estimate:
        """Draw z and sum each variable out around it."""
        assert isinstance(space, AbstractFactorised)  # check() refuses all other spaces
        z = space.draw(scores.detach(), noise)
        if self.roulette and space.variables > 1:
            values, parts = self._evaluate_with_roulette(f, scores.detach(), space, noise, z)
        else:
            values, parts = evaluate_single_changes(f, space, z)
        # The gradient of <marginals, parts> with parts held fixed is q_ic (f_ic - sum_c' q_ic' f_ic').
        surrogate = space.dot(space.marginals(scores), parts)
        surrogate = surrogate if surrogate.dim() < values.dim() else surrogate.mean(0)
        return Estimate(
            attach_gradient(mean_over_samples(values), surrogate), z, f.evaluations, solves=float(len(noise))
        )

    def _evaluate_with_roulette(
        self, f: Evaluator, scores: Tensor, space: AbstractFactorised, noise: Tensor, z: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return as `evaluate_single_changes`, with weighted parts: 1/p for chosen variables, zero for the rest."""
        roulette = self.roulette if isinstance(self.roulette, Roulette) else Roulette()
        probability = roulette.probability(space.uncertainty(scores))
        is_chosen = space.leftover(scores, noise, z) < probability
        if (f.has_rows or f.has_changes) and can_read_values():
            values, parts = evaluate_chosen_changes(f, space, z, is_chosen)
        else:  # without rows; or while compiling or under vmap, where it is unknown which variables are chosen
            if can_read_values():
                warnings.warn(
                    "roulette saves no evaluation because f has no rows(z, index) method: add one, or drop roulette",
                    stacklevel=4,
                )
            values, parts = evaluate_single_changes(f, space, z)
        return values, torch.where(is_chosen, parts / probability, 0.0)
