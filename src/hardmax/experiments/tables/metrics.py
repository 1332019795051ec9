"""What cells are compared by: a number of a run, which way is better, and how it is written. No torch here."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error over seeds, which one seed does not give, and none that diverged."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Return the mean of one or more values."""
        known = len(values) > 1 and all(map(math.isfinite, values))
        return cls(mean(values), stdev(values) / math.sqrt(len(values)) if known else None)


@dataclass(frozen=True)
class Metric:
    """A number that rows have.

    Rows keep it as it was measured. All that a reader sees, and what was published, is in its unit.

    Attributes:
        key: its name in a row.
        name: what a reader sees.
        unit: that it is written in; empty where it is a bare number.
        higher: whether higher is better; else lower is.
        scale: from the number of a row to the unit: 100 from a share to percent.
        digits: after the point.
        compared: whether a higher or lower value is better at all.
    """

    key: str
    name: str
    unit: str = "nats"
    higher: bool = False
    scale: float = 1.0
    digits: int = 2
    compared: bool = True

    @property
    def direction(self) -> str:
        """Which way is better, in a word."""
        return "higher" if self.higher else "lower"

    def mean(self, values: Sequence[float]) -> Mean:
        """Return the mean of numbers of rows, in the unit."""
        return Mean.of([self.scale * value for value in values])

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best of some values, None where there are none, or none is better than another."""
        return (max if self.higher else min)(values, default=None) if self.compared else None

    def beats(self, ours: float, theirs: float) -> bool:
        """Whether a value is better than another one, as both are written."""
        ours, theirs = round(ours, self.digits), round(theirs, self.digits)
        return ours > theirs if self.higher else ours < theirs

    def write(self, value: float) -> str:
        """Return a value as a reader sees it."""
        return f"{value:.{self.digits}f}" if math.isfinite(value) else "not finite"

    def write_mean(self, mean: Mean) -> str:
        """Return a mean with its standard error, where there is one."""
        return self.write(mean.value) + ("" if mean.error is None else f" ± {self.write(mean.error)}")

    def write_difference(self, ours: float, theirs: float) -> str:
        """Return how much more a value is than another one, with its sign."""
        return f"{round(ours - theirs, self.digits) + 0.0:+.{self.digits}f}".replace("-", "−")  # and not −0.00


def describe_units(metrics: Sequence[Metric]) -> str:
    """Return the units of numbers, and which way is better; once, where that is the same for all."""
    ways: dict[tuple[str, str], list[str]] = {}
    for metric in metrics:
        better = f", {metric.direction} is better" if metric.compared else ""
        ways.setdefault((f"in {metric.unit} " if metric.unit else "", better), []).append(metric.name)
    if len(ways) == 1:
        ((unit, better),) = ways
        sentence = f"{unit}after the last epoch{better}"
        return sentence[0].upper() + sentence[1:]
    parts = (f"{' and '.join(names)} {unit}".rstrip() + better for (unit, better), names in ways.items())
    return f"After the last epoch: {'; '.join(parts)}"


BOUND = Metric("negative_elbo", "−ELBO")
NLL = Metric("nll", "−log p(x)")
ACCURACY = Metric("accuracy", "accuracy", "percent", higher=True, scale=100, digits=1)
ERROR = Metric("mse", "error", "mean squares of a pixel", digits=5)
PERPLEXITY = Metric("perplexity", "perplexity", "codes", higher=True, digits=1)
ALIVE = Metric("alive", "alive", "percent of the codes", higher=True, scale=100, digits=1)
SAMPLED = Metric("accuracy_sampled", "accuracy of a sample", "percent", higher=True, scale=100, digits=1)
VALIDITY = Metric("validity", "validity", "percent", higher=True, scale=100, digits=1)
COVERAGE = Metric("coverage", "coverage", "percent", higher=True, scale=100, digits=1)
DIVERGENCE = Metric("divergence", "divergence of 3-grams", digits=3)
REAL_NLL = Metric("nll", "−log q of real sequences")
ENTROPY = Metric("entropy", "entropy", compared=False)
