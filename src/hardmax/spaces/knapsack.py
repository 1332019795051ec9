"""Space of sets of items whose weights fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.solvers.decision_diagram import DecisionDiagram
from hardmax.solvers.knapsack import NODE_LIMIT, Constraints, knapsack_argmax, prepare_constraints, solve_knapsack
from hardmax.solvers.solution import Solution
from hardmax.spaces._knapsack_sums import draw_members, limit_range, sum_members
from hardmax.spaces.abstract import AbstractSpace, prepare_scores, widen_dtype
from hardmax.spaces.perturbation import Perturbation

Weights = Sequence[float] | Sequence[Sequence[float]] | NDArray[np.generic] | Tensor
Capacity = float | Sequence[float] | NDArray[np.generic] | Tensor

_SUMMING_METHODS = ("draw", "log_prob", "entropy", "kl", "marginals", "relax", "enumerate")


@final
@dataclass(frozen=True)
class Knapsack(AbstractSpace):
    r"""Sets of items whose weights fit; z is `[*B, n]`, zeros and ones, with one score per item, `[*B, n]`.

    $$ q(z) = \exp\Big(\sum_i \mathrm{scores}_i \, z_i\Big) / Z \qquad \text{over all } z \text{ with }
       \mathrm{weights} \cdot z \le \mathrm{capacity} $$

    With several constraints (rows of weights, one capacity each), z satisfies all of them.

    Everything is exact. The sets that fit are the paths of a decision diagram, in which sets that leave room for the
    same items are merged. The arg max, Z, marginals and samples (`draw`) are dynamic programs on it, as long as it has
    at most $2^{22}$ nodes. Weights of few digits need few nodes: at most n times the capacity, counted in units of the
    last digit, for one constraint, and often much fewer; 32 items with two constraints, weights of 3.00 to 8.00 and
    capacities of 20.00 need 1,700. Beyond, only the arg max is offered, by branch and bound (scipy's HiGHS without
    Numba); if it cannot be proved within a limit, `argmax` raises `NotExactError`, and `solve` returns the best z so
    far with the remaining gap.

    The arg max contains no item that adds nothing, such as one of score zero. Perturb-and-MAP, the best set for
    perturbed scores, is another distribution than q; `perturbation` is its noise.

    There are no single changes: adding an item may need the removal of others, so a set may have no neighbour by one
    addition or swap. Use estimators that need none, such as `GibbsCovariance`, or `Direct(full=True)`.

    Args:
        weights: n numbers of at least zero, or d rows of n, one for each constraint. A number is what it prints as:
            0.1 and 0.2 fit into 0.3.
        capacity: a number, or d numbers.
        perturbation: the noise of perturb-and-MAP.

    Raises:
        ArgumentError: no weights, rows of different lengths, or another number of capacities than rows; a weight or a
            capacity that is negative or not finite; an item that is heavier than a capacity.

    Example:
        >>> import torch, hardmax as hm
        >>> space = hm.Knapsack([2, 3, 4], 6)
        >>> space.argmax(torch.tensor([3.0, 4.0, 5.0]))
        tensor([1., 0., 1.])
        >>> space.size, space.enumerate().int().tolist()
        (6, [[1, 1, 0], [1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]])
        >>> space.marginals(torch.zeros(3))
        tensor([0.5000, 0.3333, 0.3333])
        >>> two = hm.Knapsack([[2, 3, 4], [1.5, 0.5, 0.5]], [7, 1.5])
        >>> best = two.solve(torch.tensor([3.0, 4.0, 5.0]))
        >>> best.z, best.value.item(), best.is_exact
        (tensor([0., 1., 1.]), 9.0, True)

    References:
        Martello & Toth, "Knapsack problems", 1990. Decision diagrams: Bergman, Cire, van Hoeve & Hooker, "Decision
        diagrams for optimization", 2016.
    """

    weights: Weights  # pyright: ignore[reportIncompatibleMethodOverride]  # always tuples after construction
    capacity: Capacity
    perturbation: Perturbation = field(default=Perturbation(), kw_only=True)
    _constraints: Constraints = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        weights, capacity = _list_numbers(self.weights), _list_numbers(self.capacity)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "capacity", capacity)
        rows, capacities = _check_constraints(weights, capacity)
        # Now, and not when first used: torch.compile cannot trace it.
        object.__setattr__(self, "_constraints", prepare_constraints(rows, capacities))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Knapsack, perturbation=self.perturbation), (self.weights, self.capacity)

    def __repr__(self) -> str:
        rows = len(self._rows)
        return f"Knapsack(n={self.n}{f', constraints={rows}' if rows > 1 else ''})"

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self._rows[0])

    @property
    def _rows(self) -> tuple[tuple[float, ...], ...]:
        weights: Any = self.weights
        return weights if isinstance(weights[0], tuple) else (weights,)

    @property
    def score_shape(self) -> tuple[int, ...]:
        """`[n]`."""
        return (self.n,)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """`[n]`."""
        return (self.n,)

    @property
    def size(self) -> int:
        """Number of sets that fit, counted; raises `NotExactError` if there is no decision diagram."""
        return self._diagram.size

    @property
    def has_constant_sum(self) -> bool:
        """False: sets have different numbers of items."""
        return False

    @cached_property
    def chosen_solver(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Name of the solver of the arg max."""
        return self._constraints.chosen_solver

    def offers(self, name: str) -> bool:
        """Return whether this space has a method; those that sum over sets need the decision diagram."""
        return super().offers(name) and (self._constraints.diagram is not None or name not in _SUMMING_METHODS)

    # ------------------------------------------------------------------------------- arg max and perturb-and-MAP
    def argmax(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B {self.n}"]:
        """Return the best set, proved optimal, without items that add nothing."""
        self.batch_shape(scores)
        return knapsack_argmax(scores, self._constraints)

    def solve(self, scores: Float[Tensor, "*B {self.n}"], *, node_limit: int = NODE_LIMIT) -> Solution:
        """Return the best set that the solver finds, with an upper bound of the score of any set."""
        self.batch_shape(scores)
        return solve_knapsack(scores, self._constraints, node_limit=node_limit)

    def statistics(self, z: Float[Tensor, "*L {self.n}"]) -> Float[Tensor, "*L {self.n}"]:
        """Return z."""
        return z

    # ------------------------------------------------------------------------------- the Gibbs distribution
    def _sum(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return limited scores, their difference to the scores, log Z of the limited scores, and the marginals.

        With limited scores s' = s - shift, `log q(z) = <s', z> - log Z' + <shift, z - marginals>`: the number of items
        of the largest score, the only ones with a shift that are ever chosen, is the same in all z that count.
        """
        self.batch_shape(scores)
        limited, shift = limit_range(prepare_scores(scores))
        return limited, shift, *sum_members(self._diagram, limited)

    def log_partition(self, scores: Float[Tensor, "*B {self.n}"]) -> Float[Tensor, "*B"]:
        r"""Return $\log Z$: `[*B, n] -> [*B]`, differentiable; its gradient is `marginals`."""
        _, shift, log_z, marginals = self._sum(scores)
        return (log_z + self.dot(shift, marginals.detach())).to(scores.dtype)

    def marginals(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the probability of each item."""
        return self._sum(scores)[3].to(scores.dtype)

    def log_prob(self, scores: Float[Tensor, "..."], z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\langle \mathrm{scores}, z \rangle - \log Z$."""
        limited, shift, log_z, marginals = self._sum(scores)
        z = z.to(limited.dtype)
        return (self.dot(limited, z) - log_z + self.dot(shift, z - marginals.detach())).to(scores.dtype)

    def entropy(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        r"""Return $\log Z - \langle \mathrm{scores}, \mathrm{marginals} \rangle$, in nats."""
        limited, _, log_z, marginals = self._sum(scores)
        return (log_z - self.dot(limited, marginals)).to(scores.dtype)

    def kl(self, scores: Float[Tensor, "..."], prior: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
        r"""Return $\mathrm{KL}(q \,\|\, p)$; p is given by its scores, or uniform over the sets that fit."""
        limited, _, log_z, marginals = self._sum(scores)
        minus_entropy = self.dot(limited, marginals) - log_z
        if prior is None:
            return (minus_entropy + self.log_size).to(scores.dtype)
        of_prior, shift, log_z, means = self._sum(prior)
        cross = log_z - self.dot(of_prior, marginals) + self.dot(shift, means.detach() - marginals)
        return (minus_entropy + cross).to(scores.dtype)

    def draw(
        self, scores: Float[Tensor, "*B {self.n}"], noise: Float[Tensor, "*SB {self.n}"]
    ) -> Float[Tensor, "*SB {self.n}"]:
        """Take each item with its probability given the earlier ones, if its noise is below that quantile."""
        self.batch_shape(scores)
        limited, _ = limit_range(prepare_scores(scores.detach()))
        log_uniform = self.perturbation.log_cdf(widen_dtype(noise.detach()))
        return draw_members(self._diagram, limited, log_uniform).to(scores.dtype)

    def relax(self, scores: Float[Tensor, "*L {self.n}"], tau: float) -> Float[Tensor, "*L {self.n}"]:
        """Return the marginals of `scores / tau`: between zero and one, and the weights of their sum fit."""
        return self.marginals(widen_dtype(scores) / tau).to(scores.dtype)

    def enumerate(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "M {self.n}"]:
        """Return all sets that fit; those with the first items come first."""
        self.check_enumerable()
        return self._diagram.list_members(device).to(dtype or torch.get_default_dtype())

    @property
    def _diagram(self) -> DecisionDiagram:
        diagram = self._constraints.diagram
        if diagram is None:
            raise NotExactError(
                f"{self} has too many different sums of weights, so it offers the arg max and no sums over all sets "
                f"(size, log_prob, entropy, kl, marginals, draw, relax, enumerate); use PerturbedOptimizer() or "
                f"ImplicitMLE(), which need only the arg max, or weights with fewer digits"
            )
        return diagram


def _list_numbers(values: object) -> Any:
    """Return a number, a tuple of numbers or a tuple of tuples; integers where floats are integers."""
    if hasattr(values, "tolist"):  # a tensor or an array
        values = values.tolist()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(values, Sequence) and not isinstance(values, str):
        return tuple(_list_numbers(value) for value in values)
    try:
        number = float(values)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise ArgumentError(f"weights and capacities of Knapsack are numbers, got {values!r}") from None
    return int(number) if number.is_integer() else number


def _check_constraints(weights: Any, capacity: Any) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Return the rows of weights and their capacities, or raise `ArgumentError`."""
    is_single = not isinstance(capacity, tuple)
    rows, capacities = ((weights,), (capacity,)) if is_single else (weights, capacity)
    if not isinstance(rows, tuple) or not all(isinstance(row, tuple) for row in rows) or len(rows) != len(capacities):
        expected = "n numbers" if is_single else f"{len(capacities)} rows of n numbers, one for each capacity"
        raise ArgumentError(
            f"Knapsack with capacity={capacity} needs weights of {expected}, got {_describe(weights)}; pass one row of "
            f"weights and one capacity for each constraint"
        )
    if any(isinstance(value, tuple) for value in (*capacities, *(weight for row in rows for weight in row))):
        raise ArgumentError(
            f"Knapsack takes n weights and a capacity, or d rows of n weights and d capacities; got weights of "
            f"{_describe(weights)} and a capacity of {_describe(capacity)}"
        )
    lengths = [len(row) for row in rows]
    if not lengths or min(lengths) == 0:
        raise ArgumentError("Knapsack needs at least one item, got no weights")
    if len(set(lengths)) > 1:
        raise ArgumentError(f"every constraint of Knapsack has a weight for every item, got rows of {lengths} weights")
    for k, (row, limit) in enumerate(zip(rows, capacities, strict=True)):
        where = "" if is_single else f" of constraint {k}"
        for name, value in (("capacity", limit), *((f"weight {i}", weight) for i, weight in enumerate(row))):
            if not (math.isfinite(value) and value >= 0):
                raise ArgumentError(
                    f"weights and capacities must be finite and at least zero, got {value} for {name}{where}"
                )
        if heavy := {i: weight for i, weight in enumerate(row) if weight > limit}:
            raise ArgumentError(
                f"items {', '.join(map(str, heavy))} can never be chosen: their weights{where} are "
                f"{', '.join(map(str, heavy.values()))} and the capacity is {limit}; check the units, or remove these "
                f"items"
            )
    return rows, capacities


def _describe(values: Any) -> str:
    """Return the shape of nested tuples, for errors."""
    if not isinstance(values, tuple):
        return "one number"
    return f"{len(values)} rows" if values and isinstance(values[0], tuple) else f"{len(values)} numbers"
