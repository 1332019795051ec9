"""Train a linear model with PyEPO's losses: a script for a Python that has pyepo and ortools, and not hardmax.

`python pyepo_training.py PROBLEM.npz RESULTS.npz`: `benchmarks.decisions` writes the problem, the initial weights and
the order of the examples, and reads the final weights and the seconds of each epoch.
"""

import sys
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def make_solver(arrays: Any) -> Any:
    """Return PyEPO's model of the problem, solved by OR-tools."""
    from pyepo.model.ort import (  # pyright: ignore[reportMissingImports]
        knapsackModel,
        shortestPathModel,
    )

    if "grid" in arrays:
        return shortestPathModel(tuple(arrays["grid"].tolist()))
    return knapsackModel(weights=arrays["weights"], capacity=arrays["capacity"])


def make_losses(solver: Any) -> Any:
    """Return the losses by name: functions of predictions, true costs, best decisions and their objectives."""
    import pyepo.func as pyepo  # pyright: ignore[reportMissingImports]

    absolute, squared = nn.L1Loss(), nn.MSELoss()
    noise = {"n_samples": 3, "sigma": 1.0}
    spo = pyepo.SPOPlus(solver)
    fenchel_young = pyepo.perturbedFenchelYoung(solver, **noise)
    imle = pyepo.implicitMLE(solver, lambd=10, **noise)
    adaptive = pyepo.adaptiveImplicitMLE(solver, **noise)
    blackbox = pyepo.blackboxOpt(solver, lambd=20)
    identity = pyepo.negativeIdentity(solver)
    perturbed = pyepo.perturbedOpt(solver, **noise)

    def compare_objectives(decisions: Tensor, costs: Tensor, objective: Tensor) -> Tensor:
        return absolute((decisions * costs).sum(1, keepdim=True), objective)

    return {
        "spo-plus": lambda p, c, w, z: spo(p, c, w, z),
        "fenchel-young": lambda p, c, w, z: fenchel_young(p, w),
        "implicit-mle": lambda p, c, w, z: absolute(imle(p), w),
        "adaptive-implicit-mle": lambda p, c, w, z: absolute(adaptive(p), w),
        "blackbox": lambda p, c, w, z: compare_objectives(blackbox(p), c, z),
        "identity": lambda p, c, w, z: compare_objectives(identity(p), c, z),
        "perturbed": lambda p, c, w, z: squared(perturbed(p), w),
    }


def main(problem: str, results: str) -> None:
    """Train with every loss, and write the weights and the seconds."""
    torch.set_num_threads(1)
    arrays = dict(np.load(problem))
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("features", "costs", "best", "orders")}
    features, costs, best = (tensors[name].float() for name in ("features", "costs", "best"))
    objective = (costs * best).sum(1, keepdim=True)
    solver, written = make_solver(arrays), {}
    for name, loss in make_losses(solver).items():
        model = nn.Linear(features.shape[1], costs.shape[1])
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(arrays["weight"]))
            model.bias.copy_(torch.from_numpy(arrays["bias"]))
        optimizer = torch.optim.Adam(model.parameters(), lr=float(arrays["lr"]))
        torch.manual_seed(0)
        seconds = []
        for order in tensors["orders"]:
            begin = perf_counter()
            for index in order.split(int(arrays["batch_size"])):
                optimizer.zero_grad()
                loss(model(features[index]), costs[index], best[index], objective[index]).backward()
                optimizer.step()
            seconds.append(perf_counter() - begin)
        written[f"{name} weight"] = model.weight.detach().numpy()
        written[f"{name} bias"] = model.bias.detach().numpy()
        written[f"{name} seconds"] = np.array(seconds)
        print(f"  PyEPO, {name}: {np.median(seconds):.3f} s per epoch", flush=True)
    np.savez(results, **written)


if __name__ == "__main__":
    main(*sys.argv[1:])
