"""Categorical VAEs of grey MNIST by the protocol of ReinMax, and the tuning of its methods."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import BOUND, TRAIN_BOUND, VALIDATION_BOUND

EPOCHS, TUNING_EPOCHS = 160, 20
_AS_PUBLISHED, _SAMPLE, _TWO, _ALL = "as published", "biased, 1 sample", "unbiased, 2 samples", "all changes of z"


@dataclass(frozen=True)
class _Size:
    """A latent of the protocol, with the options of the authors' script for it (`mnist_vae/reinmax_<k>_<n>.sh`)."""

    categories: int
    variables: int
    lr: float
    tau: float
    optimizer: str = "radam"

    @property
    def problem(self) -> str:
        return f"{self.categories} x {self.variables}"

    @property
    def options(self) -> Options:
        return {"categories": self.categories, "variables": self.variables, "optimizer": self.optimizer}


SIZES = (
    _Size(8, 4, 5e-4, 1.3, "adam"),
    _Size(4, 24, 5e-4, 1.5),
    _Size(8, 16, 7e-4, 1.5),
    _Size(16, 12, 7e-4, 1.5),
    _Size(64, 8, 5e-4, 1.5),
    _Size(10, 30, 5e-4, 1.3),
)


@dataclass(frozen=True)
class _Method:
    """A method with its learning rate and temperature, to be those that are the best in `CATEGORICAL_VAE_TUNING`.

    That table has not run: until then, a learning rate of 1e-3 and a temperature of 1 stand in for them. The learning
    rate falls to zero in the second half of the run.
    """

    name: str
    group: str
    options: Options
    lr: float
    tau: float | None = None

    @property
    def all_options(self) -> Options:
        """The options with the temperature, if the method has one."""
        return self.options if self.tau is None else {**self.options, "tau": self.tau}


_LEAVE_ONE_OUT: Options = {"estimator": "reinforce", "baseline": "leave-one-out", "samples": 2}
METHODS = (
    _Method("ReinMax", _SAMPLE, {"estimator": "reinmax"}, 1e-3, 1.0),
    _Method("ReinMax-Rao", _SAMPLE, {"estimator": "reinmax-rao"}, 1e-3, 1.0),
    _Method("ReinMax-CV", _SAMPLE, {"estimator": "reinmax-cv"}, 1e-3, 1.0),
    _Method("Gumbel-Rao", _SAMPLE, {"estimator": "gumbel-rao"}, 1e-3, 1.0),
    _Method("straight-through", _SAMPLE, {"estimator": "straight-through"}, 1e-3, 1.0),
    # z is hard, as in the publication: the bound of a soft z is not a bound of log p(x).
    _Method("straight-through Gumbel-softmax", _SAMPLE, {"estimator": "gumbel-softmax", "hard": True}, 1e-3, 1.0),
    _Method("leave-one-out", _TWO, _LEAVE_ONE_OUT, 1e-3),
    _Method("unordered set", _TWO, {"estimator": "unordered-set", "samples": 2}, 1e-3),
    # The first steps of RAdam are plain gradient steps, which no temperature that minimises a variance survives.
    _Method("REBAR", _TWO, {"estimator": "rebar", "optimizer": "adam"}, 1e-3),
)
# They evaluate every change of one variable, 29 decoders for 8 x 4 and 271 for 10 x 30: only the smallest size is run.
FULL_METHODS = (
    _Method("local expectation", _ALL, {"estimator": "local-expectation"}, 1e-3),
    _Method("adaptive direct", _ALL, {"estimator": "adaptive-direct"}, 1e-3),
    _Method("posterior direct", _ALL, {"estimator": "averaged-direct", "epsilon": 1.0}, 1e-3),
)
RATES, TEMPERATURES = (5e-4, 1e-3, 2e-3), (0.5, 1.0, 1.5)


def _list_cells() -> tuple[Cell, ...]:
    cells = []
    for size in SIZES:
        published = {**size.options, "estimator": "reinmax", "tau": size.tau, "lr_schedule": "constant"}
        cells.append(Cell(size.problem, "ReinMax, as published", _AS_PUBLISHED, size.lr, published))
        cells += [
            Cell(size.problem, method.name, method.group, method.lr, {**size.options, **method.all_options})
            for method in (METHODS + FULL_METHODS if size == SIZES[0] else METHODS)
        ]
    return tuple(cells)


def _list_tuning_cells() -> tuple[Cell, ...]:
    def make_cells(method: _Method, label: str, options: Mapping[str, object]) -> list[Cell]:
        chosen = {**SIZES[-1].options, **method.options, **options}
        return [Cell(f"rate {rate:g}", label, method.group, rate, chosen) for rate in RATES]

    cells: list[Cell] = []
    for method in METHODS:
        if method.tau is None:
            cells += make_cells(method, method.name, {})
        else:
            for tau in TEMPERATURES:
                cells += make_cells(method, f"{method.name}, tau {tau:g}", {"tau": tau})
    return tuple(cells)


CATEGORICAL_VAE = Experiment(
    name="categorical-vae",
    title="Categorical VAEs of MNIST: the protocol of ReinMax",
    claim="Liu, Dong, Liu, Yu and Gao, 2023: with ReinMax, VAEs with categorical latents reach a lower training −ELBO "
    "than with straight-through and Gumbel-softmax.",
    setting="MNIST, grey pixels as Bernoulli probabilities, all 60,000 training images, encoder 784-512-256-(k n) and "
    f"its mirror image as decoder, ReLU, uniform prior, batches of 100, {EPOCHS} epochs (96,000 steps), RAdam; Adam "
    "for 8 x 4, as in the authors' scripts, and for REBAR. A problem is the number of categories x the number of "
    "variables. In the first column, learning rate and tau of ReinMax are those of the authors' scripts.",
    options={
        "data": "mnist",
        "binarize": "none",
        "widths": (512, 256),
        "epochs": EPOCHS,
        "train_on_validation": True,
        "evaluate_images": 200,
    },
    cells=_list_cells(),
    seeds=(0, 1, 2),
    view="grid",
    metrics=(TRAIN_BOUND, BOUND),
    epochs=(1, 10, 40, EPOCHS),
    published="categorical_vae.json",
    reference="ReinMax, as published",
    figures=(CurvesFigure((tuple(Panel("epoch", size.problem) for size in SIZES),)),),
    notes=(
        "Training −ELBO is the mean of its estimates over the steps of the last epoch, as published; test −ELBO is "
        "from 100 samples of 200 test images.",
        "As published, the learning rate is constant; in the other columns it falls to zero in the second half. Their "
        "learning rates and temperatures are 1e-3 and 1, which categorical-vae-tuning will replace.",
    ),
    quick=Quick(
        options={
            "data": "sample",
            "categories": 4,
            "variables": 4,
            "widths": (64, 32),
            "epochs": 2,
            "evaluate_images": 100,
        },
        note="4 variables of 4 categories, hidden layers of 64 and 32, the 4,500 images that come with hardmax, 2 "
        "epochs, 100 test images",
    ),
)

CATEGORICAL_VAE_TUNING = Experiment(
    name="categorical-vae-tuning",
    title="Categorical VAEs of MNIST: learning rates and temperatures",
    claim="Which learning rate and temperature does each method of categorical-vae get?",
    setting="The networks and data of categorical-vae with 30 variables of 10 categories, trained on 50,000 images for "
    f"{TUNING_EPOCHS} epochs, with a learning rate that falls to zero in the second half. The best −ELBO of 1,000 "
    "validation images, from 100 samples, decides.",
    options={**CATEGORICAL_VAE.options, "epochs": TUNING_EPOCHS, "train_on_validation": False, "evaluate_images": 1000},
    cells=_list_tuning_cells(),
    view="methods",
    metrics=(VALIDATION_BOUND,),
    figures=(),
    notes=(
        "Short runs favour high learning rates, for all methods. The same values are used for all sizes of z. "
        "The methods that evaluate all changes of z use those of the others.",
    ),
    quick=replace(CATEGORICAL_VAE.quick, options={**CATEGORICAL_VAE.quick.options, "epochs": 1}),
)
