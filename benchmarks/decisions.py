"""Regret and time of our losses, compared with those of PyEPO on the same data, weights and order of examples.

`python -m benchmarks.decisions --pyepo PYTHON`, where PYTHON has pyepo and ortools; PyEPO trains in its own process,
with the solvers of OR-tools. Skipped without PyEPO. SPO+ has the same regret in both: it is the same function.

The steps of I-MLE and blackbox are those of PyEPO, divided by the batch size, since PyEPO multiplies them by the slope
of the mean over the batch. Other differences: PyEPO's I-MLE has noise of another distribution, but the same
standard deviation; the derivative of its |regret| is zero for optimal decisions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.task import DecisionsTask
from hardmax.training.state import State

BATCH = 32
IMLE_SCALE = 0.556  # standard deviation of PyEPO's sums of gammas with kappa = 5: (sum of 1 / i^2 to 10 / 5)^(1/2)
LOSSES: dict[str, dict[str, Any]] = {
    "spo-plus": {},
    "fenchel-young": {},
    "implicit-mle": {"step": 10 / BATCH, "scale": IMLE_SCALE},
    "adaptive-implicit-mle": {"scale": IMLE_SCALE},
    "blackbox": {"step": 20 / BATCH},
    "identity": {},
    "perturbed": {},
}


def main(arguments: Sequence[str] = ()) -> bool:
    """Print a table for each problem; return True: there is no goal to miss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("HARDMAX_PYEPO", sys.executable)
    parser.add_argument("--pyepo", default=default, help="a Python with pyepo and ortools")
    parser.add_argument("--problems", nargs="+", default=["path", "knapsack"], choices=["path", "knapsack"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="file to append a row for each method to, in JSON lines")
    options = parser.parse_args(arguments)
    if not _has_pyepo(options.pyepo):
        print(f"decisions: skipped, since {options.pyepo} has no pyepo and ortools; give --pyepo PYTHON")
        return True
    for problem in options.problems:
        config = DecisionsConfig(data=problem, epochs=options.epochs, seed=options.seed, batch_size=BATCH)
        rows = compare(config, options.pyepo)
        print(f"decisions: {problem}, seed {options.seed}, {options.epochs} epochs, median seconds per epoch")
        print(f"  {'loss':<22} {'regret':>8} {'PyEPO':>8} {'seconds':>9} {'PyEPO':>9} {'ratio':>7}")
        for row in rows:
            print(
                f"  {row['loss']:<22} {row['regret']:8.2%} {row['pyepo_regret']:8.2%} {row['seconds']:9.4f} "
                f"{row['pyepo_seconds']:9.4f} {row['pyepo_seconds'] / row['seconds']:6.1f}x"
            )
        if options.out is not None:
            with Path(options.out).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
    return True


def _has_pyepo(python: str) -> bool:
    try:
        return not subprocess.run([python, "-c", "import pyepo, ortools"], capture_output=True, check=False).returncode
    except OSError:
        return False


def compare(config: DecisionsConfig, python: str) -> list[dict[str, Any]]:
    """Train with every loss, here and with PyEPO; return a row for each.

    Args:
        config: the problem, epochs, batch size and seed.
        python: a Python with pyepo and ortools.
    """
    data = DecisionsTask.load_data(config)
    begin = State(DecisionsTask.build(config, data))
    sign = 1.0 if begin.task.problem.maximises else -1.0  # of what PyEPO's model predicts, compared with our scores
    layer = begin.task.model.network
    features, costs, best = begin.task.examples["train"][:]
    parameters = {name: np.array(value) for name, value in data.parameters.items()}
    orders = []
    for epoch in range(config.epochs):
        begin.progress.epoch = epoch
        orders.append(torch.cat(begin.begin_epoch()))
    with tempfile.TemporaryDirectory() as folder:
        problem, results = Path(folder) / "problem.npz", Path(folder) / "results.npz"
        np.savez(
            problem,
            features=features.numpy(),
            costs=-sign * costs.numpy(),
            best=best.numpy(),
            orders=torch.stack(orders).numpy(),
            weight=sign * layer.weight.detach().numpy(),
            bias=sign * layer.bias.detach().numpy(),
            lr=config.learning_rate,
            batch_size=config.batch_size,
            **parameters,
        )
        script = Path(__file__).with_name("pyepo_training.py")
        subprocess.run([python, "-W", "ignore", str(script), str(problem), str(results)], check=True)
        theirs = dict(np.load(results))
    rows = []
    for name, options in LOSSES.items():
        ours = State(DecisionsTask.build(replace(config, loss=name, **options), data))
        seconds = _train(ours)
        regret = ours.task.evaluate("test")["regret"]
        with torch.no_grad():
            ours.task.model.network.weight.copy_(sign * torch.from_numpy(theirs[f"{name} weight"]))
            ours.task.model.network.bias.copy_(sign * torch.from_numpy(theirs[f"{name} bias"]))
        rows.append(
            {
                **{"problem": config.data, "seed": config.seed, "epochs": config.epochs, "loss": name},
                **{"regret": regret, "pyepo_regret": ours.task.evaluate("test")["regret"]},
                **{"seconds": seconds, "pyepo_seconds": float(np.median(theirs[f"{name} seconds"]))},
            }
        )
    return rows


def _train(state: State) -> float:
    """Train all epochs; return the median of their seconds."""
    seconds = []
    while state.progress.epoch < state.config.epochs:
        begin = perf_counter()
        for index in state.begin_epoch():
            state.make_step(index)
        seconds.append(perf_counter() - begin)
        state.progress.epoch += 1
    return median(seconds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
