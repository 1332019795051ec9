"""Retrieval by codes without labels, by the protocol of unsupervised hashing: mAP on MNIST and Fashion-MNIST."""

from hardmax.experiments.tables.declaration import Cell, CurvesFigure, Experiment, Options, Panel, Quick
from hardmax.experiments.tables.metrics import Metric

BITS = (16, 32, 64)
EPOCHS = 8
QUERIES = 1000

# Chosen by the mAP of validation images, with distortions that keep the class.
DATA: dict[str, tuple[str, Options]] = {
    "MNIST": ("mnist", {"epochs": EPOCHS, "neighbours": 5, "walk": 8, "temperature": 0.5, "augment": "affine"}),
    "Fashion-MNIST": (
        "fashion-mnist",
        {"epochs": EPOCHS // 2, "neighbours": 5, "walk": 20, "temperature": 0.3, "augment": "shift"},
    ),
}

MEAN_AVERAGE_PRECISION = Metric(
    "mean_average_precision", "mean average precision", "percent", higher=True, scale=100, digits=1
)
MEAN_AVERAGE_PRECISION_1000 = Metric(
    "mean_average_precision_1000", "mean average precision@1000", "percent", higher=True, scale=100, digits=1
)
PRECISION_1000 = Metric("precision_1000", "precision@1000", "percent", higher=True, scale=100, digits=1)

HASHING_RETRIEVAL = Experiment(
    name="hashing-retrieval",
    title="Retrieval by codes without labels: the protocol of unsupervised hashing",
    claim="Papers on unsupervised hashing report the mean average precision on MNIST. How high is it for codes learned "
    "from pairs of neighbours, and what do walks along neighbours and distorted images add?",
    setting=f"{QUERIES:,} test images, the first 100 of each class, are searched for among the other 69,000 images by "
    "Hamming distance; images of the query's class are relevant. 50,000 of the 69,000 are trained on; the queries are "
    "not. Encoder 784-500-500-bits, InfoNCE loss, straight-through, Adam with a learning rate of 1e-3 that falls to "
    "zero over the second half, batches of 200 pairs. *Neighbours*, the default: 4 epochs of pairs with one of the 20 "
    "nearest images, temperature 0.2. *Walks, distortions*: pairs with the end of a walk to one of the 5 nearest "
    "images, both images distorted: 8 steps, affine maps, temperature 0.5 and 8 epochs on MNIST; 20 steps, shifts, "
    "temperature 0.3 and 4 epochs on Fashion-MNIST. Training uses no labels.",
    options={"model": "hashing", "searched": "rest", "evaluate_images": QUERIES, "batch_size": 200},
    cells=tuple(
        Cell(f"{data}, {bits} bits", method, group, 1e-3, {"data": file, "bits": bits, **options})
        for data, (file, tuned) in DATA.items()
        for bits in BITS
        for method, group, options in (
            ("neighbours", "default", {"epochs": 4}),
            ("walks, distortions", "tuned", tuned),
        )
    ),
    seeds=(0, 1, 2),
    view="grid",
    metrics=(MEAN_AVERAGE_PRECISION, PRECISION_1000, MEAN_AVERAGE_PRECISION_1000),
    epochs=(1, EPOCHS),
    published="hashing_retrieval.json",
    figures=(
        CurvesFigure(
            tuple(tuple(Panel("epoch", f"{data}, {bits} bits") for bits in BITS) for data in DATA),
        ),
    ),
    notes=(
        "Codes at the same distance are averaged over all their orders, exactly. Mean average precision is that of the "
        "ranking of all 69,000 images; @1000 is that of the first 1,000, divided by the number of relevant ones there.",
        "The queries are the same for all seeds, so standard errors are those of training.",
    ),
    quick=Quick(
        options={"data": "sample", "epochs": 1, "batch_size": 100, "evaluate_images": 100},
        note="the 4,500 images that come with hardmax in place of each data set, 1 epoch of 45 steps, 100 queries",
    ),
)
