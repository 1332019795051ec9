"""Table 1: one categorical variable, six methods, three data sets; figures 2 and 6 show the curves of its runs."""

from dataclasses import replace

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick

PAPER, OURS = "the paper's", "ours"

DATA = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist", "Omniglot": "omniglot"}
CATEGORIES = (10, 20, 30, 40, 50)
EPOCHS = 100
_STARTS = 8

# The first three as in the code released with the paper: direct without the gradient of the KL, epsilon and tau
# reduced a little during training, Gumbel-softmax in its straight-through form.
METHODS: dict[str, tuple[str, Options]] = {
    "exact": (PAPER, {"estimator": "exact"}),
    "direct": (PAPER, {"estimator": "direct", "kl": "none", "anneal": 1e-5, "anneal_every": 500}),
    "Gumbel-softmax": (PAPER, {"estimator": "gumbel-softmax", "hard": True, "anneal": 1e-5}),
    "posterior direct": (OURS, {"estimator": "direct"}),
    "posterior, then exact": (OURS, {"estimator": "auto"}),
    f"the same, best of {_STARTS} starts": (OURS, {"estimator": "auto", "starts": _STARTS}),
}


def name_problem(data: str, k: int) -> str:
    """Return the problem of the cells of a data set and k."""
    return f"{data}, k = {k}"


def _list_cells() -> tuple[Cell, ...]:
    return tuple(
        Cell(name_problem(data, k), method, group, 1e-3, {"data": file, "categories": k, **options})
        for data, file in DATA.items()
        for k in CATEGORIES
        for method, (group, options) in METHODS.items()
    )


TABLE1 = Experiment(
    name="table1",
    title="Table 1: test loss of discrete VAEs with one categorical variable of k values",
    claim="The paper: direct optimization reaches a lower loss than Gumbel-softmax everywhere, and one near or below "
    "that of the exact gradient, which needs k times the work.",
    setting="Pixels rounded at 0.5, encoder 784-300-k, decoder k-300-784, Adam with a learning rate of 1e-3 that "
    f"falls to zero over the second half, batches of 100, {EPOCHS} epochs (the paper: 300). Bounds are exact: sums "
    "over all k values of z.",
    options={"epochs": EPOCHS},
    cells=_list_cells(),
    seeds=(0, 1, 2),
    epochs=(1, 10, 30, EPOCHS),
    view="grid",
    published="table1.json",
    figures=(),  # figure2 and figure6 show the same runs
    notes=(
        "The method with several starts first trains each start for a few epochs. These are not counted as epochs, but "
        "their seconds are included in the figures.",
    ),
    quick=Quick(
        options={"data": "sample", "epochs": 2, "start_epochs": 1, "evaluate_images": 100},
        note="the 4,500 images that come with hardmax in place of each data set, 2 epochs, 1 for each start, 100 test "
        "images",
    ),
)


_PROBLEMS = [name_problem(data, 10) for data in DATA]

FIGURE2 = replace(
    TABLE1,
    name="figure2",
    title="Figure 2: test loss for k = 10, by epoch and by time",
    claim="The paper: the exact gradient takes more epochs to converge than direct optimization; direct is 1.5 times "
    "slower than Gumbel-softmax, and has a lower loss at any time.",
    cells=tuple(cell for cell in TABLE1.cells if cell.problem in _PROBLEMS),
    view="epochs",
    figures=(
        CurvesFigure(
            (
                tuple(Panel("epoch", problem) for problem in _PROBLEMS),
                tuple(Panel("seconds", problem) for problem in _PROBLEMS),
            )
        ),
    ),
)


_FIGURE6_PROBLEMS = [[name_problem(data, k) for data in DATA] for k in CATEGORIES if k > 10]

FIGURE6 = replace(
    TABLE1,
    name="figure6",
    title="Figure 6: test loss for k = 20, 30, 40, 50",
    claim="The paper: more evidence that the exact gradient converges more slowly than direct optimization.",
    cells=tuple(cell for cell in TABLE1.cells if any(cell.problem in row for row in _FIGURE6_PROBLEMS)),
    figures=(
        CurvesFigure(
            tuple(tuple(Panel("epoch", problem) for problem in row) for row in _FIGURE6_PROBLEMS), title=", by epoch"
        ),
        CurvesFigure(
            tuple(tuple(Panel("seconds", problem) for problem in row) for row in _FIGURE6_PROBLEMS),
            name="-seconds",
            title=", by time",
        ),
    ),
)
