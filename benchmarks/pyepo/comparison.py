"""Regret and time of our losses and of those of PyEPO, on the same data, initial weights and order of examples.

PyEPO trains in its own process, with the solvers of OR-tools. SPO+ is the same function in both: equal regret. The
steps of I-MLE and blackbox are those of PyEPO, divided by the batch size, since PyEPO multiplies them by the slope of
the mean over the batch. Other differences: PyEPO's I-MLE has noise of another distribution, but the same standard
deviation; its adaptive I-MLE moves the step a little after each batch, ours searches for it in each; the derivative of
its |regret| is zero for optimal decisions.
"""

import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.task import DecisionsTask
from hardmax.training.state import State
from hardmax.version import find_commit

Row = dict[str, Any]
BATCH = 32
_IMLE_SCALE = 0.556  # standard deviation of PyEPO's sums of gammas with kappa = 5: (sum of 1 / i^2 to 10 / 5)^(1/2)


@dataclass(frozen=True)
class Loss:
    """A loss, as options of `hardmax train --model decisions`, and as a name in `training.py`.

    Attributes:
        options: our options; None if only PyEPO has the loss.
        pyepo: name of the loss of PyEPO; None if only we have it.
    """

    options: Mapping[str, Any] | None = None
    pyepo: str | None = None


LOSSES = {
    "SPO+": Loss({"loss": "spo-plus"}, "spo-plus"),
    "SPO+, 10 samples": Loss({"loss": "spo-plus", "samples": 10}),
    "direct, towards": Loss({"loss": "direct", "samples": 3, "towards": True}),
    "expected regret, exact": Loss({"loss": "gibbs"}),
    "likelihood, exact": Loss({"loss": "likelihood"}),
    "Fenchel-Young": Loss({"loss": "fenchel-young"}, "fenchel-young"),
    "Fenchel-Young, 10 samples": Loss({"loss": "fenchel-young", "samples": 10}, "fenchel-young-10"),
    "I-MLE": Loss({"loss": "implicit-mle", "step": 10 / BATCH, "scale": _IMLE_SCALE}, "implicit-mle"),
    "I-MLE, step 10": Loss({"loss": "implicit-mle", "scale": _IMLE_SCALE}),
    "adaptive I-MLE": Loss({"loss": "adaptive-implicit-mle", "scale": _IMLE_SCALE}, "adaptive-implicit-mle"),
    "blackbox": Loss({"loss": "blackbox", "step": 20 / BATCH}, "blackbox"),
    "identity": Loss({"loss": "identity"}, "identity"),
    "perturbed optimizer": Loss({"loss": "perturbed"}, "perturbed"),
    "perturbation gradient": Loss(pyepo="perturbation-gradient"),
    "noise-contrastive, pool": Loss(pyepo="noise-contrastive"),
    "contrastive MAP, pool": Loss(pyepo="contrastive-map"),
    "pairwise ranking, pool": Loss(pyepo="pairwise-ranking"),
    "listwise ranking, pool": Loss(pyepo="listwise-ranking"),
}


def has_pyepo(python: str) -> bool:
    """Whether a Python has PyEPO and OR-tools."""
    try:
        return not subprocess.run([python, "-c", "import pyepo, ortools"], capture_output=True, check=False).returncode
    except OSError:
        return False


def compare(config: DecisionsConfig, python: str, without: Collection[str] = ()) -> list[Row]:
    """Train with every loss, here and with PyEPO; return a row for each.

    Args:
        config: the problem, epochs, batch size and seed.
        python: a Python with pyepo and ortools.
        without: names of losses to leave out.
    """
    losses = {name: loss for name, loss in LOSSES.items() if name not in without}
    if not losses:
        return []
    data = DecisionsTask.load_data(config)
    begin = State(DecisionsTask.build(config, data))
    theirs = _train_pyepo(begin, python, [loss.pyepo for loss in losses.values() if loss.pyepo is not None])
    rows: list[Row] = []
    for name, loss in losses.items():
        row: Row = {
            **{"problem": config.data, "seed": config.seed, "epochs": config.epochs, "loss": name},
            **{"regret": None, "pyepo_regret": None, "seconds": None, "pyepo_seconds": None},
            **{"options": loss.options, "commit": find_commit(), "versions": {"torch": torch.__version__}},
        }
        if loss.options is not None:
            ours = State(DecisionsTask.build(replace(config, **loss.options), data))
            row["seconds"] = _train(ours)
            row["regret"] = ours.task.evaluate("test")["regret"]
        if loss.pyepo is not None:
            row["pyepo_seconds"] = float(np.median(theirs[f"{loss.pyepo} seconds"]))
            row["pyepo_regret"] = _measure_regret(begin, theirs, loss.pyepo)
            row["versions"]["pyepo"] = str(theirs["version"])
        rows.append(row)
    return rows


def _train_pyepo(begin: State, python: str, names: list[str]) -> dict[str, Any]:
    """Return the final weights and the processor time of each epoch, by the name of the loss."""
    config, task = begin.config, begin.task
    sign = _get_sign(begin)
    features, costs, best = task.examples["train"][:]
    parameters = {name: np.array(value) for name, value in DecisionsTask.load_data(config).parameters.items()}
    orders = []
    for epoch in range(config.epochs):
        begin.progress.epoch = epoch
        orders.append(torch.cat(begin.begin_epoch()))
    with tempfile.TemporaryDirectory() as folder:
        problem, results = Path(folder) / "problem.npz", Path(folder) / "results.npz"
        np.savez(
            problem,
            losses=np.array(names),
            features=features.numpy(),
            costs=-sign * costs.numpy(),
            best=best.numpy(),
            orders=torch.stack(orders).numpy(),
            weight=sign * task.model.network.weight.detach().numpy(),
            bias=sign * task.model.network.bias.detach().numpy(),
            lr=config.learning_rate,
            batch_size=config.batch_size,
            seed=config.seed,
            **parameters,
        )
        script = Path(__file__).with_name("training.py")
        command = [python, "-W", "ignore", str(script), str(problem), str(results)]
        subprocess.run(command, check=True, env={**os.environ, "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"})
        return dict(np.load(results))


def _measure_regret(state: State, theirs: dict[str, Any], name: str) -> float:
    """Return the regret of a linear model of PyEPO, by our solver."""
    sign, layer = _get_sign(state), state.task.model.network
    with torch.no_grad():
        layer.weight.copy_(sign * torch.from_numpy(theirs[f"{name} weight"]))
        layer.bias.copy_(sign * torch.from_numpy(theirs[f"{name} bias"]))
    return state.task.evaluate("test")["regret"]


def _get_sign(state: State) -> float:
    """Return 1 if PyEPO's model predicts values to maximise, as our scores; -1 if it predicts costs."""
    return 1.0 if state.task.problem.maximises else -1.0


def _train(state: State) -> float:
    """Train all epochs; return the median of their processor times."""
    seconds = []
    while state.progress.epoch < state.config.epochs:
        begin = process_time()
        for index in state.begin_epoch():
            state.make_step(index)
        seconds.append(process_time() - begin)
        state.progress.epoch += 1
    return median(seconds)
