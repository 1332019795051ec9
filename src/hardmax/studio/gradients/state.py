"""The state of the gradient lab: the problem, and which estimators are measured. Imports no torch."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from hardmax.errors import ArgumentError
from hardmax.estimators.registry import ESTIMATORS

SpaceName = Literal["categorical", "bits", "pairwise", "subset", "path"]
FunctionName = Literal["curved", "linear", "squared", "table", "parity"]

SPACES: dict[str, str] = {
    "categorical": "one of k categories",
    "bits": "independent bits",
    "pairwise": "bits that interact in pairs",
    "subset": "subset of items",
    "path": "path on a grid",
}
# Smallest, default and largest size; what it counts; the functions f that are possible, first the default.
SIZES: dict[str, tuple[int, int, int]] = {
    "categorical": (2, 5, 12), "bits": (1, 4, 8), "pairwise": (2, 3, 5), "subset": (3, 5, 8), "path": (2, 3, 4),
}  # fmt: skip
SIZE_NAMES = {"categorical": "categories", "bits": "bits", "pairwise": "bits", "subset": "items", "path": "side"}
FUNCTIONS: dict[str, tuple[FunctionName, ...]] = {
    "categorical": ("curved", "linear"),
    "bits": ("squared", "linear", "table", "parity"),
    "pairwise": ("squared", "linear", "table", "parity"),
    "subset": ("squared", "linear"),
    "path": ("linear", "squared"),
}
FUNCTION_NAMES: dict[str, str] = {
    "curved": "curved between the categories",
    "linear": "sum of worths",
    "squared": "squared error of the sum",
    "table": "a table",
    "parity": "parity",
}
MOST_TABLE_BITS = 4
MOST_SCORE, MOST_WORTH = 4.0, 3.0
MOST_DRAWS, MOST_SAMPLES, MOST_ESTIMATORS = 10_000, 16, 8
# Range of epsilon and tau on a slider, as powers of ten.
PARAMETER_RANGE = (-2.0, 1.0)
_SCORES = (0.5, 0.0, 1.0, -1.0, 0.2, -0.4, 0.8, -0.2, 0.3, -0.6, 0.1, 0.6)
_WORTHS = (1.0, 0.5, -1.0, 2.0, 0.0, 1.5, -0.5, -2.0, 0.8, -1.2, 0.3, 1.2)


@dataclass(frozen=True)
class LabState:
    """What the gradient lab shows; the address of the page holds the fields that differ from their defaults."""

    space: SpaceName = "categorical"
    """The space of z."""
    size: int = 0
    """Number of categories, bits or items, or side of the grid; 0 is the default of the space."""
    chosen: int = 2
    """Number of items in a subset."""
    scores: tuple[float, ...] = ()
    """The scores, flat; none: an example."""
    f: Literal["default", "curved", "linear", "squared", "table", "parity"] = "default"
    """Kind of f."""
    worth: tuple[float, ...] = ()
    """The numbers that f is made of, flat; none: an example."""
    target: float = 1.0
    """Target of the squared error."""
    estimators: tuple[str, ...] = ("direct:1", "gumbel-softmax:0.5", "straight-through:1", "reinforce")
    """Names of estimators, as for hardmax train, with their epsilon or tau after a colon."""
    samples: int = 0
    """Number of samples of every estimator; 0: as many as fit the same number of evaluations of f."""
    draws: int = 1000
    """Number of estimates of every estimator."""
    seed: int = 0
    """Seed of the noise."""
    horizontal: int = -1
    """Component of the gradient on the horizontal axis of the clouds; -1: the first, or of a path the second cell."""
    vertical: int = -1
    """Component of the gradient on the vertical axis of the clouds; -1: the second, or of a path that below it."""

    def __post_init__(self) -> None:
        least, default, most = SIZES[self.space]
        object.__setattr__(self, "size", self.size or default)
        _check_range("size", self.size, least, most)
        _check_range("chosen", self.chosen, 1, 8)
        if self.f == "default":
            object.__setattr__(self, "f", FUNCTIONS[self.space][0])
        if self.f not in self.functions:
            raise ArgumentError(f"f={self.f} is not possible here; there are: {', '.join(self.functions)}")
        if self.space == "subset" and self.chosen >= self.size:
            object.__setattr__(self, "chosen", self.size - 1)
        object.__setattr__(self, "scores", _fit(self.scores, self.score_count, _SCORES, MOST_SCORE))
        object.__setattr__(self, "worth", _fit(self.worth, self.worth_count, _WORTHS, MOST_WORTH))
        _check_range("target", self.target, -10, 10)
        _check_range("samples", self.samples, 0, MOST_SAMPLES)
        _check_range("draws", self.draws, 2, MOST_DRAWS)
        _check_range("seed", self.seed, 0, 2**31)
        _check_range("the number of estimators", len(self.estimators), 0, MOST_ESTIMATORS)
        for text in self.estimators:
            parse_estimator(text)
        # The gradient for the first cell of a path is zero: every path has it.
        defaults = (1, self.size + 1) if self.space == "path" else (0, 1)
        for name, default in zip(("horizontal", "vertical"), defaults, strict=True):
            component = getattr(self, name) if getattr(self, name) >= 0 else default
            # A component that this space does not have is the last one.
            object.__setattr__(self, name, min(component, self.score_count - 1))

    @property
    def functions(self) -> tuple[FunctionName, ...]:
        """The kinds of f that are possible."""
        return tuple(f for f in FUNCTIONS[self.space] if f != "table" or self.size <= MOST_TABLE_BITS)

    @property
    def score_count(self) -> int:
        """Number of scores."""
        pairs = self.size * (self.size - 1) // 2 if self.space == "pairwise" else 0
        return self.item_count + pairs

    @property
    def item_count(self) -> int:
        """Number of entries of z."""
        return self.size**2 if self.space == "path" else self.size

    @property
    def worth_count(self) -> int:
        """Number of numbers that f is made of."""
        return {"table": 2**self.size, "parity": 1}.get(self.f, self.item_count)

    @property
    def score_labels(self) -> list[str]:
        """Name of each score."""
        pairs = [f"{i + 1}&{j + 1}" for i in range(self.size) for j in range(i + 1, self.size)]
        return self.item_labels + (pairs if self.space == "pairwise" else [])

    @property
    def item_labels(self) -> list[str]:
        """Name of each entry of z."""
        if self.space == "path":
            return [f"{row + 1},{column + 1}" for row in range(self.size) for column in range(self.size)]
        return [str(i + 1) for i in range(self.size)]

    @property
    def worth_labels(self) -> list[str]:
        """Name of each number that f is made of."""
        if self.f == "table":
            return [f"{code:0{self.size}b}" for code in range(2**self.size)]
        return ["height"] if self.f == "parity" else self.item_labels

    def change_problem(self, **changes: Any) -> "LabState":
        """Return the state with another space, size or f, and numbers of f and scores that fit; others are kept."""
        kept = {"horizontal": -1, "vertical": -1, "worth": ()} | ({"scores": ()} if "space" in changes else {})
        return replace(self, **{**kept, **changes})


def parse_estimator(text: str) -> tuple[str, float | None]:
    """Return the name of an estimator and its epsilon or tau, given "name" or "name:value".

    Raises:
        ArgumentError: an unknown name, or a value that is not a positive number.
    """
    name, _, value = text.partition(":")
    if name not in ESTIMATORS:
        raise ArgumentError(f"there is no estimator {name[:80]!r}; there are: {', '.join(ESTIMATORS)}")
    if get_parameter(name) is None:
        return name, None
    try:
        number = float(value or 1.0)
    except ValueError:
        number = 0.0
    if not 1e-3 <= number <= 1e3:
        raise ArgumentError(f"{get_parameter(name)} of {name} must be between 0.001 and 1000, got {value[:80]!r}")
    return name, number


def get_parameter(name: str) -> str | None:
    """Return "epsilon" or "tau" if the estimator has one of them."""
    return next((option for option in ESTIMATORS[name].options if option in ("epsilon", "tau")), None)


def _fit(values: tuple[float, ...], count: int, example: tuple[float, ...], most: float) -> tuple[float, ...]:
    """Return the values cut to their range; missing ones come from the example, which is repeated."""
    values = values + tuple(example[i % len(example)] for i in range(len(values), count))
    if any(not -1e6 < value < 1e6 for value in values):  # also NaN
        raise ArgumentError("scores and worths must be finite numbers")
    return tuple(min(max(float(value), -most), most) for value in values[:count])


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ArgumentError(f"{name} must be between {least:g} and {most:g}, got {value:g}")
