"""Table 2: VAEs with a discrete and a continuous latent and few labels; its ablation; its form with grey input."""

from dataclasses import replace

from hardmax.experiments.tables import table1
from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import ACCURACY, BOUND, SAMPLED
from hardmax.experiments.tables.table1 import OURS, PAPER

# Each with its augmentation: clothes may be mirrored, digits must not be.
DATA: dict[str, Options] = {
    "MNIST": {"data": "mnist", "augment": "elastic"},
    "Fashion-MNIST": {"data": "fashion-mnist", "augment": "flip"},
}
LABELS = (50, 100, 300, 600, 1200)
EPOCHS = 15
SEEDS = (0, 1, 2)

# Recognition is for attributes; set explicitly, so that the table does not depend on a default.
OPTIONS: Options = {"model": "mixed", "epochs": EPOCHS, "recognition": 0.0}
PLAIN: Options = {"consistency": 0.0, "augment": "none"}

# The first two use the estimators of the code released with the paper; the bound and the labels are the same for all.
METHODS: dict[str, tuple[str, Options]] = {
    "direct": (PAPER, {**table1.METHODS["direct"][1], **PLAIN}),
    "Gumbel-softmax": (PAPER, {**table1.METHODS["Gumbel-softmax"][1], **PLAIN}),
    "posterior direct": (OURS, PLAIN),
    "posterior direct, augmentation, consistency": (OURS, {}),
    "the same, labels by cross-entropy": (OURS, {"supervision": "cross-entropy"}),
}
QUICK = Quick(
    options={"data": "sample", "epochs": 1, "head_epochs": 0, "batch_size": 500, "evaluate_images": 100},
    note="the 4,500 images that come with hardmax in place of each data set, 1 epoch of 9 steps, 100 test images",
)
SETTING = (
    "One category for each class and a Gaussian of 20 dimensions for each category; encoder 784-400-200, heads "
    "200-100-10 and 200-100-66-40, decoder 200-400-784, Adam with a learning rate of 1e-3 that falls to zero over the "
    f"second half, 100 images and 50 labelled images per step, {EPOCHS} epochs, the bound from the third on. Labelled "
    "images are sampled from the 50,000 training images, the same number of each class; every seed has different "
    "labelled images and initial weights. Accuracy is that of the arg max. The bound is exact in the category, with "
    "one sample of the Gaussian."
)


def name_problem(data: str, labels: int) -> str:
    """Return the problem of the cells of a data set and a number of labels."""
    return f"{data}, {labels} labels"


def _list_cells() -> tuple[Cell, ...]:
    return tuple(
        Cell(name_problem(data, labels), method, group, 1e-3, {**data_options, "labels": labels, **options})
        for data, data_options in DATA.items()
        for labels in LABELS
        for method, (group, options) in METHODS.items()
    )


TABLE2 = Experiment(
    name="table2",
    title="Table 2: accuracy and bound of semi-supervised VAEs, by number of labels",
    claim="The paper: direct optimization classifies better than Gumbel-softmax at every number of labels, with "
    "about the same bound.",
    setting=f"Pixels rounded at 0.5, also for the encoder. {SETTING}",
    options=OPTIONS,
    cells=_list_cells(),
    seeds=SEEDS,
    metrics=(ACCURACY, BOUND, SAMPLED),
    epochs=(1, 5, 10, EPOCHS),
    view="grid",
    published="table2.json",
    figures=(),
    notes=(
        "The accuracy of a sample is that of a category sampled from the encoder, as in the code released with the "
        "paper.",
    ),
    quick=QUICK,
)


_PIECES, _LOSSES = "pieces", "use of the labels"
_NO_VAE: Options = {"elbo": 0.0}
_NO_CONSISTENCY: Options = {"consistency": 0.0}

ABLATIONS: dict[str, tuple[str, Options]] = {
    "labels alone": (_PIECES, {**_NO_VAE, **PLAIN}),
    "labels, augmentation": (_PIECES, {**_NO_VAE, **_NO_CONSISTENCY}),
    "consistency, no VAE": (_PIECES, _NO_VAE),
    "VAE, no consistency": (_PIECES, _NO_CONSISTENCY),
    "VAE and consistency": (_PIECES, {}),
    "the same by cross-entropy": (_LOSSES, {"supervision": "cross-entropy"}),
    "the same by Hamming loss": (_LOSSES, {"supervision": "hamming"}),
    # The released code first makes 1,199 passes over its labelled images: with 100 labels, about five of our epochs.
    "labelled images first": (_LOSSES, {"schedule": "labelled-first", "head_epochs": 5}),
}
# Rows keep the name that a method had when they were made.
_NAMES_IN_ROWS = {"labelled images first": "labelled pictures first"}

TABLE2_ABLATION = Experiment(
    name="table2-ablation",
    title="Ablation of table 2: 100 labels",
    claim="How much do labels, augmentation, consistency and the VAE contribute, and does it matter how labels are "
    "used?",
    setting=f"Pixels rounded at 0.5, also for the encoder; 100 labels. {SETTING}",
    options={**OPTIONS, "labels": 100},
    cells=tuple(
        Cell(data, method, group, 1e-3, {**data_options, **options}, _NAMES_IN_ROWS.get(method))
        for data, data_options in DATA.items()
        for method, (group, options) in ABLATIONS.items()
    ),
    seeds=SEEDS,
    metrics=(ACCURACY, BOUND, SAMPLED),
    epochs=(1, 5, 10, EPOCHS),
    figures=(CurvesFigure((tuple(Panel("epoch", data) for data in DATA),)),),
    notes=(
        "Without the VAE, the bound is that of an untrained decoder.",
        "Labelled images first, as in the code released with the paper: five epochs on the labelled images only, "
        "then the other images only, with the bound as the loss; no consistency.",
    ),
    quick=Quick(
        options={**QUICK.options, "epochs": 2, "head_epochs": 1},  # one epoch without the bound, and one with it
        note="the 4,500 images that come with hardmax in place of each data set, 2 epochs of 9 steps, 100 test images",
    ),
)


_METHODS = ("direct", "posterior direct, augmentation, consistency")

TABLE2_GREY = replace(
    TABLE2,
    name="table2-grey",
    title="Table 2 with grey images for the encoder",
    claim="In the code released with the paper, the encoder gets grey images where there are labels, and rounded "
    "images elsewhere; here it always gets grey images. The input of the encoder is free: the bound is that of the "
    "rounded images.",
    setting=f"Pixels rounded at 0.5 for the decoder, grey for the encoder. {SETTING}",
    options={**TABLE2.options, "encoder_input": "grey"},
    cells=tuple(cell for cell in TABLE2.cells if cell.method in _METHODS),
)
