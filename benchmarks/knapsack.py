"""Time to solve knapsacks, compared with scipy's HiGHS and OR-tools: 32 items, 1 to 3 constraints, one thread.

Weights of 3.00 to 7.99 and capacities of 20 are those of PyEPO's benchmark. HiGHS, CP-SAT and the knapsack solver of
OR-tools solve a few examples, one after the other, and their time is scaled; it includes building their models. The
last two take integers, so scores are multiplied by 10,000.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import measure_medians
from hardmax.solvers.knapsack import Constraints, prepare_constraints, solve_knapsack
from hardmax.spaces import Knapsack

ITEMS = 32
CAPACITY = 20
FEW = 4  # examples of the slow solvers
FASTER_THAN_OTHERS = 10.0


def draw_weights(constraints: int) -> np.ndarray:
    return np.random.RandomState(135).choice(range(300, 800), size=(constraints, ITEMS)) / 100


def draw_scores(batch: int) -> Tensor:
    """Return values of items as PyEPO generates them: positive, between 1 and 10 or so."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, ITEMS, generator=generator, dtype=torch.float64) / 3 + 1).abs() * 5


def solve_with_cp_sat(scores: Tensor, weights: np.ndarray) -> list[float]:
    from ortools.sat.python import cp_model

    values, rows = [], np.rint(100 * weights).astype(int).tolist()
    for profits in (1e4 * scores).round().long().tolist():
        model = cp_model.CpModel()
        z = [model.new_bool_var("") for _ in profits]
        for row in rows:
            model.add(sum(weight * bit for weight, bit in zip(row, z, strict=True)) <= 100 * CAPACITY)
        model.maximize(sum(profit * bit for profit, bit in zip(profits, z, strict=True)))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.solve(model)
        values.append(solver.objective_value / 1e4)
    return values


def solve_with_ortools(scores: Tensor, weights: np.ndarray) -> list[float]:
    from ortools.algorithms.python import knapsack_solver

    kind = knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    values, rows = [], np.rint(100 * weights).astype(int).tolist()
    for profits in (1e4 * scores).round().long().tolist():
        solver = knapsack_solver.KnapsackSolver(kind, "")
        solver.init(profits, rows, [100 * CAPACITY] * len(rows))
        values.append(solver.solve() / 1e4)
    return values


def main() -> bool:
    """Print the table; return whether the limit holds."""
    print(f"knapsacks of {ITEMS} items: us per solve (limit: every other library / ours >= {FASTER_THAN_OTHERS:g})")
    print(
        f"{'d':>3}{'batch':>7}{'nodes':>7}{'ours':>8}{'b. & bound':>12}{'marginals':>11}{'OR-tools':>10}{'HiGHS':>10}"
        f"{'CP-SAT':>10}{'OR-tools/ours':>15}{'HiGHS/ours':>12}{'CP-SAT/ours':>13}"
    )
    within = True
    for d in (1, 2, 3):
        weights = draw_weights(d)
        space = Knapsack(weights, [CAPACITY] * d)
        constraints = prepare_constraints(tuple(map(tuple, weights.tolist())), (CAPACITY,) * d)
        assert constraints.diagram is not None
        for batch in (32, 1000):
            within &= print_row(space, constraints, weights, draw_scores(batch))
    return within


def print_row(space: Knapsack, constraints: Constraints, weights: np.ndarray, scores: Tensor) -> bool:
    few = scores[:FEW]
    repeats = 1 + 1000 // len(scores)  # a small batch several times: the other solvers leave cold caches

    def repeat(function: Callable[[], object]) -> Callable[[], object]:
        return lambda: [function() for _ in range(repeats)]

    functions = {
        "ours": repeat(lambda: space.argmax(scores)),
        "branch": repeat(lambda: solve_knapsack(scores, constraints, solver="branch-and-bound")),
        "marginals": repeat(lambda: space.marginals(scores)),
        "ortools": lambda: solve_with_ortools(few, weights),
        "milp": lambda: solve_knapsack(few, constraints, solver="milp"),
        "cp-sat": lambda: solve_with_cp_sat(few, weights),
    }
    best = space.solve(few).value
    for name in ("ortools", "cp-sat"):
        torch.testing.assert_close(torch.tensor(functions[name](), dtype=torch.float64), best, atol=1e-2, rtol=0)
    times = measure_medians(functions, rounds=7, warm_up=1)
    per_solve = {
        name: 1e6 * seconds / (FEW if name in ("ortools", "milp", "cp-sat") else repeats * len(scores))
        for name, seconds in times.items()
    }
    ratios = {name: per_solve[name] / per_solve["ours"] for name in ("ortools", "milp", "cp-sat")}
    nodes = constraints.diagram.nodes if constraints.diagram is not None else 0
    print(
        f"{len(weights):3}{len(scores):7}{nodes:7}{per_solve['ours']:8.2f}{per_solve['branch']:12.1f}"
        f"{per_solve['marginals']:11.1f}{per_solve['ortools']:10.0f}{per_solve['milp']:10.0f}{per_solve['cp-sat']:10.0f}"
        f"{ratios['ortools']:15.0f}{ratios['milp']:12.0f}{ratios['cp-sat']:13.0f}"
    )
    return min(ratios.values()) >= FASTER_THAN_OTHERS
