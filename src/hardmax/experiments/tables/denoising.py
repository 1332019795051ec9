"""Structured prediction: binary images are cleaned by pixels with couplings, trained with several losses."""

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import EXACT_IMAGES, PIXEL_ERROR

EPOCHS, WARMUP, BATCH = 10, 5, 32
EXAMPLES = 2000
LR = 5e-3
PIXELS = 28 * 28

PROBLEMS: dict[str, Options] = {"MNIST": {"images": "mnist"}, "Fashion-MNIST": {"images": "fashion-mnist"}}
ALONE, COUPLED = "pixels alone", "couplings"
METHODS: dict[str, tuple[str, Options]] = {
    "linear, cross-entropy": (ALONE, {"network": "linear", "loss": "pseudo-likelihood"}),
    "conv, cross-entropy": (ALONE, {"network": "conv", "loss": "pseudo-likelihood"}),
    "U-Net, cross-entropy": (ALONE, {"network": "u-net", "loss": "pseudo-likelihood"}),
    "linear, hinge": (COUPLED, {"network": "linear-couplings", "loss": "hinge"}),
    "conv, pseudo-likelihood": (COUPLED, {"loss": "pseudo-likelihood"}),
    "conv, hinge": (COUPLED, {"loss": "hinge"}),
    "conv, SPO+": (COUPLED, {"loss": "spo-plus"}),
    "conv, Fenchel-Young": (COUPLED, {"loss": "fenchel-young", "samples": 1}),
    "conv, I-MLE": (COUPLED, {"loss": "implicit-mle", "samples": 1, "step": float(PIXELS)}),
    "conv, direct": (COUPLED, {"loss": "direct"}),
    "conv, direct, towards": (COUPLED, {"loss": "direct", "towards": True}),
    "conv, direct, noise": (COUPLED, {"loss": "direct", "samples": 1}),
    "conv, direct, towards, noise": (COUPLED, {"loss": "direct", "samples": 1, "towards": True}),
    "conv, direct, towards, noise, epsilon 10": (
        COUPLED,
        {"loss": "direct", "samples": 1, "towards": True, "epsilon": 10.0},
    ),
    "conv, hinge, then direct, noise": (COUPLED, {"loss": "direct", "samples": 1, "warmup": WARMUP}),
    "conv, hinge, then direct, towards, noise": (
        COUPLED,
        {"loss": "direct", "samples": 1, "towards": True, "warmup": WARMUP},
    ),
    "U-Net, hinge": (COUPLED, {"network": "u-net-couplings", "loss": "hinge"}),
    "U-Net, Fenchel-Young": (COUPLED, {"network": "u-net-couplings", "loss": "fenchel-young", "samples": 1}),
}

DECISIONS_DENOISING = Experiment(
    name="decisions-denoising",
    title="Denoising of binary images, with and without couplings of the pixels",
    claim="McAllester, Hazan and Keshet, 2010: direct loss minimization trains a structured predictor for the loss "
    "that counts, by the difference of two arg maxes. Here the prediction is an image, and the loss the number of "
    "wrong pixels. Do couplings, with an exact arg max, clean better than pixels alone, and which loss trains them "
    "best?",
    setting="Images of 28 x 28 pixels, rounded to zeros and ones; 15 % of the pixels are flipped, and a block of "
    "about 7 x 7 pixels is random. A network predicts a score for each pixel and, with couplings, how strongly it is "
    "attracted by the pixels on its right and below; min-cut computes the best image, exactly. Networks: linear (of "
    "5 x 5 pixels; 26 weights, with couplings 78), conv (four layers of 3 x 3 convolutions, 16 channels; 4,945 "
    "weights, with couplings 5,235) and U-Net (three resolutions; 5,529 and 5,675). "
    f"{EXAMPLES:,} training and 1,000 test images; Adam with a learning rate of {LR:g} that decays linearly in the "
    f"second half, batches of {BATCH}, {EPOCHS} epochs. The same images, noise and learning rate for all cells of a "
    "seed.",
    options={
        "model": "decisions",
        "data": "denoising",
        "examples": EXAMPLES,
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "lr_schedule": "linear",
    },
    cells=tuple(
        Cell(problem, method, group, LR, {**problem_options, **options})
        for problem, problem_options in PROBLEMS.items()
        for method, (group, options) in METHODS.items()
    ),
    seeds=(0, 1, 2),
    view="methods",
    metrics=(PIXEL_ERROR, EXACT_IMAGES),
    figures=(CurvesFigure((tuple(Panel("epoch", problem) for problem in PROBLEMS),)),),
    notes=(
        "The linear network without couplings is logistic regression. Without couplings, the loss is the cross-entropy "
        "of the pixels, and the arg max a threshold.",
        "Hinge is the structured hinge loss with the number of wrong pixels as its margin; adding this margin changes "
        "only the scores of single pixels, so that min-cut stays exact. SPO+ is the same loss of doubled scores. "
        "Pseudo-likelihood predicts each pixel from its clean neighbours, which are unknown when an image is cleaned.",
        "Direct moves away from worse images, or towards better ones. Lines with *noise* use one sample of logistic "
        "noise, and so do Fenchel-Young and I-MLE. I-MLE has a step that moves the score of each pixel by one.",
        f"*hinge, then direct*: {WARMUP} epochs of each; McAllester et al. start from a trained model, too.",
    ),
    quick=Quick(
        options={
            **{"images": "sample", "epochs": 2, "examples": 64, "validation_examples": 16, "test_examples": 64},
            **{"warmup": 1, "hidden": 4, "batch_size": 4},
        },
        note="64 training images of the sample for both data sets, 2 epochs of 16 steps, 4 channels",
    ),
)
