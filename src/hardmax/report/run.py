"""A run as a report needs it: its configuration, its measurements, and its best model."""

import json
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from hardmax.models import AbstractModel
from hardmax.training.config import TrainConfig
from hardmax.training.run_folder import make_line_error, read_rows

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Measured:
    """One row of `metrics.jsonl`: means over a split after an epoch; None for values that were not measured."""

    epoch: int
    step: int
    split: str


@dataclass(frozen=True)
class Bounded(Measured):
    """A row of a model that has a bound, in nats."""

    elbo: float | None
    nll: float | None

    @property
    def bound(self) -> float | None:
        """The negative ELBO, which selects the best epoch."""
        return None if self.elbo is None else -self.elbo


@dataclass(frozen=True)
class MeasuredVAE(Bounded):
    """A row of a variational auto-encoder, with further values in nats."""

    kl: float | None
    reconstruction: float | None

    @property
    def error(self) -> float | None:
        """The reconstruction error."""
        return None if self.reconstruction is None else -self.reconstruction


@dataclass(frozen=True)
class Timed:
    """One row of `timing.jsonl`: seconds of an epoch."""

    epoch: int
    step: int
    train: float
    evaluate: float


C = TypeVar("C", bound=TrainConfig)
M = TypeVar("M", bound=AbstractModel)
Row = TypeVar("Row", bound=Measured)
P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Run(Generic[C, M, Row, P]):
    """A run as a report shows it.

    Attributes:
        folder: folder of the run.
        config: its options.
        facts: the contents of `config.json`: data, versions, commit.
        measured: rows by split, in the order of epochs.
        timed: seconds by epoch; empty if they were not recorded.
        model: the best model, selected on the validation pictures.
        best_epoch: the epoch of that model.
        images: the data, pictures or other examples that its model is trained on.
        pictures: the test examples that were evaluated after each epoch, as its model sees them.
    """

    folder: Path
    config: C
    facts: dict[str, Any]
    measured: dict[str, list[Row]]
    timed: list[Timed]
    model: M
    best_epoch: int
    images: Any
    pictures: P

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def best(self) -> Row:
        """The row of the test pictures at the best epoch."""
        return next(row for row in self.measured["test"] if row.epoch == self.best_epoch)

    @property
    def last(self) -> Row:
        """The row of the test pictures after the last epoch."""
        return self.measured["test"][-1]

    @property
    def seconds_per_epoch(self) -> float | None:
        """Median seconds of training per epoch; the first epoch is often slower."""
        return median(row.train for row in self.timed) if self.timed else None

    def seconds(self) -> dict[int, float]:
        """Return the seconds of training, without evaluation, up to the end of each epoch."""
        return dict(
            zip((row.epoch for row in self.timed), accumulate(row.train for row in self.timed), strict=True),
        )


def parse_rows(path: Path, kind: type[T]) -> list[T]:
    """Return the rows of a file as instances of `kind`, after checking the types of its fields."""
    rows, kinds = [], get_type_hints(kind)
    for number, values in enumerate(read_rows(path), 1):
        try:
            row = {name: values[name] for name in kinds}
            for name, value in row.items():
                allowed = get_args(kinds[name]) or (kinds[name],)
                if not isinstance(value, (*allowed, int) if float in allowed else allowed):
                    raise TypeError(f"{name} is {value!r}")
            rows.append(kind(**row))
        except (KeyError, TypeError) as error:
            raise make_line_error(path, number, json.dumps(values)) from error
    return rows
