"""Train a linear model with PyEPO's losses: a script for a Python that has pyepo and ortools, and not hardmax.

`python training.py PROBLEM.npz RESULTS.npz`: `comparison.py` writes the problem, the names of the losses, the initial
weights and the order of the examples, and reads the final weights and the processor time of each epoch.
"""

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SCALE = 1e9  # profits are rounded to whole numbers, at most this


def make_solver(arrays: Any) -> Any:
    """Return PyEPO's model of the problem, solved by OR-tools.

    PyEPO's own model of the knapsack calls SCIP, which takes 2.7 ms where OR-tools' solver of knapsacks takes 0.1 ms.
    The optimum is the same.
    """
    from ortools.algorithms.python import knapsack_solver  # pyright: ignore[reportMissingImports]
    from pyepo.model.ort import (  # pyright: ignore[reportMissingImports]
        knapsackModel,
        shortestPathModel,
    )

    if "grid" in arrays:
        return shortestPathModel(tuple(arrays["grid"].tolist()))

    kind = knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    weights = (100 * arrays["weights"]).round().astype(int).tolist()
    capacity = (100 * np.broadcast_to(arrays["capacity"], len(weights))).round().astype(int).tolist()

    class FastKnapsack(knapsackModel):
        def setObj(self, c: Any) -> None:
            self.values = np.asarray(c, dtype=float)

        def solve(self) -> tuple[np.ndarray, float]:
            solver = knapsack_solver.KnapsackSolver(kind, "knapsack")
            profits = (self.values.clip(0) * SCALE / max(self.values.max(), 1e-9)).round().astype(int)
            solver.init(profits.tolist(), weights, capacity)
            solver.solve()
            chosen = np.array([solver.best_solution_contains(i) for i in range(len(profits))]) & (profits > 0)
            return chosen.astype(float), float(self.values @ chosen)

    return FastKnapsack(weights=arrays["weights"], capacity=arrays["capacity"])


def make_loss(name: str, solver: Any, arrays: Any) -> Callable[..., Tensor]:
    """Return a loss: a function of predictions, true costs, best decisions and their objectives.

    Losses over a pool of solutions start with the best decisions of the training examples, and solve the examples of
    5 % of the batches, as in PyEPO's own experiments.
    """
    import pyepo.func as pyepo  # pyright: ignore[reportMissingImports]
    from pyepo.data.dataset import optDataset  # pyright: ignore[reportMissingImports]

    absolute, squared = nn.L1Loss(), nn.MSELoss()
    noise = {"n_samples": 3, "sigma": 1.0}
    seeded = {**noise, "seed": int(arrays["seed"])}

    def compare_objectives(decisions: Tensor, costs: Tensor, objective: Tensor) -> Tensor:
        return absolute((decisions * costs).sum(1, keepdim=True), objective)

    def make_pool_loss(kind: Any) -> Any:
        return kind(solver, solve_ratio=0.05, dataset=optDataset(solver, arrays["features"], arrays["costs"]))

    match name:
        case "spo-plus":
            spo = pyepo.SPOPlus(solver)
            return lambda p, c, w, z: spo(p, c, w, z)
        case "fenchel-young":
            fenchel_young = pyepo.perturbedFenchelYoung(solver, **seeded)
            return lambda p, c, w, z: fenchel_young(p, w)
        case "fenchel-young-10":
            fenchel_young = pyepo.perturbedFenchelYoung(solver, **{**seeded, "n_samples": 10})
            return lambda p, c, w, z: fenchel_young(p, w)
        case "implicit-mle":
            imle = pyepo.implicitMLE(solver, lambd=10, **noise)
            return lambda p, c, w, z: absolute(imle(p), w)
        case "adaptive-implicit-mle":
            adaptive = pyepo.adaptiveImplicitMLE(solver, **noise)
            return lambda p, c, w, z: absolute(adaptive(p), w)
        case "blackbox":
            blackbox = pyepo.blackboxOpt(solver, lambd=20)
            return lambda p, c, w, z: compare_objectives(blackbox(p), c, z)
        case "identity":
            identity = pyepo.negativeIdentity(solver)
            return lambda p, c, w, z: compare_objectives(identity(p), c, z)
        case "perturbed":
            perturbed = pyepo.perturbedOpt(solver, **seeded)
            return lambda p, c, w, z: squared(perturbed(p), w)
        case "perturbation-gradient":
            gradient = pyepo.perturbationGradient(solver, sigma=1.0, two_sides=True)
            return lambda p, c, w, z: gradient(p, c)
        case "noise-contrastive":
            contrastive = make_pool_loss(pyepo.noiseContrastiveEstimation)
            return lambda p, c, w, z: contrastive(p, w)
        case "contrastive-map":
            contrastive = make_pool_loss(pyepo.contrastiveMAP)
            return lambda p, c, w, z: contrastive(p, w)
        case "pairwise-ranking":
            ranking = make_pool_loss(pyepo.pairwiseLearningToRank)
            return lambda p, c, w, z: ranking(p, c)
        case "listwise-ranking":
            ranking = make_pool_loss(pyepo.listwiseLearningToRank)
            return lambda p, c, w, z: ranking(p, c)
        case _:
            raise ValueError(f"unknown loss {name!r}")


def main(problem: str, results: str) -> None:
    """Train with every loss, and write the weights and the processor time of each epoch."""
    import pyepo  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    arrays = dict(np.load(problem))
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("features", "costs", "best", "orders")}
    features, costs, best = (tensors[name].float() for name in ("features", "costs", "best"))
    objective = (costs * best).sum(1, keepdim=True)
    solver, written = make_solver(arrays), {"version": np.array(pyepo.__version__)}
    for name in arrays["losses"].tolist():
        torch.manual_seed(int(arrays["seed"]))
        np.random.seed(int(arrays["seed"]))  # noqa: NPY002  # which PyEPO uses
        loss = make_loss(name, solver, arrays)
        model = nn.Linear(features.shape[1], costs.shape[1])
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(arrays["weight"]))
            model.bias.copy_(torch.from_numpy(arrays["bias"]))
        optimizer = torch.optim.Adam(model.parameters(), lr=float(arrays["lr"]))
        seconds = []
        for order in tensors["orders"]:
            begin = process_time()
            for index in order.split(int(arrays["batch_size"])):
                optimizer.zero_grad()
                loss(model(features[index]), costs[index], best[index], objective[index]).backward()
                optimizer.step()
            seconds.append(process_time() - begin)
        written[f"{name} weight"] = model.weight.detach().numpy()
        written[f"{name} bias"] = model.bias.detach().numpy()
        written[f"{name} seconds"] = np.array(seconds)
        print(f"  PyEPO, {name}: {np.median(seconds):.3f} s per epoch", flush=True)
    np.savez(results, **written)


if __name__ == "__main__":
    main(*sys.argv[1:])
