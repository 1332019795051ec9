"""Semantic hashing: retrieval by codes of bits, by number of bits and estimator, compared with floats and pixels."""

from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Options, Quick
from hardmax.experiments.tables.metrics import Metric
from hardmax.experiments.tables.table1 import OURS

EPOCHS = 4
BITS = (16, 32, 64)
_BASELINE, _TAUGHT = "baseline", "with labels"
WAYS: dict[str, tuple[str, Options]] = {
    "straight-through": (OURS, {"estimator": "straight-through"}),
    "ReinMax": (OURS, {"estimator": "reinmax"}),
    "Gumbel-softmax": (OURS, {"estimator": "gumbel-softmax", "tau": 0.5}),
    "DisARM": (OURS, {"estimator": "disarm"}),
    "labels": (_TAUGHT, {"estimator": "straight-through", "pairs": "labels"}),
}


def _precision(k: int) -> Metric:
    return Metric(f"precision_{k}", f"precision@{k}", "percent", higher=True, scale=100, digits=1)


HASHING = Gallery(
    name="hashing",
    title="Semantic hashing: the nearest pictures by codes of bits",
    claim="Can bits that are learned through the arg max find alike pictures as well as pixels do, and which estimator "
    "of the gradient learns the best ones?",
    setting="Fashion-MNIST: 10,000 test pictures are searched for among 50,000 training pictures, and the share of the "
    "nearest that are of the query's class is counted. Encoder 784-500-500-bits, InfoNCE at temperature 0.2 between a "
    "picture and one of its 20 nearest neighbours by the light of its pixels, told from 199 other pairs; grey "
    f"pictures, Adam at 1e-3 that falls to zero over the second half, {EPOCHS} epochs. No label is looked at, but in "
    "the lines *labels*, which pair pictures of one class, by straight-through.",
    options={"data": "fashion-mnist", "epochs": EPOCHS},
    cells=(
        *(
            Cell(f"{bits} bits", way, group, 1e-3, {"model": "hashing", "bits": bits, **options})
            for bits in BITS
            for way, (group, options) in WAYS.items()
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
    metrics=(_precision(100), _precision(10), _precision(1)),
    notes=(
        "Of codes that are equally far from a query, precision is the mean over their orders. Means of the Gaussian "
        "VAE, a mixed VAE with one category, and pixels are compared by Euclidean distance.",
        "Every row of a panel is a test picture and the nearest training pictures.",
    ),
    quick=Quick(
        options={"data": "sample", "epochs": 1, "batch_size": 100, "evaluate_images": 100},
        note="the 4,500 pictures that come with hardmax, 1 epoch of 45 steps, 210 queries",
        figure_options={"queries": 210},
    ),
)
