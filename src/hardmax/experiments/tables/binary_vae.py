"""VAEs with 200 bits by the protocol of DisARM and RODEO: nonlinear networks, the bound of the training images."""

from collections.abc import Sequence

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import BOUND, TRAIN_BOUND

# The learning rate of each data set is that of the authors' code.
DATA = {"MNIST": ("mnist", 1e-3), "Fashion-MNIST": ("fashion-mnist", 3e-4), "Omniglot": ("omniglot", 1e-3)}
EPOCHS, LONG_EPOCHS = 400, 2000
LONG_PROBLEM = "1,000,000 steps, MNIST"

_PUBLISHED, _DECAY, _BIASED = "as published", "unbiased, with decay", "biased, with decay"
_CONSTANT: Options = {"lr_schedule": "constant"}

# Two evaluations of f per image and step for all, so that the columns of a line had the same number of them.
TWO_EVALUATIONS: dict[str, tuple[str, Options]] = {
    "DisARM": (_PUBLISHED, {"estimator": "disarm", **_CONSTANT}),
    "double control variates": (_PUBLISHED, {"estimator": "double-control-variates", "samples": 2, **_CONSTANT}),
    "RODEO": (_PUBLISHED, {"estimator": "rodeo", "samples": 2, **_CONSTANT}),
    "RODEO, rate falls to zero": (_DECAY, {"estimator": "rodeo", "samples": 2}),
    "REBAR, rate falls to zero": (_DECAY, {"estimator": "rebar"}),
    "ReinMax, rate falls to zero": (_BIASED, {"estimator": "reinmax", "samples": 2}),
    # z is hard: the training bound of a soft z is not a bound of log p(x).
    "straight-through Gumbel-softmax, rate falls to zero": (
        _BIASED,
        {"estimator": "gumbel-softmax", "hard": True, "samples": 2},
    ),
}
THREE_EVALUATIONS: dict[str, tuple[str, Options]] = {
    method: (group, {**options, "samples": 3})
    for method, (group, options) in TWO_EVALUATIONS.items()
    if method in ("double control variates", "RODEO", "RODEO, rate falls to zero", "ReinMax, rate falls to zero")
}
# As many steps as published, for one method of the publication and one of ours.
LONG = {
    method: (group, {**options, "epochs": LONG_EPOCHS})
    for method, (group, options) in TWO_EVALUATIONS.items()
    if method in ("RODEO", "ReinMax, rate falls to zero")
}


def _draw_by_cost(problems: Sequence[str], name: str = "", title: str = "") -> CurvesFigure:
    by_evaluations = tuple(Panel("evaluations", problem) for problem in problems)
    by_seconds = tuple(Panel("seconds", problem) for problem in problems)
    return CurvesFigure((by_evaluations, by_seconds), name, title)


def _list_cells() -> tuple[Cell, ...]:
    problems = [
        *((data, data, TWO_EVALUATIONS) for data in DATA),
        *((f"3 evaluations, {data}", data, THREE_EVALUATIONS) for data in DATA),
        (LONG_PROBLEM, "MNIST", LONG),
    ]
    return tuple(
        Cell(problem, method, group, DATA[data][1], {"data": DATA[data][0], **options})
        for problem, data, methods in problems
        for method, (group, options) in methods.items()
    )


BINARY_VAE = Experiment(
    name="binary-vae",
    title="VAEs with 200 bits: the protocol of DisARM and RODEO",
    claim="Titsias and Shi, 2022, and Shi, Zhou, Hwang, Titsias and Mackey, 2022: with RODEO, VAEs with binary latents "
    "reach a lower training −ELBO than with double control variates, and these than with DisARM, at two evaluations "
    "per step.",
    setting="Pixels sampled again for every step, 200 bits, encoder 784-200-200-200 and decoder 200-200-200-784, "
    "LeakyReLU of slope 0.3, uniform prior, Adam with a learning rate of 1e-3 (Fashion-MNIST: 3e-4), batches of 100, "
    f"{EPOCHS} epochs: 200,000 steps of MNIST and Fashion-MNIST, a fifth of the published number, and once as many as "
    "published. Two evaluations of log p(x | z) for each image and step, or three.",
    options={
        "space": "binary",
        "variables": 200,
        "binarize": "stochastic",
        "widths": (200, 200),
        "activation": "leaky-relu",
        "epochs": EPOCHS,
        "evaluate_images": 200,
    },
    cells=_list_cells(),
    seeds=(0, 1, 2),
    view="grid",
    metrics=(TRAIN_BOUND, BOUND),
    epochs=(1, 10, 100, EPOCHS),
    published="binary_vae.json",
    reference="RODEO",
    figures=(
        _draw_by_cost(tuple(DATA)),
        _draw_by_cost(tuple(f"3 evaluations, {data}" for data in DATA), "-3-evaluations", ": three evaluations"),
        _draw_by_cost((LONG_PROBLEM,), "-long", ": as many steps as published"),
    ),
    notes=(
        "Training −ELBO is the mean of its estimates over the steps of the last epoch; test −ELBO is from 100 samples "
        "of 200 test images.",
        "As published, the learning rate is constant; in the other columns it falls to zero in the second half.",
    ),
    quick=Quick(
        options={
            "data": "sample",
            "variables": 20,
            "widths": (32, 32),
            "epochs": 2,
            "evaluate_images": 100,
        },
        note="20 bits, hidden layers of 32, the 4,500 images that come with hardmax, 2 epochs, 100 test images",
    ),
)
