"""Knapsack problem: the set of items with the largest sum of scores whose weights fit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NoReturn, get_args

import numpy as np
import torch
from torch import Tensor

from hardmax.errors import ArgumentError, NotExactError
from hardmax.solvers.decision_diagram import DecisionDiagram, build_diagram
from hardmax.solvers.solution import ROUNDING, Solution, note_solver
from hardmax.tracing import can_run_compiled, has_numba, is_eager

Solver = Literal["dynamic-programming", "branch-and-bound", "milp"]
NODE_LIMIT = 1_000_000  # of branch and bound; about a second
TOLERANCE = 1e-12  # of a capacity, for weights with too many digits for integers
_LARGEST_INTEGER = 2**53  # beyond, float64 skips integers


@dataclass(frozen=True, eq=False)
class Constraints:
    """The constraints of a knapsack, in integers where weights are decimal numbers of few digits.

    Attributes:
        weights: `[d, n]`, float64. Constraints that every set satisfies are left out.
        capacities: `[d]`, float64.
        diagram: all sets that fit, or None if there are too many different ones.
    """

    weights: Tensor
    capacities: Tensor
    diagram: DecisionDiagram | None

    @property
    def chosen_solver(self) -> Solver:
        """The fastest exact solver that is installed."""
        if self.diagram is not None:
            return "dynamic-programming"
        return "branch-and-bound" if has_numba() else "milp"


@lru_cache(maxsize=64)
def prepare_constraints(weights: tuple[tuple[float, ...], ...], capacities: tuple[float, ...]) -> Constraints:
    """Scale the weights to integers and build the decision diagram.

    A float stands for the shortest decimal number that it is the nearest float of, as it is printed: `0.1 + 0.2 <= 0.3`
    holds. Weights whose integers would exceed 2^53 remain floats, and their sum may exceed the capacity by
    1e-12 of it, for rounding.

    Args:
        weights: d rows of n finite numbers of at least zero.
        capacities: d numbers, none below a weight of its row.

    Example:
        >>> constraints = prepare_constraints(((0.1, 0.2, 0.4),), (0.3,))
        >>> constraints.weights.tolist(), constraints.capacities.tolist()
        ([[1.0, 2.0, 4.0]], [3.0])
        >>> constraints.diagram.list_members().int().tolist()
        [[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    """
    scaled = [_scale_to_integers(row, capacity) for row, capacity in zip(weights, capacities, strict=True)]
    scaled = [(row, capacity) for row, capacity in scaled if sum(row) > capacity] or [([0] * len(weights[0]), 0)]
    dtype = np.int64 if all(isinstance(capacity, int) for _, capacity in scaled) else np.float64
    rows = np.array([row for row, _ in scaled], dtype)
    limits = np.array([capacity for _, capacity in scaled], dtype)
    diagram = build_diagram(rows, limits)
    return Constraints(torch.from_numpy(rows).double(), torch.from_numpy(limits).double(), diagram)


def _scale_to_integers(weights: tuple[float, ...], capacity: float) -> tuple[Sequence[float], float]:
    """Return an equivalent constraint in integers, or in floats if these are too large."""
    numbers = [Fraction(repr(weight)) for weight in weights]
    factor = Fraction(math.lcm(*(number.denominator for number in numbers)))
    factor /= math.gcd(*(int(number * factor) for number in numbers)) or 1
    integers = [int(number * factor) for number in numbers]
    if sum(integers) < _LARGEST_INTEGER:
        return integers, math.floor(Fraction(repr(capacity)) * factor)
    return [float(weight) for weight in weights], capacity * (1 + TOLERANCE)


def solve_knapsack(
    scores: Tensor, constraints: Constraints, *, solver: Solver | None = None, node_limit: int = NODE_LIMIT
) -> Solution:
    """Return the best set of items that fits, with a certificate.

    | solver | exact | needs |
    |---|---|---|
    | `"dynamic-programming"` | always | `constraints.diagram`; fastest with Numba |
    | `"branch-and-bound"` | within `node_limit` | Numba |
    | `"milp"` | always; one example after the other, by HiGHS in scipy | |

    All compute in float64 on the CPU: a batch from another device is moved once.

    Args:
        scores: `[*B, n]`, the value of each item.
        constraints: what fits.
        solver: None is the first that is possible.
        node_limit: maximal number of nodes of branch and bound, per example.

    Returns:
        A `Solution`; z has the dtype and device of the scores.

    Raises:
        ArgumentError: scores are not finite; an unknown solver.
        NotExactError: dynamic programming without a diagram.
        MissingExtraError: branch and bound without Numba.

    Example:
        >>> import torch
        >>> best = solve_knapsack(torch.tensor([3.0, 4.0, 5.0]), prepare_constraints(((2, 3, 4),), (6,)))
        >>> best.z, best.value.item(), best.is_exact
        (tensor([1., 0., 1.]), 8.0, True)
    """
    flat = _flatten(scores)
    if not flat.isfinite().all():
        raise ArgumentError("scores of a knapsack must be finite, got NaN or inf; look for a diverged encoder")
    solution = _solve(flat, constraints, solver or constraints.chosen_solver, node_limit, give_up=False)
    batch, z = scores.shape[:-1], solution.z.to(scores.device, scores.dtype)
    value, bound = solution.value.reshape(batch), solution.bound.reshape(batch)
    return Solution(z.reshape(scores.shape), value, bound, solution.solver)


def knapsack_argmax(scores: Tensor, constraints: Constraints) -> Tensor:
    """Return only the z of `solve_knapsack`, proved best: for training loops.

    It composes with `torch.compile` and `torch.func`, and has no gradient.

    Raises:
        NotExactError: the best z could not be proved within the limit.
    """
    scores = scores.detach()
    if constraints.diagram is not None:
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        note_solver("dynamic-programming")
        return _run_dynamic_program(wide, constraints.diagram).to(scores.dtype)
    arguments = scores, constraints.weights, constraints.capacities, constraints.chosen_solver
    return _solve_proved(*arguments) if is_eager(scores) else _argmax(*arguments)


# ------------------------------------------------------------------------------- one operator for torch
def _solve_proved(scores: Tensor, weights: Tensor, capacities: Tensor, solver: str) -> Tensor:
    constraints = Constraints(weights, capacities, None)
    solution = _solve(_flatten(scores), constraints, solver, NODE_LIMIT, give_up=True)
    if not solution.is_exact:
        _raise_not_exact(solution, scores.shape[-1])
    return solution.z.to(scores.device, scores.dtype).reshape(scores.shape)


@torch.library.custom_op("hardmax::knapsack_argmax", mutates_args=())
def _argmax(scores: Tensor, weights: Tensor, capacities: Tensor, solver: str) -> Tensor:
    return _solve_proved(scores, weights, capacities, solver)


@_argmax.register_fake
def _(scores, weights, capacities, solver):
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


@_argmax.register_vmap
def _(info, in_dims, scores, weights, capacities, solver):
    return _argmax(scores.movedim(in_dims[0], 0), weights, capacities, solver), 0


# ------------------------------------------------------------------------------- which algorithm
def _flatten(scores: Tensor) -> Tensor:
    return scores.detach().to("cpu", torch.float64).reshape(scores.shape[:-1].numel(), scores.shape[-1])


def _solve(scores: Tensor, constraints: Constraints, solver: str, node_limit: int, give_up: bool) -> Solution:
    """Solve a flat batch in float64 on the CPU."""
    note_solver(solver)
    match solver:
        case "dynamic-programming":
            if constraints.diagram is None:
                raise NotExactError("these weights have too many different sums for dynamic programming")
            z = _run_dynamic_program(scores, constraints.diagram)
            value = (z * scores).sum(-1)
            return Solution(z, value, value, solver)
        case "branch-and-bound":
            from hardmax.solvers.knapsack_branch_and_bound import solve_knapsack_branch_and_bound

            weights, capacities = constraints.weights, constraints.capacities
            return solve_knapsack_branch_and_bound(scores, weights, capacities, node_limit=node_limit, give_up=give_up)
        case "milp":
            return _solve_with_highs(scores, constraints)
        case _:
            raise ArgumentError(f"there is no solver {solver!r}; there are: {', '.join(get_args(Solver))}")


def _run_dynamic_program(scores: Tensor, diagram: DecisionDiagram) -> Tensor:
    """Return the best sets, `[*B, n]`, in the dtype of scores, float32 or float64."""
    if can_run_compiled(scores):
        from hardmax.solvers._compiled_knapsack import find_best_sets

        return find_best_sets(diagram, scores.reshape(scores.shape[:-1].numel(), diagram.items)).view(scores.shape)
    limited, layers = limit_largest(scores.double()), diagram.list_layers(scores.device)
    value, decisions = torch.zeros_like(limited[..., :1]), []
    for item, (skips, takes, fits) in reversed(list(enumerate(layers))):
        without, having = value[..., skips], limited[..., item : item + 1] + value[..., takes]
        decisions.append((having > without) & fits)
        value = torch.where(decisions[-1], having, without)
    node, bits = torch.zeros_like(limited[..., :1], dtype=torch.int64), []
    for (skips, takes, _), decision in zip(layers, reversed(decisions), strict=True):
        bits.append(decision.gather(-1, node))
        node = torch.where(bits[-1], takes[node], skips[node])
    return torch.cat(bits, -1).to(scores.dtype)


def limit_largest(scores: Tensor, margin: float | None = None) -> Tensor:
    """Return scores where the largest exceeds the sum of the smaller positive ones by at most a margin.

    A set with an item of the largest score, or with more of them, is better than any without, by the margin. How much
    larger the score was does not matter, except that it would swallow all other scores. Margin None is the sum itself.
    """
    largest = scores.amax(-1, keepdim=True)
    rest = torch.where(scores < largest, scores, 0.0).clamp_min(0).sum(-1, keepdim=True)
    limit = torch.where(rest > 0, 2 * rest, largest) if margin is None else rest + margin
    return torch.where(scores == largest, scores.minimum(limit), scores)


def _solve_with_highs(scores: Tensor, constraints: Constraints) -> Solution:
    """Solve one example after the other by HiGHS."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # here, since the import is slow

    weights, capacities = constraints.weights.numpy(), constraints.capacities.numpy()
    limits = LinearConstraint(weights / np.maximum(capacities, 1e-300)[:, None], ub=1.0)
    z, gaps = torch.zeros_like(scores), scores.new_zeros(len(scores))
    limited = limit_largest(scores)
    for example, row, gap in zip(limited.numpy(), z.numpy(), gaps.numpy()[:, None], strict=True):
        size = np.abs(example).max(initial=0.0)
        if not size > 0:
            continue
        # HiGHS stops at an absolute gap of 1e-6, so the scores are scaled up to make it small.
        result = milp(
            example * (-1e4 / size), integrality=1, bounds=Bounds(0, example > 0), constraints=limits,
            options={"mip_rel_gap": 0.0},
        )  # fmt: skip
        if result.x is None:
            raise NotExactError(f"HiGHS could not solve a knapsack of {len(example)} items: {result.message}")
        row[:] = np.rint(result.x)
        gap[0] = max(-result.mip_dual_bound * size / 1e4 - row @ example, 0.0)
    value = (z * scores).sum(-1)
    is_open = gaps > 10 * ROUNDING * limited.abs().sum(-1)
    return Solution(z, value, torch.where(is_open, value + gaps, value), "milp")


def _raise_not_exact(solution: Solution, n: int) -> NoReturn:
    tried = solution.gap.isfinite()
    gap = float(solution.gap[tried].max()) if tried.any() else math.inf
    raise NotExactError(
        f"the best set of {n} items was not proved: {solution.solver} stopped at a gap of {gap:.3g}; use "
        f"space.solve(scores, node_limit=...) if a good set is enough or more time is acceptable, or weights with "
        f"fewer digits, which need fewer states"
    )
