"""Estimators with two and with eight evaluations of f per step: 200 bits, and 30 variables of 10 categories; MNIST."""

from hardmax.experiments.tables.declaration import Cell, Experiment, Options, Quick

_TWO, _MANY = "2 evaluations", "8 evaluations"
_LEAVE_ONE_OUT: Options = {"estimator": "reinforce", "baseline": "leave-one-out"}

BITS_200 = Experiment(
    name="bits-200",
    title="200 bits: estimators at equal numbers of evaluations",
    claim="Published for networks of 200-200, training −ELBO on MNIST after 1,000,000 steps at 2 evaluations: DisARM "
    "102.75, RODEO 101.89.",
    setting="MNIST, pixels sampled again for every step, 200 bits, encoder 784-200-200-200, decoder 400-200-200-784, "
    "ReLU, uniform prior, Adam with a learning rate of 1e-3 for all, batches of 100, 10 epochs: 5,000 steps, a "
    "two-hundredth of the published number. Bounds are from 100 samples of 500 test images.",
    options={
        "data": "mnist",
        "space": "binary",
        "variables": 200,
        "hidden": 200,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "binarize": "stochastic",
        "epochs": 10,
    },
    cells=(
        Cell(_TWO, "leave-one-out", "unbiased", 1e-3, {**_LEAVE_ONE_OUT, "samples": 2}),
        Cell(_TWO, "unordered set", "unbiased", 1e-3, {"estimator": "unordered-set", "samples": 2}),
        Cell(_TWO, "DisARM", "unbiased", 1e-3, {"estimator": "disarm"}),
        Cell(_TWO, "RODEO", "unbiased", 1e-3, {"estimator": "rodeo", "samples": 2}),
        Cell(_TWO, "double control variates", "unbiased", 1e-3, {"estimator": "double-control-variates", "samples": 2}),
        Cell(_TWO, "REBAR", "unbiased", 1e-3, {"estimator": "rebar"}),
        Cell(_TWO, "Gumbel-softmax", "biased", 1e-3, {"estimator": "gumbel-softmax", "samples": 2}),
        Cell(_TWO, "straight-through", "biased", 1e-3, {"estimator": "straight-through", "samples": 2}),
        Cell(_TWO, "ReinMax", "biased", 1e-3, {"estimator": "reinmax", "samples": 2}),
        Cell(_TWO, "ReinMax-Rao", "biased", 1e-3, {"estimator": "reinmax-rao", "samples": 2, "tau": 0.5}),
        Cell(_TWO, "ReinMax-CV", "biased", 1e-3, {"estimator": "reinmax-cv", "samples": 2, "tau": 0.5}),
        Cell(_MANY, "leave-one-out", "unbiased", 1e-3, {**_LEAVE_ONE_OUT, "samples": 8}),
        Cell(_MANY, "unordered set", "unbiased", 1e-3, {"estimator": "unordered-set", "samples": 8}),
        Cell(
            _MANY, "double control variates", "unbiased", 1e-3, {"estimator": "double-control-variates", "samples": 8}
        ),
    ),
    epochs=(1, 3, 5, 10),
    quick=Quick(
        options={"data": "sample", "variables": 20, "epochs": 2, "evaluate_images": 100},
        note="20 bits, the 4,500 images that come with hardmax, 2 epochs, 100 test images",
    ),
)


CATEGORIES_10X30 = Experiment(
    name="categories-10x30",
    title="30 variables of 10 categories: estimators at equal numbers of evaluations",
    claim="Published for networks of 512-256, grey images: ReinMax reaches a −ELBO of 98.37.",
    setting="MNIST, grey pixels, 30 variables of 10 categories, encoder 784-384-384-300, decoder 300-384-384-784, "
    "ReLU, uniform prior, Adam with a learning rate of 1e-3 for all, batches of 100, 8 epochs: 4,000 steps, far fewer "
    "than the published number. Bounds are from 100 samples of 500 test images.",
    options={
        "data": "mnist",
        "categories": 10,
        "variables": 30,
        "hidden": 384,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "binarize": "none",
        "epochs": 8,
    },
    cells=(
        Cell(_TWO, "leave-one-out", "unbiased", 1e-3, {**_LEAVE_ONE_OUT, "samples": 2}),
        Cell(_TWO, "unordered set", "unbiased", 1e-3, {"estimator": "unordered-set", "samples": 2}),
        Cell(_TWO, "DisARM", "unbiased", 1e-3, {"estimator": "disarm"}),
        Cell(
            _TWO,
            "double control variates",
            "unbiased",
            1e-3,
            {"estimator": "double-control-variates", "samples": 2},
        ),
        Cell(_TWO, "REBAR", "unbiased", 1e-3, {"estimator": "rebar"}),
        Cell(_TWO, "Gumbel-softmax", "biased", 1e-3, {"estimator": "gumbel-softmax", "samples": 2}),
        Cell(_TWO, "straight-through", "biased", 1e-3, {"estimator": "straight-through", "samples": 2}),
        Cell(_TWO, "ReinMax", "biased", 1e-3, {"estimator": "reinmax", "samples": 2}),
        Cell(_TWO, "ReinMax-Rao", "biased", 1e-3, {"estimator": "reinmax-rao", "samples": 2, "tau": 0.5}),
        Cell(_TWO, "ReinMax-CV", "biased", 1e-3, {"estimator": "reinmax-cv", "samples": 2, "tau": 0.5}),
        Cell(_TWO, "Gumbel-Rao", "biased", 1e-3, {"estimator": "gumbel-rao", "samples": 2}),
        Cell(_MANY, "leave-one-out", "unbiased", 1e-3, {**_LEAVE_ONE_OUT, "samples": 8}),
        Cell(_MANY, "unordered set", "unbiased", 1e-3, {"estimator": "unordered-set", "samples": 8}),
        Cell(
            _MANY,
            "double control variates",
            "unbiased",
            1e-3,
            {"estimator": "double-control-variates", "samples": 8},
        ),
    ),
    epochs=(1, 3, 5),
    quick=Quick(
        options={"data": "sample", "categories": 4, "variables": 4, "hidden": 64, "epochs": 2, "evaluate_images": 100},
        note="4 variables of 4 categories, the 4,500 images that come with hardmax, 2 epochs, 100 test images",
    ),
)
