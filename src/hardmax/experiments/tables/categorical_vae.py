"""Categorical VAEs of grey MNIST by the protocol of ReinMax: 160 epochs, the bound of the training images."""

from dataclasses import dataclass

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import BOUND, TRAIN_BOUND

EPOCHS = 160
_AS_PUBLISHED, _DECAY = "as published", "with decay"


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


def _list_cells() -> tuple[Cell, ...]:
    cells = []
    for size in SIZES:
        reinmax = {**size.options, "estimator": "reinmax", "tau": size.tau}
        decay = {**reinmax, "lr_schedule": "linear"}
        cells += [
            Cell(size.problem, "ReinMax", _AS_PUBLISHED, size.lr, {**reinmax, "lr_schedule": "constant"}),
            Cell(size.problem, "ReinMax, rate falls to zero", _DECAY, size.lr, decay),
            Cell(size.problem, "ReinMax, twice the rate, falls to zero", _DECAY, 2 * size.lr, decay),
        ]
    return tuple(cells)


CATEGORICAL_VAE = Experiment(
    name="categorical-vae",
    title="Categorical VAEs of MNIST: the protocol of ReinMax",
    claim="Liu, Dong, Liu, Yu and Gao, 2023: with ReinMax, VAEs with categorical latents reach a lower training −ELBO "
    "than with straight-through and Gumbel-softmax.",
    setting="MNIST, grey pixels as Bernoulli probabilities, all 60,000 training images, encoder 784-512-256-(k n) and "
    f"its mirror image as decoder, ReLU, uniform prior, batches of 100, {EPOCHS} epochs (96,000 steps), one evaluation "
    "of log p(x | z) for each image and step. A problem is the number of categories x the number of variables. "
    "Learning rate, optimizer and tau of ReinMax are those of the authors' scripts: Adam for 8 x 4, else RAdam.",
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
    figures=(CurvesFigure((tuple(Panel("epoch", size.problem) for size in SIZES),)),),
    notes=(
        "Training −ELBO is the mean of its estimates over the steps of the last epoch, as published; test −ELBO is "
        "from 100 samples of 200 test images.",
        "As published, the learning rate is constant; in the other columns it falls to zero in the second half.",
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
