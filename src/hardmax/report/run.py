"""A run's folder, read: its configuration, what was measured, and the model at its best."""

import json
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from hardmax.errors import DataError
from hardmax.models import AbstractModel, load_model
from hardmax.report.catalogue import story_of
from hardmax.training.catalogue import task_class
from hardmax.training.checkpoint import pointed
from hardmax.training.config import TrainConfig, read_config
from hardmax.training.log import broken_line, read_rows
from hardmax.training.task import Data

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Measured:
    """One row of `metrics.jsonl`: means over a split after an epoch; None for what was not measured."""

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
        """By which the best epoch is chosen."""
        return None if self.elbo is None else -self.elbo


@dataclass(frozen=True)
class MeasuredVAE(Bounded):
    """What is measured of a variational auto-encoder beside, in nats."""

    kl: float | None
    reconstruction: float | None

    @property
    def error(self) -> float | None:
        """What reconstructions lose."""
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
    """What a report tells of.

    Attributes:
        folder: where the run is.
        config: what it was told.
        said: all that `config.json` says: data, versions, commit.
        measured: rows by split, in the order of epochs.
        timed: seconds by epoch; empty where they were not kept.
        model: the best one, by the validation pictures.
        best_epoch: the epoch it comes from.
        images: the data, pictures or whatever its model is trained on.
        pictures: the test examples that were evaluated after each epoch, as its model sees them.
    """

    folder: Path
    config: C
    said: dict[str, Any]
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
        """What the test pictures gave at the best epoch."""
        return next(row for row in self.measured["test"] if row.epoch == self.best_epoch)

    @property
    def last(self) -> Row:
        """What the test pictures gave after the last epoch."""
        return self.measured["test"][-1]

    @property
    def seconds_per_epoch(self) -> float | None:
        """Median of training; the first epoch is often slower."""
        return median(row.train for row in self.timed) if self.timed else None

    def seconds(self) -> dict[int, float]:
        """Return the seconds of training, without evaluation, up to the end of each epoch."""
        return dict(
            zip((row.epoch for row in self.timed), accumulate(row.train for row in self.timed), strict=True),
        )


def read_run(folder: str | Path, *, data: str | None = None, data_dir: str | None = None) -> Run:
    """Read a run's folder; it may still be in training.

    Args:
        folder: what `hardmax train --out` named.
        data: where the run's pictures are now, if no longer where it read them.
        data_dir: the folder that holds named data sets, if it is no longer the run's.

    Raises:
        DataError: there is no run, no epoch of it has finished, or a file of it is broken.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise DataError(_no_run(folder))
    config, said = read_config(folder)
    story = story_of(config.model)
    # The model first: rows are written before the checkpoint that belongs to them.
    model, step = _load_best(folder)
    rows = _read_rows(folder / "metrics.jsonl", story.row)
    measured = {split: [row for row in rows if row.split == split] for split in SPLITS}
    finished = [row for row in measured["test"] if row.step <= step]
    if model is None or not finished:
        raise DataError(
            f"{folder} has no finished epoch yet, so there is nothing to report; wait for the first one or, if it was "
            f"stopped, go on with hardmax train --resume --out {folder}"
        )
    images = _load_images(config, data, data_dir)
    if images.shape != (shape := tuple(said.get("data", {}).get("shape", images.shape))):
        raise DataError(
            f"{folder} was trained on {story.examples} of {shape}, but those of {images.name} are {images.shape}"
        )
    return Run(
        folder=folder,
        config=config,
        said=said,
        measured=measured,
        timed=_read_rows(folder / "timing.jsonl", Timed),
        model=model.eval(),
        best_epoch=finished[-1].epoch,
        images=images,
        pictures=story.pictures(config, images),
    )


def _no_run(folder: Path) -> str:
    missing = f"{folder} holds no run: "
    if not folder.is_dir():
        return missing + ("it is not a folder" if folder.exists() else "there is no such folder")
    if any(folder.glob("*/config.json")):
        return missing + f"config.json is missing; its sub-folders do: hardmax report {folder}/*/"
    return missing + f"config.json is missing; make one with hardmax train --out {folder}"


def _load_best(folder: Path) -> tuple[AbstractModel | None, int]:
    """Return the model and the step of its checkpoint; None where there is no checkpoint.

    The best one if there is one: a run whose criterion was never a number has only a latest one.
    """
    while name := pointed(folder, "best") or pointed(folder, "latest"):
        try:
            return load_model(folder / name), int(name.removeprefix("checkpoint-"))
        except (DataError, ValueError) as error:
            # A run in training may have replaced it under our hands.
            if name == (pointed(folder, "best") or pointed(folder, "latest")):
                raise DataError(f"{folder / name} cannot be read: {error}") from error
    return None, 0


def _read_rows(path: Path, kind: type[T]) -> list[T]:
    """Return the rows of a file, each checked to have the fields of its kind."""
    rows, kinds = [], get_type_hints(kind)
    for number, said in enumerate(read_rows(path), 1):
        try:
            row = {name: said[name] for name in kinds}
            for name, value in row.items():
                allowed = get_args(kinds[name]) or (kinds[name],)
                if not isinstance(value, (*allowed, int) if float in allowed else allowed):
                    raise TypeError(f"{name} is {value!r}")
            rows.append(kind(**row))
        except (KeyError, TypeError) as error:
            raise broken_line(path, number, json.dumps(said)) from error
    return rows


def _load_images(config: TrainConfig, data: str | None, data_dir: str | None) -> Data:
    task = task_class(config.model)
    try:
        return task.load(replace(config, data=data or config.data, data_dir=data_dir or config.data_dir))
    except DataError as error:
        raise DataError(
            f"cannot load the run's {task.examples}: {error}; say where they are now with --data or --data-dir"
        ) from error
