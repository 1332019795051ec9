"""Which epsilon? Direct with fixed values of epsilon, and with an adaptive one."""

from hardmax.experiments.tables.declaration import Cell, Experiment, Options, Quick

_SETS = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist"}
_SPACES: dict[str, tuple[float, tuple[float, ...], Options]] = {
    "10 categories": (1e-3, (1.0, 0.3, 0.1), {"categories": 10, "epochs": 20}),
    "15 bits": (3e-3, (0.1, 0.05, 0.02), {"space": "binary", "variables": 15, "epochs": 8}),
}


def _list_cells() -> tuple[Cell, ...]:
    cells = []
    for data, file in _SETS.items():
        for space, (lr, epsilons, options) in _SPACES.items():
            problem, options = f"{data}, {space}", {"data": file, **options}
            cells.append(Cell(problem, "adaptive", "ours", lr, {**options, "estimator": "adaptive-direct"}))
            for epsilon in epsilons:
                fixed = {**options, "estimator": "direct", "epsilon": epsilon}
                cells.append(Cell(problem, f"epsilon {epsilon:g}", "fixed", lr, fixed))
    return tuple(cells)


EPSILON = Experiment(
    name="epsilon",
    title="Direct with fixed values of epsilon, and with an adaptive one",
    claim="The paper starts with an epsilon of 1 and reduces it to 0.1.",
    setting="Direct in its posterior form, pixels rounded at 0.5, encoder 784-300-scores, decoder with 300 hidden "
    "units, Adam, batches of 100. Bounds are exact.",
    options={},
    cells=_list_cells(),
    seeds=(0, 1, 2),  # with ten categories, results differ more between seeds than between epsilons
    epochs=(1, 4, 8),
    quick=Quick(
        options={"data": "sample", "epochs": 2, "evaluate_images": 100},
        note="the 4,500 images that come with hardmax instead of both data sets, 2 epochs, 100 test images",
    ),
)
