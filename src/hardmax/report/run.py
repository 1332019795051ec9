"""A run as a report needs it: its configuration, its metrics by epoch, and its best model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from hardmax._deprecation import RenamedMember
from hardmax.models import AbstractModel
from hardmax.training.config import TrainConfig
from hardmax.training.run_folder import make_line_error, read_rows

SPLITS = ("train", "validation", "test")
_MAX_INTEGER = 2**53  # of epochs and steps: larger ones are no longer exact in a figure


@dataclass(frozen=True)
class MetricsRow:
    """One row of `metrics.jsonl`: means over a split after an epoch; None for values that were not measured."""

    epoch: int
    step: int
    split: str


@dataclass(frozen=True)
class BoundRow(MetricsRow):
    """A row of a model with a bound of the log-likelihood, in nats."""

    elbo: float | None
    nll: float | None

    @property
    def bound(self) -> float | None:
        """The negative ELBO (evidence lower bound of log p(x)), which selects the best epoch."""
        return None if self.elbo is None else -self.elbo


@dataclass(frozen=True)
class VAERow(BoundRow):
    """A row of a variational auto-encoder, with further values in nats."""

    kl: float | None
    reconstruction: float | None

    @property
    def error(self) -> float | None:
        """The reconstruction error."""
        return None if self.reconstruction is None else -self.reconstruction


@dataclass(frozen=True)
class TimingRow:
    """One row of `timing.jsonl`: seconds of an epoch."""

    epoch: int
    step: int
    train: float
    evaluate: float


C = TypeVar("C", bound=TrainConfig)
M = TypeVar("M", bound=AbstractModel)
Row = TypeVar("Row", bound=MetricsRow)
P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Run(Generic[C, M, Row, P]):
    """A run as a report shows it.

    Attributes:
        folder: folder of the run.
        config: its options.
        facts: the contents of `config.json`: data, versions, commit.
        rows: rows of `metrics.jsonl` by split, in the order of epochs.
        timing: rows of `timing.jsonl`; empty if seconds were not recorded.
        model: the best model, selected on the validation examples.
        best_epoch: the epoch of that model.
        images: the images, or other examples, that its model is trained on.
        test_examples: the test examples that were evaluated after each epoch, as inputs of its model.
    """

    folder: Path
    config: C
    facts: dict[str, Any]
    rows: dict[str, list[Row]]
    timing: list[TimingRow]
    model: M
    best_epoch: int
    images: Any
    test_examples: P

    measured = RenamedMember("rows")
    timed = RenamedMember("timing")

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @property
    def best(self) -> Row:
        """The row of the test examples at the best epoch."""
        return next(row for row in self.rows["test"] if row.epoch == self.best_epoch)

    @property
    def last(self) -> Row:
        """The row of the test examples after the last epoch."""
        return self.rows["test"][-1]

    @property
    def seconds_per_epoch(self) -> float | None:
        """Median seconds of training per epoch; the first epoch is often slower."""
        return median(row.train for row in self.timing) if self.timing else None

    def list_elapsed_seconds(self) -> dict[int, float]:
        """Return the seconds of training, without evaluation, up to the end of each epoch."""
        return dict(
            zip((row.epoch for row in self.timing), accumulate(row.train for row in self.timing), strict=True),
        )

    seconds = RenamedMember("list_elapsed_seconds")


def parse_rows(path: Path, kind: type[T]) -> list[T]:
    """Return the rows of a file as instances of `kind`, after checking the types of its fields."""
    return check_rows(read_rows(path), kind, path)


def check_rows(rows: Sequence[dict[str, Any]], kind: type[T], path: Path) -> list[T]:
    """Return rows of a file as instances of `kind`, after checking the types of its fields.

    Raises:
        DataError: a row lacks a field, or has a value of another type.
    """
    checked, kinds = [], get_type_hints(kind)
    for number, values in enumerate(rows, 1):
        try:
            checked.append(kind(**{name: _check_value(values[name], kinds[name]) for name in kinds}))
        except (KeyError, TypeError, OverflowError) as error:
            raise make_line_error(path, number, json.dumps(values)) from error
    return checked


def _check_value(value: Any, kind: Any) -> Any:
    """Return a value of a row, after checking its type; raises TypeError or OverflowError.

    JSON writes 1.0 as 1 and has integers of any size, which are too large for figures.
    """
    allowed = get_args(kind) or (kind,)
    if isinstance(value, bool) or not isinstance(value, (*allowed, int) if float in allowed else allowed):
        raise TypeError(f"expected {kind}, got {value!r:.80}")
    if not isinstance(value, int):
        return value
    if float in allowed:
        return float(value)
    if abs(value) > _MAX_INTEGER:
        raise OverflowError(f"expected at most {_MAX_INTEGER:,}")
    return value
