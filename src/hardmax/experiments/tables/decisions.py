"""Predict, then optimize: the regret of the decisions of a linear model, by loss, on shortest paths and knapsacks."""

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import OPTIMAL, REGRET

EPOCHS, BATCH = 20, 32
LR = 1e-2
SEEDS = tuple(range(10))

PROBLEMS: dict[str, Options] = {
    **{f"path, degree {degree}": {"data": "path", "degree": degree} for degree in (1, 2, 4, 6)},
    "knapsack, degree 4": {"data": "knapsack", "degree": 4},
}
COSTS, DECISIONS_ONLY, REGRETS = "predicted costs", "best decisions", "costs and decisions"
METHODS: dict[str, tuple[str, Options]] = {
    "least squares": (COSTS, {"loss": "least-squares"}),
    "SPO+": (REGRETS, {"loss": "spo-plus"}),
    "SPO+, noise": (REGRETS, {"loss": "spo-plus", "samples": 3}),
    "SPO+, 10 samples": (REGRETS, {"loss": "spo-plus", "samples": 10}),
    "direct": (REGRETS, {"loss": "direct", "samples": 3}),
    "direct, towards": (REGRETS, {"loss": "direct", "samples": 3, "towards": True}),
    "direct, towards, no noise": (REGRETS, {"loss": "direct", "towards": True}),
    "expected regret, exact": (REGRETS, {"loss": "gibbs"}),
    "blackbox": (REGRETS, {"loss": "blackbox"}),
    "blackbox, step 20": (REGRETS, {"loss": "blackbox", "step": 20.0}),
    "identity": (REGRETS, {"loss": "identity"}),
    "Fenchel-Young": (DECISIONS_ONLY, {"loss": "fenchel-young"}),
    "Fenchel-Young, 10 samples": (DECISIONS_ONLY, {"loss": "fenchel-young", "samples": 10}),
    "likelihood, exact": (DECISIONS_ONLY, {"loss": "likelihood"}),
    "I-MLE": (DECISIONS_ONLY, {"loss": "implicit-mle"}),
    "I-MLE, step 10 / 32": (DECISIONS_ONLY, {"loss": "implicit-mle", "step": 10 / BATCH}),
    "adaptive I-MLE": (DECISIONS_ONLY, {"loss": "adaptive-implicit-mle"}),
    "adaptive I-MLE, share 0.5": (DECISIONS_ONLY, {"loss": "adaptive-implicit-mle", "share": 0.5}),
    "perturbed optimizer": (DECISIONS_ONLY, {"loss": "perturbed"}),
}

DECISIONS = Experiment(
    name="decisions",
    title="Predict, then optimize: regret by loss",
    claim="Elmachtoub and Grigas, 2022: a model that is trained for the decisions that it causes decides better than "
    "one that is trained to predict the costs, where the model is misspecified. Which of the losses for it has the "
    "lowest regret?",
    setting="Two problems of the literature. Path: the shortest path through a 5 x 5 grid, from corner to corner. "
    "Knapsack: the most valuable of 32 items, with two kinds of weight. Costs are a polynomial of 5 features, of the "
    "given degree, with multiplicative noise of half-width 0.5; the model is linear, and so misspecified for degrees "
    f"above 1. 1,000 training and 1,000 test examples; Adam with a constant learning rate of {LR:g}, batches of "
    f"{BATCH}, {EPOCHS} epochs. Each seed has its own problem, data and initial weights, the same for all losses.",
    options={"model": "decisions", "epochs": EPOCHS, "batch_size": BATCH},
    cells=tuple(
        Cell(problem, method, group, LR, {**problem_options, **options})
        for problem, problem_options in PROBLEMS.items()
        for method, (group, options) in METHODS.items()
    ),
    seeds=SEEDS,
    view="methods",
    metrics=(REGRET, OPTIMAL),
    figures=(
        CurvesFigure(
            (tuple(Panel("epoch", problem) for problem in PROBLEMS),),
        ),
    ),
    notes=(
        "Regret is the sum over the test examples of the true cost of the model's decision minus that of the best one, "
        "divided by the sum of the absolute values of the best. The standard errors are mostly those of the problems: "
        "all losses see the same ones, so that differences between losses are more certain.",
        "The group names what a loss uses of the training examples: least squares the costs alone, some losses the "
        "best decisions alone, the others both. Losses with noise use three samples of normal noise of scale 1.",
        "Published for the path of degree 4, with the same sizes, epochs and optimizer, but other random data, one "
        "seed (PyEPO's notebook): adaptive I-MLE 7.24 %, perturbed Fenchel-Young 7.29 %, SPO+ 7.59 %, negative "
        "identity 8.90 %, perturbed optimizer 9.88 %, I-MLE 12.07 %, blackbox 15.12 %.",
        "There, the step of I-MLE (10) and of blackbox (20) multiplies the slope of the mean loss of a batch of 32, so "
        "it is 32 times smaller for one example: that is the default of blackbox here (0.625), and the line *I-MLE, "
        "step 10 / 32*. The lines *I-MLE* and *blackbox, step 20* have that step for one example.",
    ),
    quick=Quick(
        options={
            **{"epochs": 2, "examples": 64, "validation_examples": 16, "test_examples": 64},
            **{"grid": 3, "items": 8},
        },
        note="64 training examples, 2 epochs of 2 steps, grids of 3 x 3 and 8 items",
    ),
)
