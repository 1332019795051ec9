"""Predict, then optimize, from pictures: the regret of paths on maps by loss."""

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.decisions import COSTS, DECISIONS_ONLY, REGRETS
from hardmax.experiments.tables.metrics import OPTIMAL, REGRET

EPOCHS, BATCH = 15, 50
LR = 2e-3
SCALE = 0.3  # of the noise
PROBLEM = "maps"
_NOISE: Options = {"scale": SCALE, "samples": 3, "relative": True}

METHODS: dict[str, tuple[str, Options]] = {
    "least squares": (COSTS, {"loss": "least-squares"}),
    "SPO+": (REGRETS, {"loss": "spo-plus"}),
    "direct": (REGRETS, {"loss": "direct", "epsilon": 0.1}),
    "direct, towards": (REGRETS, {"loss": "direct", "epsilon": 0.1, "towards": True}),
    "blackbox": (REGRETS, {"loss": "blackbox", "step": 20 / BATCH}),
    "blackbox, step 20": (REGRETS, {"loss": "blackbox", "step": 20.0}),
    "identity": (REGRETS, {"loss": "identity", "relative": True}),
    "Fenchel-Young": (DECISIONS_ONLY, {"loss": "fenchel-young", **_NOISE}),
    "I-MLE": (DECISIONS_ONLY, {"loss": "implicit-mle", "step": 20.0, **_NOISE}),
    "perturbed optimizer": (DECISIONS_ONLY, {"loss": "perturbed", **_NOISE}),
}

DECISIONS_MAPS = Experiment(
    name="decisions-maps",
    title="Shortest paths on pictures of terrain: regret by loss",
    claim="Vlastelica, Paulus, Musil, Martius and Rolinek, 2020: a network learns to see the costs of the cells of a map "
    "through a solver of shortest paths, from the best paths alone. Which loss leads to the cheapest paths?",
    setting="Generated maps of 12 x 12 cells of five kinds of terrain, as pictures of 96 x 96 pixels; a path leads from the "
    "top left to the bottom right cell, with steps to all 8 neighbours. A convolutional network with 24,385 weights "
    "predicts the cost of each cell. 2,000 training, 200 validation and 500 test maps; Adam with the learning rate of "
    f"each line, constant, batches of {BATCH}, {EPOCHS} epochs. Each seed has its own maps and initial weights, the same "
    "for all losses.",
    options={
        **{"model": "decisions", "data": "maps", "epochs": EPOCHS, "batch_size": BATCH},
        **{"examples": 2000, "validation_examples": 200, "test_examples": 500},
    },
    cells=tuple(Cell(PROBLEM, method, group, LR, options) for method, (group, options) in METHODS.items()),
    seeds=(0, 1, 2),
    view="methods",
    metrics=(REGRET, OPTIMAL),
    figures=(CurvesFigure(((Panel("epoch", PROBLEM),),)),),
    notes=(
        "Regret is the sum over the test maps of the true cost of the model's path minus that of the best one, divided by "
        "the sum of the costs of the best. Optimal is the share of maps whose path is as cheap as the best.",
        "The group names what a loss uses of the training examples: least squares the costs of all cells, some losses the "
        "best paths alone, the others both.",
        f"The solver needs costs above zero. Noise multiplies them by a log-normal number of scale {SCALE:g}; three samples. "
        "With it, some losses are proportional to the scale of the predicted costs, on which paths do not depend. Their "
        "lines, and *identity*, divide the predicted costs of a map by their mean before the loss (`--relative`).",
        "The published step of blackbox, 20, multiplies the slope of the mean loss of a batch: for one example it is "
        f"20 / {BATCH}. There, the loss is the Hamming distance to the best path; here, it is the regret.",
    ),
    quick=Quick(
        options={
            **{"epochs": 2, "cells": 4, "hidden": 8},
            **{"examples": 100, "validation_examples": 20, "test_examples": 50},
        },
        note="100 training maps of 4 x 4 cells, 2 epochs",
    ),
)
