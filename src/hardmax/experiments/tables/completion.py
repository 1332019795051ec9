"""Pluralistic completion, six methods compared: likelihood of the true pixels, error of the best of ten, diversity."""

from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Options, Quick
from hardmax.experiments.tables.metrics import Metric
from hardmax.experiments.tables.table1 import OURS

EPOCHS = 10
DATA = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist"}
MASKS = {"1 quadrant": "quadrants-1", "2 quadrants": "quadrants-2", "3 quadrants": "quadrants-3", "centre": "centre"}
_KNOWN, _NOTES = "known", "the notes'"

METHODS: dict[str, tuple[str, Options]] = {
    "network": (_KNOWN, {"components": 0, "latent": 0}),
    "CVAE": (_KNOWN, {"components": 0}),
    "k = 1": (_KNOWN, {"components": 1}),
    "k = 4": (OURS, {"components": 4}),
    "k = 8": (OURS, {"components": 8}),
    "published": (_NOTES, {"components": 8, "loss": "published", "choice": "distance"}),
}


COMPLETION = Gallery(
    name="completion",
    title="Several completions of one image",
    claim="An image with a hole has many good completions. The model here has a mixture of Gaussians as the prior of "
    "its latent, and an arg max selects a component. Compared with a single Gaussian, the mixture should give the "
    "true pixels a higher likelihood, and the best of ten completions should be closer to them. Pyro's tutorial on "
    "conditional VAEs publishes for MNIST with 1, 2 and 3 visible quadrants a −ELBO of 71.8, 51.0 and 24.2, and "
    "100.4, 61.9 and 25.4 for a deterministic network.",
    setting="Grey images, hidden pixels as Bernoulli variables. Networks 784-500-500, a latent of 50 dimensions, "
    "decoder 550-500-500-784, Adam with a learning rate of 1e-3 that falls to zero over the second half, 250 images "
    f"per step, {EPOCHS} epochs; the model with the best validation bound is evaluated. The protocol is that of the "
    "tutorial: the same quadrants, the same grey pixels as Bernoulli variables, the same network widths, −ELBO from "
    "10 samples on the 10,000 test images. We train on 50,000 images and select the model on the other 10,000; the "
    "tutorial trains on 60,000, selects on the test images, and has a latent of 200 dimensions.",
    options={"model": "completion", "epochs": EPOCHS, "batch_size": 250, "evaluate_images": 2000},
    cells=tuple(
        Cell(f"{data}, {what}", method, group, 1e-3, {"data": name, "mask": mask, **options})
        for data, name in DATA.items()
        for what, mask in MASKS.items()
        for method, (group, options) in METHODS.items()
    ),
    seeds=(0, 1, 2),
    figure=FigureSpec(
        "completions",
        {
            "rows": 5,
            "shown": 8,
            "images": 10_000,
            "samples": 10,
            "completions": 10,
            "judge_epochs": 3,
            "judge_images": 50_000,
        },
    ),
    metrics=(
        Metric("negative_elbo", "−ELBO"),
        Metric("nll", "−log p, 10 weights"),
        Metric("psnr", "PSNR", "dB", higher=True),
        Metric("psnr_best", "PSNR, best of 10", "dB", higher=True),
        Metric("psnr_best_half", "PSNR, best of 10 at temperature ½", "dB", higher=True),
        Metric("ssim", "SSIM", "", higher=True, digits=3),
        Metric("ssim_best", "SSIM, best of 10", "", higher=True, digits=3),
        Metric("ssim_best_half", "SSIM, best of 10 at temperature ½", "", higher=True, digits=3),
        Metric("frechet", "Fréchet", ""),
        Metric("diversity", "difference", "grey values of 255", scale=255, digits=1, compared=False),
        Metric("distinct", "classes", "", compared=False),
        Metric("entropy", "entropy", compared=False),
        Metric("sure", "confident", "percent", higher=True, scale=100, digits=1),
        Metric("right", "correct", "percent", higher=True, scale=100, digits=1),
        Metric("components", "components", "", digits=1, compared=False),
    ),
    notes=(
        "*network* is deterministic. *CVAE* has a standard normal prior. The models *k = ...* have a prior of *k* "
        "Gaussians, computed from the visible part. *published* is the loss of the notes on pluralistic completion "
        "as printed, which has no minimum.",
        "PSNR and SSIM are those of the hidden pixels. Completions are samples of the model; at temperature ½ they "
        "have half the spread around the mean of their component, at which a single Gaussian loses its variety and a "
        "mixture keeps it. *Fréchet* is the Fréchet distance between completed and true test images, on the features "
        "of a small evaluation classifier that is trained here on the training images: it is not the FID, and "
        "comparable only within this table. *difference* is the difference of two completions of an image within its "
        "hole. *classes* and *entropy* are the number and the entropy of the classes that the classifier predicts "
        "for ten completions of an image. Diversity is useful only if completions are realistic: *confident* is the "
        "share of completions to which the classifier gives one class with a probability of at least 0.9, *correct* "
        "the share that it assigns to the class of the image.",
    ),
    quick=Quick(
        options={"data": "sample", "epochs": 1, "batch_size": 250, "evaluate_images": 100, "hidden": 100},
        note="the 4,500 images that come with hardmax in place of each data set, 1 epoch, hidden layers of 100, 100 "
        "test images",
        figure_options={
            "rows": 3,
            "images": 100,
            "samples": 2,
            "completions": 3,
            "judge_epochs": 1,
            "judge_images": 500,
        },
    ),
)
