"""The dVAE, images as tokens: estimators of the encoder's gradient compared at an equal number of steps."""

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import ALIVE, BOUND, ERROR, PERPLEXITY, PSNR

EPOCHS = 5
FACES_EPOCHS = 30  # of 40 steps; those of Fashion-MNIST have 500

DATA: dict[str, Options] = {
    "Fashion-MNIST": {"data": "fashion-mnist", "codes": 128, "epochs": EPOCHS},
    "faces": {"data": "faces", "codes": 256, "epochs": FACES_EPOCHS, "batch_size": 50},
}
METHODS: dict[str, tuple[str, Options]] = {
    "Gumbel-softmax": ("biased", {"estimator": "gumbel-softmax"}),
    "Gumbel-softmax, hard": ("biased", {"estimator": "gumbel-softmax", "hard": True, "tau_floor": 0.5}),
    "straight-through": ("biased", {"estimator": "straight-through"}),
    "ReinMax": ("biased", {"estimator": "reinmax"}),
    "posterior direct": ("ours", {"estimator": "shortlist-direct", "epsilon": 0.1}),
    "posterior direct, epsilon 1": ("ours", {"estimator": "shortlist-direct"}),
    "vector quantization": ("no sampling", {"quantize": "nearest"}),
}

DVAE = Experiment(
    name="dvae",
    title="dVAE: tokens of images, by estimator",
    claim="The lecture notes train a dVAE with Gumbel-softmax. How good are other estimators of the gradient through "
    "the arg max, with the same number of steps?",
    setting="Fashion-MNIST: 28 x 28 grey pixels as 7 x 7 tokens of 128 codes, 100 images per step. Faces, the data "
    "set `faces`, which you provide: 64 x 64 RGB pixels as 8 x 8 tokens of 256 codes, 50 images per step. Gaussian "
    "pixels with a learned variance, uniform prior, the weight of the KL grows from 0 to 1 over the first fifth of "
    "the run; convolutional networks of 32 channels and more, Adam with a learning rate of 2e-3 that falls to zero "
    "over the second half. Codes that are hardly used are replaced during the first half. Bounds, in nats of "
    "densities, are from one sample of the tokens of at most 2,000 test images; PSNR (decibels), error, perplexity and "
    "alive codes are those of the most likely tokens.",
    options={"model": "dvae", "epsilon": 1.0},  # used by direct only
    cells=tuple(
        Cell(data, method, group, 2e-3, {**data_options, **options})
        for data, data_options in DATA.items()
        for method, (group, options) in METHODS.items()
    ),
    seeds=(0, 1, 2),
    metrics=(BOUND, PSNR, ERROR, PERPLEXITY, ALIVE),
    epochs=(1, EPOCHS, FACES_EPOCHS),
    figures=(CurvesFigure((tuple(Panel("epoch", data) for data in DATA),)),),
    notes=(
        "The temperature of Gumbel-softmax falls from 1 to 0.25 over three quarters of the run, that of the hard "
        "form to 0.5. Posterior direct (epsilon 0.1) evaluates four of the tokens of an image in every step, each "
        "with a list of four codes: 13 evaluations of the decoder; the other estimators take one. Vector "
        "quantization samples nothing: its bound is that of one z, with a KL of n log K.",
        "A code is alive if it is used at least a tenth as often as under uniform use.",
    ),
    quick=Quick(
        options={
            "data": "sample",
            "codes": 32,
            "epochs": 1,
            "batch_size": 100,
            "width": 8,
            "dimensions": 8,
            "revive_every": 5,
            "evaluate_images": 100,
        },
        note="the 4,500 images that come with hardmax in place of each data set, 32 codes, 8 channels, 1 epoch of 45 "
        "steps, 100 test images",
    ),
)
