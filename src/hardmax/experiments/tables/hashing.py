"""Semantic hashing: retrieval by codes of bits, by number of bits and estimator, compared with floats and pixels."""

from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Options, Quick
from hardmax.experiments.tables.metrics import Metric
from hardmax.experiments.tables.table1 import OURS

EPOCHS = 4
BITS = (16, 32, 64)
_BASELINE, _LABELLED = "baseline", "with labels"
METHODS: dict[str, tuple[str, Options]] = {
    "straight-through": (OURS, {"estimator": "straight-through"}),
    "ReinMax": (OURS, {"estimator": "reinmax"}),
    "Gumbel-softmax": (OURS, {"estimator": "gumbel-softmax", "tau": 0.5}),
    "DisARM": (OURS, {"estimator": "disarm"}),
    "labels": (_LABELLED, {"estimator": "straight-through", "pairs": "labels"}),
}


def _make_precision(k: int) -> Metric:
    return Metric(f"precision_{k}", f"precision@{k}", "percent", higher=True, scale=100, digits=1)


HASHING = Gallery(
    name="hashing",
    title="Semantic hashing: the nearest images by codes of bits",
    claim="Do binary codes, learned through the arg max, find similar images as well as pixels do, and which estimator "
    "of the gradient learns the best codes?",
    setting="Fashion-MNIST: for each of 10,000 test images, the nearest of 50,000 training images are searched; "
    "precision is the share of them that are of the query's class. Encoder 784-500-500-bits, InfoNCE loss at "
    "temperature 0.2: an image and one of its 20 nearest neighbours by the Hellinger distance of pixels must be "
    "distinguished from 199 other pairs; grey images, Adam with a learning rate of 1e-3 that falls to zero over the "
    f"second half, {EPOCHS} epochs. No labels are used, except in the lines *labels*, which pair images of the same "
    "class and use straight-through.",
    options={"data": "fashion-mnist", "epochs": EPOCHS},
    cells=(
        *(
            Cell(f"{bits} bits", method, group, 1e-3, {"model": "hashing", "bits": bits, **options})
            for bits in BITS
            for method, (group, options) in METHODS.items()
        ),
        Cell(
            "64 floats",
            "Gaussian VAE",
            _BASELINE,
            1e-3,
            {"model": "mixed", "labels": 0, "categories": 1, "continuous": 64, "binarize": "none"},
        ),
    ),
    figure=FigureSpec("neighbours", {"rows": 4, "found": 4, "queries": 10_000}),
    metrics=(_make_precision(100), _make_precision(10), _make_precision(1)),
    notes=(
        "For codes at equal distance from a query, precision is the mean over all their orders. The means of the "
        "Gaussian VAE, a mixed VAE with one category, and the pixels are compared by Euclidean distance.",
        "Every row of a panel shows a test image and the nearest training images.",
    ),
    quick=Quick(
        options={"data": "sample", "epochs": 1, "batch_size": 100, "evaluate_images": 100},
        note="the 4,500 images that come with hardmax, 1 epoch of 45 steps, 210 queries",
        figure_options={"queries": 210},
    ),
)
