"""Time to find the best bits for pairwise scores, compared with common libraries: 100 hard instances, one thread.

Hard means balanced: unary scores are shifted so that neither all zeros nor all ones is a trivial best z. Couplings of
any sign are those of an encoder early in training, N(0, 0.3), with logistic noise on the unary scores. OR-tools and
scipy solve one example after the other and take integer capacities; the time includes building their networks,
vectorised over the batch. CP-SAT and CPLEX solve a few examples, and their time is scaled to 100.
"""

import math
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor
from torch.nn.functional import softplus

from benchmarks.timing import measure_medians
from hardmax.random import draw_logistic
from hardmax.solvers import pairwise_argmax, solve_pairwise
from hardmax.solvers.max_flow import compute_fields

BATCH = 100
FASTER_THAN_ORTOOLS = 5.0  # for dense n <= 50
FASTER_THAN_CPLEX = 50.0  # for n = 15
# The first version of these solvers, ms per batch on the reference machine: only for orientation, machines differ.
SKETCH = {15: 0.39, 30: 1.5, 50: 3.6, 100: 10.9}
SKETCH_OF_ANY_SIGN = {15: 0.95, 20: 1.8, 30: 17.0}

Instance = tuple[Tensor, Tensor, Tensor]


def list_complete_edges(n: int) -> Tensor:
    return torch.triu_indices(n, n, 1).T.contiguous()


def list_grid_edges(side: int) -> Tensor:
    index = torch.arange(side**2).view(side, side)
    across = torch.stack([index[:, :-1].flatten(), index[:, 1:].flatten()], 1)
    down = torch.stack([index[:-1].flatten(), index[1:].flatten()], 1)
    return torch.cat([across, down])


def make_instance(n: int, edges: Tensor, *, supermodular: bool, batch: int = BATCH, spread: float = 1.0) -> Instance:
    generator = torch.Generator().manual_seed(n)
    unary = torch.randn(batch, n, generator=generator) + draw_logistic((batch, n), generator=generator)
    couplings = 0.3 * torch.randn(batch, len(edges), generator=generator)
    if supermodular:
        couplings = softplus(couplings)
        half = couplings / 2
        shift = torch.zeros_like(unary).index_add(1, edges[:, 0], half).index_add(1, edges[:, 1], half)
        unary = spread * unary - shift
    return unary, couplings, edges


def solve_with_scipy(unary: Tensor, couplings: Tensor, edges: Tensor) -> list[int]:
    n = unary.shape[1]
    left, right = edges.numpy().T
    nodes = np.arange(n)
    rows = np.concatenate([left, right, np.full(n, n), nodes])
    columns = np.concatenate([right, left, nodes, np.full(n, n + 1)])
    field, half = compute_fields(unary.double(), couplings.double(), edges), couplings.double().numpy() / 2
    capacities = np.concatenate([half, half, field.clip(min=0), (-field).clip(min=0)], 1)
    capacities = np.rint(capacities * (2**24 / np.abs(field).sum(1, keepdims=True))).astype(np.int32)
    networks = (csr_array((capacity, (rows, columns)), shape=(n + 2, n + 2)) for capacity in capacities)
    return [maximum_flow(network, n, n + 1).flow_value for network in networks]


def solve_with_cp_sat(unary: Tensor, couplings: Tensor, edges: Tensor) -> list[float]:
    from ortools.sat.python import cp_model

    values = []
    for a, w in zip(unary.double().tolist(), couplings.double().tolist(), strict=True):
        model = cp_model.CpModel()
        z = [model.new_bool_var("") for _ in a]
        terms = [round(1e6 * score) * bit for score, bit in zip(a, z, strict=True)]
        for score, (i, j) in zip(w, edges.tolist(), strict=True):
            both = model.new_bool_var("")
            if score > 0:
                model.add_implication(both, z[i])
                model.add_implication(both, z[j])
            else:
                model.add_bool_or(both, ~z[i], ~z[j])
            terms.append(round(1e6 * score) * both)
        model.maximize(sum(terms))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.solve(model)
        values.append(solver.objective_value / 1e6)
    return values


def solve_with_cplex(unary: Tensor, couplings: Tensor, edges: Tensor) -> list[float]:
    import cplex as library  # pyright: ignore[reportMissingImports]

    values = []
    n = unary.shape[1]
    for a, w in zip(unary.double().tolist(), couplings.double().tolist(), strict=True):
        model = library.Cplex()
        model.set_log_stream(None)
        model.set_results_stream(None)
        model.set_warning_stream(None)
        model.parameters.threads.set(1)
        model.objective.set_sense(model.objective.sense.maximize)
        model.variables.add(obj=a, types=["B"] * n)
        model.objective.set_quadratic_coefficients(
            [(int(i), int(j), score) for (i, j), score in zip(edges.tolist(), w, strict=True)]
        )
        model.solve()
        values.append(model.solution.get_objective_value())
    return values


def make_solver(problem: Instance, *, supermodular: bool, solver: str = "auto") -> Callable[[], Tensor]:
    return lambda: pairwise_argmax(*problem, supermodular, solver)


def take_examples(problem: Instance, count: int) -> Instance:
    return problem[0][:count], problem[1][:count], problem[2]


def format_cell(seconds: float | None, width: int = 12) -> str:
    return f"{seconds * 1e3:{width}.2f}" if seconds is not None else f"{'':>{width}}"


def print_supermodular_table() -> bool:
    print(f"supermodular, complete graph: ms per batch of {BATCH} (limit: OR-tools / ours >= 5 for n <= 50)")
    print(
        f"{'n':>5}{'min-cut':>12}{'OR-tools':>12}{'scipy':>12}{'enumeration':>12}{'torch flow':>12}"
        f"{'OR-tools/ours':>15}{'scipy/ours':>12}{'(sketch)':>10}"
    )
    within = True
    for n in (15, 30, 50, 100):
        problem = make_instance(n, list_complete_edges(n), supermodular=True, spread=math.sqrt(n) / 2)
        functions = {
            "ours": make_solver(problem, supermodular=True),
            "ortools": make_solver(problem, supermodular=True, solver="max-flow"),
            "scipy": lambda problem=problem: solve_with_scipy(*problem),
            "torch": make_solver(problem, supermodular=True, solver="push-relabel"),
        }
        if n == 15:
            functions["enumeration"] = make_solver(problem, supermodular=True, solver="enumeration")
        times = measure_medians(functions, rounds=20 if n < 50 else 7, warm_up=1)
        ratio = times["ortools"] / times["ours"]
        within &= n > 50 or ratio >= FASTER_THAN_ORTOOLS
        cells = "".join(format_cell(times.get(name)) for name in ("ours", "ortools", "scipy", "enumeration", "torch"))
        print(f"{n:5}{cells}{ratio:15.1f}{times['scipy'] / times['ours']:12.1f}{SKETCH[n]:10.2f}")
    return within


def print_any_sign_table() -> bool:
    print(f"\nany sign, N(0, 0.3), complete graph: ms per batch of {BATCH}")
    print(
        f"{'n':>5}{'b. & bound':>12}{'enumeration':>12}{'CP-SAT':>12}{'CPLEX':>12}"
        f"{'enum./ours':>12}{'CP-SAT/ours':>13}{'CPLEX/ours':>12}{'(sketch)':>10}"
    )
    within = True
    for n in (15, 20, 30, 40):
        problem = make_instance(n, list_complete_edges(n), supermodular=False)
        functions = {"ours": make_solver(problem, supermodular=False)}
        scaled = {}
        if n <= 20:
            functions["enumeration"] = make_solver(problem, supermodular=False, solver="enumeration")
        if n == 15:
            functions["cp-sat"] = lambda problem=problem: solve_with_cp_sat(*take_examples(problem, 5))
            scaled["cp-sat"] = BATCH / 5
        if find_spec("cplex") is not None:
            functions["cplex"] = lambda problem=problem: solve_with_cplex(*take_examples(problem, 20))
            scaled["cplex"] = BATCH / 20
        times = measure_medians(functions, rounds=20 if n == 15 else 5, warm_up=1)
        times = {name: seconds * scaled.get(name, 1) for name, seconds in times.items()}
        ratios = {name: seconds / times["ours"] for name, seconds in times.items()}
        within &= ratios.get("enumeration", math.inf) > 1
        within &= n > 15 or ratios.get("cplex", math.inf) >= FASTER_THAN_CPLEX
        cells = "".join(format_cell(times.get(name)) for name in ("ours", "enumeration", "cp-sat", "cplex"))
        over = "".join(
            f"{ratios[name]:{width}.0f}" if name in ratios else f"{'':>{width}}"
            for name, width in (("enumeration", 12), ("cp-sat", 13), ("cplex", 12))
        )
        print(f"{n:5}{cells}{over}{SKETCH_OF_ANY_SIGN.get(n, ''):>10}")
    return within


def print_grid_table() -> bool:
    print("\nsupermodular grids, 4 neighbours: ms per 100 (limit: not slower than OR-tools)")
    print(f"{'nodes':>7}{'min-cut':>12}{'OR-tools':>12}{'scipy':>12}{'OR-tools/ours':>15}")
    within = True
    for side, batch in ((30, 20), (100, 5)):
        problem = make_instance(side**2, list_grid_edges(side), supermodular=True, batch=batch)
        functions = {
            "ours": make_solver(problem, supermodular=True),
            "ortools": make_solver(problem, supermodular=True, solver="max-flow"),
            "scipy": lambda problem=problem: solve_with_scipy(*problem),
        }
        times = {name: s * BATCH / batch for name, s in measure_medians(functions, rounds=7, warm_up=1).items()}
        ratio = times["ortools"] / times["ours"]
        within &= ratio >= 1
        cells = "".join(format_cell(times[name]) for name in functions)
        print(f"{side**2:7}{cells}{ratio:15.1f}")
    return within


def print_overhead() -> None:
    problem = make_instance(15, list_complete_edges(15), supermodular=False)
    few = take_examples(problem, 1)
    times = measure_medians({"one": make_solver(few, supermodular=False), "start": lambda: None}, rounds=500)
    print(f"\na call of pairwise_argmax with one example of 15 bits: {times['one'] * 1e6:.0f} us")
    solutions = {name: solve_pairwise(*problem, supermodular=False, solver=name) for name in ("auto", "heuristic")}
    missed = (solutions["heuristic"].value < solutions["auto"].value - 1e-9).sum()
    print(f"the heuristic misses the best z in {missed} of {BATCH} of these instances")


def main() -> bool:
    """Print the tables; return whether the limits hold."""
    results = [print_supermodular_table(), print_any_sign_table(), print_grid_table()]
    print_overhead()
    return all(results)
