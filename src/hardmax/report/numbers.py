"""The numbers of one run, and of several beside each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hardmax.report.run import Run

Better = Literal["lower", "higher", "none"]


def number(value: float | None) -> str:
    """Return a number with two decimals, a dash where there is none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "not finite"
    # What rounds to zero has no sign.
    return f"{round(value, 2) + 0.0:,.2f}".replace("-", "−")


def percent(part: float) -> str:
    """Return a share as a reader wants it: a small one is not zero, almost all is not all."""
    if 0 < part < 5e-4:
        return "< 0.1 %"
    if 1 - 5e-4 < part < 1:
        return "> 99.9 %"
    return f"{100 * part:.1f} %" if 0 < part < 1 else f"{100 * part:.0f} %"


@dataclass(frozen=True)
class Quantity:
    """Something that is measured.

    Attributes:
        name: what it is called.
        meaning: what it is.
        of: its value in a row.
        better: which values are; if none are, no value of it is the best one.
        shown: a value as text.
    """

    name: str
    meaning: str
    of: Callable[[Any], float | None]
    better: Better = "none"
    shown: Callable[[float | None], str] = number


@dataclass(frozen=True)
class Fact:
    """Something else that belongs among the numbers, as text.

    Attributes:
        name: what it is called where there is room.
        short: above a column.
        meaning: what it is.
        best: at the best epoch.
        last: after the last epoch.
    """

    name: str
    short: str
    meaning: str
    best: str
    last: str


@dataclass(frozen=True)
class Cell:
    """A number in a table, and whether it is the best of its column."""

    text: str
    best: bool = False


BOUND = Quantity("−ELBO", "what training minimises: reconstruction + KL", lambda row: row.bound, "lower")


def key_numbers(run: Run, quantities: Sequence[Quantity], facts: Sequence[Fact]) -> list[tuple[str, str, str, str]]:
    """Return name, meaning, and the test pictures' values at the best and at the last epoch."""
    rows = [(q.name, q.meaning, q.shown(q.of(run.best)), q.shown(q.of(run.last))) for q in quantities]
    return [*rows, *((fact.name, fact.meaning, fact.best, fact.last) for fact in facts)]


def comparison(
    runs: Sequence[Run], quantities: Sequence[Quantity], facts: Sequence[Sequence[Fact]]
) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings and, for each run, the cells of a table; the best of a column only where runs compare.

    Args:
        runs: at least one.
        quantities: that are measured of them, first what training is about.
        facts: of each run, the same ones.
    """
    judge = not incomparable(runs)
    table = {q.name: _column([q.of(run.best) for run in runs], judge, q.better, q.shown) for q in quantities}
    for same in zip(*facts, strict=True):
        table[same[0].short] = [Cell(fact.best) for fact in same]
    table["Best epoch"] = [Cell(f"{run.best_epoch} of {run.last.epoch}") for run in runs]
    first = quantities[0]
    table[f"{first.name}, last epoch"] = _column([first.of(run.last) for run in runs], judge, first.better, first.shown)
    table["Seconds per epoch"] = _column([run.seconds_per_epoch for run in runs], judge)
    return list(table), [list(row) for row in zip(*table.values(), strict=True)]


def incomparable(runs: Sequence[Run]) -> list[str]:
    """Return what of the runs' test pictures differs, so that their numbers do not compare."""
    traits = {
        "data": [(run.said.get("data", {}).get("name"), run.images.shape) for run in runs],
        "binarize": [getattr(run.config, "binarize", None) for run in runs],
        "likelihood": [getattr(run.config, "likelihood", None) for run in runs],
        "attributes": [getattr(run.config, "attributes", None) for run in runs],
        "mask": [getattr(run.config, "mask", None) for run in runs],
        "number of test examples": [len(run.pictures) for run in runs],
    }
    return [name for name, values in traits.items() if len(set(values)) > 1]


def _column(
    values: Sequence[float | None],
    judge: bool,
    better: Better = "lower",
    shown: Callable[[float | None], str] = number,
) -> list[Cell]:
    texts = [shown(value) for value in values]
    known = [value for value in values if value is not None and math.isfinite(value)]
    best = None
    if judge and better != "none" and known and len(values) > 1:
        best = shown(min(known) if better == "lower" else max(known))
    # What looks the same is as good.
    return [Cell(text, text == best) for text in texts]
