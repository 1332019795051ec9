"""Tables of a report: the numbers of runs, and the options in which runs differ."""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from hardmax._deprecation import RenamedMember
from hardmax.report.run import Run
from hardmax.training.config import PLACES, TrainConfig

Better = Literal["lower", "higher", "none"]


def format_number(value: float | None) -> str:
    """Return a number as text with two decimals, or a dash for None."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "not finite"
    # A number that rounds to zero has no sign.
    return f"{round(value, 2) + 0.0:,.2f}".replace("-", "−")


def format_percent(share: float) -> str:
    """Return a share as a percentage; a share above 0 is not rounded to 0 %, nor one below 1 to 100 %."""
    if 0 < share < 5e-4:
        return "< 0.1 %"
    if 1 - 5e-4 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


@dataclass(frozen=True)
class Quantity:
    """A quantity that is measured.

    Attributes:
        name: its name.
        meaning: a short explanation.
        get_value: returns its value in a row of `metrics.jsonl`.
        better: which values are better; if "none", no value is marked as the best.
        to_text: formats a value.
    """

    name: str
    meaning: str
    get_value: Callable[[Any], float | None]
    better: Better = "none"
    to_text: Callable[[float | None], str] = format_number

    of = RenamedMember("get_value")
    shown = RenamedMember("to_text")


@dataclass(frozen=True)
class Fact:
    """A text that a report shows in its table of numbers.

    Attributes:
        name: its full name.
        short: its short name, for the heading of a column.
        meaning: a short explanation.
        best: its text at the best epoch.
        last: its text after the last epoch.
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


def list_key_numbers(
    run: Run, quantities: Sequence[Quantity], facts: Sequence[Fact]
) -> list[tuple[str, str, str, str]]:
    """Return the rows of the table of one run: name, meaning, and test value at the best and at the last epoch."""
    rows = [(q.name, q.meaning, q.to_text(q.get_value(run.best)), q.to_text(q.get_value(run.last))) for q in quantities]
    return [*rows, *((fact.name, fact.meaning, fact.best, fact.last) for fact in facts)]


def compare_runs(
    runs: Sequence[Run], quantities: Sequence[Quantity], facts: Sequence[Sequence[Fact]], differences: Sequence[str]
) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings of a table of runs, and its cells; the best of a column is marked if runs are comparable.

    Args:
        runs: at least one.
        quantities: the measured quantities, first the one that training optimizes.
        facts: the facts of each run; all runs have the same ones, in the same order.
        differences: reasons why their numbers are not comparable; empty if they are.
    """
    mark_best = not differences
    table = {
        q.name: _make_column([q.get_value(run.best) for run in runs], mark_best, q.better, q.to_text)
        for q in quantities
    }
    for row in zip(*facts, strict=True):
        table[row[0].short] = [Cell(fact.best) for fact in row]
    table["Best epoch"] = [Cell(f"{run.best_epoch} of {run.last.epoch}") for run in runs]
    first = quantities[0]
    table[f"{first.name}, last epoch"] = _make_column(
        [first.get_value(run.last) for run in runs], mark_best, first.better, first.to_text
    )
    table["Seconds per epoch"] = _make_column([run.seconds_per_epoch for run in runs], mark_best)
    return list(table), [list(row) for row in zip(*table.values(), strict=True)]


def find_differences(runs: Sequence[Run], options: Sequence[str]) -> list[str]:
    """Return the options and properties that differ between runs and make their numbers incomparable.

    Args:
        runs: runs of one application.
        options: options that must agree.
    """
    properties = {
        "data": [(str(run.facts.get("data", {}).get("name")), run.images.shape) for run in runs],
        **{name: [getattr(run.config, name) for run in runs] for name in options},
        "number of test examples": [len(run.test_examples) for run in runs],
    }
    return [name for name, values in properties.items() if len(set(values)) > 1]


def _make_column(
    values: Sequence[float | None],
    mark_best: bool,
    better: Better = "lower",
    to_text: Callable[[float | None], str] = format_number,
) -> list[Cell]:
    texts = [to_text(value) for value in values]
    finite = [value for value in values if value is not None and math.isfinite(value)]
    best = None
    if mark_best and better != "none" and finite and len(values) > 1:
        best = to_text(min(finite) if better == "lower" else max(finite))
    # Values with equal text are equally good.
    return [Cell(text, text == best) for text in texts]


# Options whose values are clear without the name of the option.
_NAMELESS = ("data", "space", "estimator")
Value = str | int | float | bool | tuple[int, ...] | None


def format_option(name: str) -> str:
    """Return the name of an option as on the command line, without the leading dashes."""
    return name.replace("_", "-")


def format_value(value: Value) -> str:
    """Return a value of an option as text."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def is_default(config: TrainConfig, name: str) -> bool:
    """Whether an option has its default value."""
    return getattr(config, name) == getattr(type(config), name)


def format_command(config: TrainConfig) -> str:
    """Return the command line that trains with this configuration: the options that differ from their defaults."""
    words = ["hardmax", "train", *([] if config.model == "discrete" else ["--model", config.model])]
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name == "resume" or is_default(config, field.name):
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{format_option(field.name)}")
        else:
            words += [f"--{format_option(field.name)}", *map(str, value if isinstance(value, tuple) else [value])]
    return shlex.join(words)


def find_differing_options(configs: Sequence[TrainConfig]) -> list[str]:
    """Return the options that differ between the configurations."""
    names = dict.fromkeys(field.name for config in configs for field in fields(config) if field.name not in PLACES)
    return [name for name in names if len({getattr(config, name, None) for config in configs}) > 1]


def label_runs(configs: Sequence[TrainConfig], folders: Sequence[str]) -> list[str]:
    """Name each run by the options that differ between runs; add its folder where these do not distinguish it."""
    names = sorted(
        find_differing_options(configs), key=lambda name: (name != "data", _mro_index(name, type(configs[0])))
    )
    labels = [
        ", ".join(_describe_option(name, getattr(config, name)) for name in names if name not in config.unused_options)
        for config in configs
    ]
    counts = Counter(labels)
    return [
        label if label and counts[label] == 1 else ", ".join(filter(None, (label, folder)))
        for label, folder in zip(labels, folders, strict=True)
    ]


def _mro_index(name: str, kind: type[TrainConfig]) -> int:
    """Return the MRO index of the class that adds an option: a model's own options come before shared ones."""
    return next(i for i, base in enumerate(kind.__mro__) if name in vars(base).get("__annotations__", {}))


def _describe_option(name: str, value: Value) -> str:
    if name == "data":
        return Path(str(value)).name
    if name in _NAMELESS:
        return str(value)
    if isinstance(value, bool):
        return format_option(name) if value else f"not {format_option(name)}"
    return f"{format_option(name)} {format_value(value)}"
