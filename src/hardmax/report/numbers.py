"""The numbers of one run, and of several beside each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hardmax.report.describe import active_of
from hardmax.report.run import Measured, Run


@dataclass(frozen=True)
class Quantity:
    """Something that is measured.

    Attributes:
        name: what it is called.
        meaning: what it is.
        of: its value in a row.
        lower: whether lower is better; if not, no value of it is the best one.
    """

    name: str
    meaning: str
    of: Callable[[Measured], float | None]
    lower: bool = False


@dataclass(frozen=True)
class Cell:
    """A number in a table, and whether it is the best of its column."""

    text: str
    best: bool = False


QUANTITIES = (
    Quantity("−ELBO", "what training minimises: reconstruction + KL", lambda row: -row.elbo, lower=True),
    Quantity("−log p(x)", "what −ELBO is an upper bound of", lambda row: row.nll, lower=True),
    Quantity("Gap", "the difference: what the encoder loses", lambda row: row.gap, lower=True),
    Quantity("Reconstruction", "−log p(x | z), averaged over q(z | x)", lambda row: -row.reconstruction),
    Quantity("KL", "from q(z | x) to the prior", lambda row: row.kl),
)


def number(value: float | None) -> str:
    """Return a number with two decimals, a dash where there is none."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "not finite"
    # What rounds to zero has no sign.
    return f"{round(value, 2) + 0.0:,.2f}".replace("-", "−")


def key_numbers(run: Run) -> list[tuple[str, str, str, str]]:
    """Return name, meaning, and the test pictures' values at the best and at the last epoch."""
    rows = [(q.name, q.meaning, number(q.of(run.best)), number(q.of(run.last))) for q in QUANTITIES]
    what, count = active_of(run)
    active = [f"{row.active} of {count}" for row in (run.best, run.last)]
    meaning = "the best of at least one picture in a thousand" if what == "categories" else "not almost always the same"
    return [*rows, (f"Active {what}", meaning, active[0], active[1])]


def comparison(runs: Sequence[Run]) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings and, for each run, the cells of a table; the best of a column only where runs compare."""
    columns = [(q.name, [q.of(run.best) for run in runs], q.lower) for q in QUANTITIES]
    columns.append(("−ELBO, last epoch", [-run.last.elbo for run in runs], True))
    columns.append(("Seconds per epoch", [run.seconds_per_epoch for run in runs], True))
    judge = not incomparable(runs)
    table = {name: _column(values, judge and lower) for name, values, lower in columns}
    table["Active"] = [Cell(f"{run.best.active} of {active_of(run)[1]}") for run in runs]
    table["Best epoch"] = [Cell(f"{run.best_epoch} of {run.last.epoch}") for run in runs]
    order = [*(q.name for q in QUANTITIES), "Active", "Best epoch", "−ELBO, last epoch", "Seconds per epoch"]
    return order, [list(row) for row in zip(*(table[name] for name in order), strict=True)]


def incomparable(runs: Sequence[Run]) -> list[str]:
    """Return what of the runs' test pictures differs, so that their numbers do not compare."""
    traits = {
        "data": [(run.said.get("data", {}).get("name"), run.images.shape) for run in runs],
        "binarize": [run.config.binarize for run in runs],
        "likelihood": [run.config.likelihood for run in runs],
        "number of test pictures": [len(run.pictures) for run in runs],
    }
    return [name for name, values in traits.items() if len(set(values)) > 1]


def _column(values: Sequence[float | None], lower: bool) -> list[Cell]:
    texts = [number(value) for value in values]
    known = [value for value in values if value is not None and math.isfinite(value)]
    best = number(min(known)) if lower and known and len(values) > 1 else None
    # What looks the same is as good.
    return [Cell(text, text == best) for text in texts]
