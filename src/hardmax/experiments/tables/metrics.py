"""Metrics by which cells are compared: the name in a row, the better direction, and the format. No torch here."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal


@dataclass(frozen=True)
class Mean:
    """A mean over seeds and its standard error, which is None for one seed, or if a seed diverged."""

    value: float
    error: float | None

    @classmethod
    def from_values(cls, values: Sequence[float]) -> "Mean":
        """Return the mean of one or more values."""
        known = len(values) > 1 and all(map(math.isfinite, values))
        return cls(mean(values), stdev(values) / math.sqrt(len(values)) if known else None)


@dataclass(frozen=True)
class Metric:
    """A number in rows, and its format.

    Rows store the measured number. Pages and published numbers use its unit.

    Attributes:
        key: its name in a row.
        name: its name on pages.
        unit: unit of the number on pages; empty if it has none.
        higher: whether higher is better; else lower is.
        scale: factor from the number of a row to the unit: 100 from a share to percent.
        digits: number of digits after the decimal point.
        compared: whether a higher or lower value is better at all.
        examples: the examples that it is measured on, at the beginning of a caption.
        split: the rows that have it; those of "test" also have the bound of the training examples.
    """

    key: str
    name: str
    unit: str = "nats"
    higher: bool = False
    scale: float = 1.0
    digits: int = 2
    compared: bool = True
    examples: str = "Test"
    split: Literal["test", "validation"] = "test"

    @property
    def caption(self) -> str:
        """The examples and the name."""
        return f"{self.examples} {self.name}"

    @property
    def direction(self) -> str:
        """The better direction: "higher" or "lower"."""
        return "higher" if self.higher else "lower"

    def mean(self, values: Sequence[float]) -> Mean:
        """Return the mean of numbers of rows, in the unit."""
        return Mean.from_values([self.scale * value for value in values])

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best value; None if there are no values, or the metric is not compared."""
        return (max if self.higher else min)(values, default=None) if self.compared else None

    def is_better(self, ours: float, theirs: float) -> bool:
        """Whether `ours` is better than `theirs`, both rounded as on pages."""
        ours, theirs = round(ours, self.digits), round(theirs, self.digits)
        return ours > theirs if self.higher else ours < theirs

    def format(self, value: float) -> str:
        """Format a value for a page."""
        return f"{value:.{self.digits}f}" if math.isfinite(value) else "not finite"

    def format_mean(self, mean: Mean) -> str:
        """Format a mean with its standard error, if there is one."""
        return self.format(mean.value) + ("" if mean.error is None else f" ± {self.format(mean.error)}")

    def format_difference(self, ours: float, theirs: float) -> str:
        """Format the difference `ours - theirs`, with its sign."""
        return f"{round(ours - theirs, self.digits) + 0.0:+.{self.digits}f}".replace("-", "−")  # avoids −0.00


def describe_units(metrics: Sequence[Metric]) -> str:
    """Return a phrase with the units and better directions of metrics; only once if they are the same for all."""
    units: dict[tuple[str, str], list[str]] = {}
    for metric in metrics:
        better = f", {metric.direction} is better" if metric.compared else ""
        units.setdefault((f"in {metric.unit} " if metric.unit else "", better), []).append(metric.name)
    if len(units) == 1:
        ((unit, better),) = units
        sentence = f"{unit}after the last epoch{better}"
        return sentence[0].upper() + sentence[1:]
    parts = (f"{' and '.join(names)} {unit}".rstrip() + better for (unit, better), names in units.items())
    return f"After the last epoch: {'; '.join(parts)}"


BOUND = Metric("negative_elbo", "−ELBO")
VALIDATION_BOUND = Metric("negative_elbo", "−ELBO", examples="Validation", split="validation")
TRAIN_BOUND = Metric("train_negative_elbo", "−ELBO", examples="Training")
NLL = Metric("nll", "−log p(x)")
ACCURACY = Metric("accuracy", "accuracy", "percent", higher=True, scale=100, digits=1)
ERROR = Metric("mse", "error", "mean squared error per pixel", digits=5)
PSNR = Metric("psnr", "PSNR", "decibels", higher=True)
SSIM = Metric("ssim", "SSIM", "", higher=True, digits=3)
PERPLEXITY = Metric("perplexity", "perplexity", "codes", higher=True, digits=1)
ALIVE = Metric("alive", "alive", "percent of the codes", higher=True, scale=100, digits=1)
SAMPLED = Metric("accuracy_sampled", "accuracy of a sample", "percent", higher=True, scale=100, digits=1)
VALIDITY = Metric("validity", "validity", "percent", higher=True, scale=100, digits=1)
COVERAGE = Metric("coverage", "coverage", "percent", higher=True, scale=100, digits=1)
DIVERGENCE = Metric("divergence", "divergence of 3-grams", digits=3)
REAL_NLL = Metric("nll", "−log q of real sequences")
ENTROPY = Metric("entropy", "entropy", compared=False)
REGRET = Metric("regret", "regret", "percent", scale=100)
PIXEL_ERROR = Metric("regret", "wrong pixels", "percent", scale=100)
EXACT_IMAGES = Metric("optimal", "images without a wrong pixel", "percent", scale=100, digits=1, compared=False)
OPTIMAL = Metric("optimal", "optimal decisions", "percent", higher=True, scale=100, digits=1)
