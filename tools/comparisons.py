"""Our methods and the best published numbers that docs/results/how-good.md compares, by task."""

from dataclasses import dataclass

from hardmax.experiments.tables.hashing_retrieval import MEAN_AVERAGE_PRECISION
from hardmax.experiments.tables.metrics import ACCURACY, BOUND, TRAIN_BOUND, Metric
from hardmax.experiments.tables.published import read_published


@dataclass(frozen=True)
class Published:
    """The best published number.

    Attributes:
        value: the number, in the unit of the metric.
        source: method and publication.
        is_checked: whether the number was compared with the publication; others are quoted from memory.
    """

    value: float
    source: str
    is_checked: bool = True


@dataclass(frozen=True)
class Comparison:
    """A line of the page: the best published number of a task, and the best of our methods.

    Attributes:
        task: the task and its setting.
        metric: what is compared.
        published: the best published number.
        page: page of the results and file of the rows, without suffix.
        ours: names of the cells of our methods, of which the best is shown.
        note: restriction of the comparison, for the reader.
    """

    task: str
    metric: Metric
    published: Published
    page: str
    ours: tuple[str, ...]
    note: str = ""


_LORBERBOM = "Lorberbom et al., 2019"
_TABLE1_METHODS = ("posterior-direct", "posterior-then-exact", "the-same-best-of-8-starts")
_TABLE2_METHODS = ("posterior-direct-augmentation-consistency", "the-same-labels-by-cross-entropy")
_REINMAX = ("reinmax", "reinmax-rao", "reinmax-cv", "gumbel-rao")
_BINARY = ("rodeo", "rebar", "reinmax", "straight-through-gumbel-softmax")


def _find_best(file: str, problem: str, metric: Metric) -> float:
    best = metric.best(read_published(f"{file}.json")[metric.key].list_values(problem))
    assert best is not None, (file, problem)
    return best


def _compare_table1(data: str, name: str) -> Comparison:
    problem = f"{data}, k = 50"
    return Comparison(
        f"VAE with one categorical variable of 50 values, {data}",
        BOUND,
        Published(_find_best("table1", problem, BOUND), f"direct, {_LORBERBOM}, 300 epochs"),
        "table1",
        tuple(f"{name}-k-50-{method}" for method in _TABLE1_METHODS),
        "100 epochs",
    )


def _compare_table2(data: str, name: str, metric: Metric) -> Comparison:
    return Comparison(
        f"{data} with 100 labels",
        metric,
        Published(_find_best("table2", f"{data}, 100 labels", metric), f"direct or Gumbel-softmax, {_LORBERBOM}"),
        "table2",
        tuple(f"{name}-100-labels-{method}" for method in _TABLE2_METHODS),
    )


def _compare_categories(categories: int, variables: int) -> Comparison:
    problem = f"{categories} x {variables}"
    return Comparison(
        f"VAE with {variables} variables of {categories} categories, MNIST",
        TRAIN_BOUND,
        Published(_find_best("categorical_vae", problem, TRAIN_BOUND), "ReinMax, Liu et al., 2023", is_checked=False),
        "categorical-vae",
        tuple(f"{categories}-x-{variables}-{method}" for method in _REINMAX),
    )


def _compare_bits(problem: str, name: str, note: str) -> Comparison:
    return Comparison(
        f"VAE with 200 bits, {problem}",
        TRAIN_BOUND,
        Published(
            _find_best("binary_vae", problem, TRAIN_BOUND), "RODEO, Shi et al., 2022, 10^6 steps", is_checked=False
        ),
        "binary-vae",
        tuple(f"{name}-{method}-rate-falls-to-zero" for method in _BINARY),
        note,
    )


def _compare_few_labels() -> Comparison:
    return Comparison(
        "MNIST with 100 labels, with convolutions",
        ACCURACY,
        Published(99.04, "auxiliary deep generative model, Maaløe et al., 2016, without convolutions"),
        "few-labels",
        ("mnist-all",),
    )


def _compare_hashing(bits: int) -> Comparison:
    metric, problem = MEAN_AVERAGE_PRECISION, f"MNIST, {bits} bits"
    return Comparison(
        f"retrieval by codes without labels, {problem}",
        metric,
        Published(_find_best("hashing_retrieval", problem, metric), "HashGAN, Dizaji et al., 2018", is_checked=False),
        "hashing-retrieval",
        (f"mnist-{bits}-bits-neighbours", f"mnist-{bits}-bits-walks-distortions"),
    )


def _compare_completion(count: int, value: float) -> Comparison:
    return Comparison(
        f"MNIST completed from {count} quadrant{'s' * (count > 1)}",
        BOUND,
        Published(value, "CVAE, Pyro's tutorial"),
        "completion",
        tuple(f"mnist-{count}-quadrant{'s' * (count > 1)}-k-{k}" for k in (4, 8)),
    )


COMPARISONS = (
    *(_compare_table1(data, name) for data, name in (("MNIST", "mnist"), ("Fashion-MNIST", "fashion-mnist"))),
    *(
        _compare_table2(data, name, metric)
        for data, name in (("MNIST", "mnist"), ("Fashion-MNIST", "fashion-mnist"))
        for metric in (ACCURACY, BOUND)
    ),
    _compare_few_labels(),
    *map(_compare_hashing, (16, 32, 64)),
    *(_compare_categories(*size) for size in ((8, 4), (4, 24), (8, 16), (16, 12), (64, 8), (10, 30))),
    *(
        _compare_bits(data, name, "200,000 steps")
        for data, name in (("MNIST", "mnist"), ("Fashion-MNIST", "fashion-mnist"))
    ),
    *(_compare_completion(count, value) for count, value in ((1, 71.8), (2, 51.0), (3, 24.2))),
)
