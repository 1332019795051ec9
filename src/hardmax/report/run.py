"""A run's folder, read: its configuration, what was measured, and the model at its best."""

import json
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path
from statistics import median
from types import NoneType
from typing import Any, TypeVar

from jaxtyping import Float32
from torch import Tensor

from hardmax.data import Images, load
from hardmax.errors import DataError
from hardmax.models import DiscreteVAE
from hardmax.training.checkpoint import pointed
from hardmax.training.config import TrainConfig, read_config
from hardmax.training.log import broken_line, read_rows
from hardmax.training.restore import evaluated

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Measured:
    """One row of `metrics.jsonl`: means over a split after an epoch, in nats; `nll` and `active` not for train."""

    epoch: int
    step: int
    split: str
    elbo: float
    nll: float | None
    kl: float
    reconstruction: float
    active: int | None

    @property
    def gap(self) -> float | None:
        """How far the bound lies below log p(x)."""
        return None if self.nll is None else -self.elbo - self.nll


@dataclass(frozen=True)
class Timed:
    """One row of `timing.jsonl`: seconds of an epoch."""

    epoch: int
    step: int
    train: float
    evaluate: float


_KINDS = {"split": str, "nll": (int, float, NoneType), "active": (int, NoneType)}  # all else is a number
T = TypeVar("T", Measured, Timed)


@dataclass(frozen=True, eq=False)
class Run:
    """What a report tells of.

    Attributes:
        folder: where the run is.
        config: what it was told.
        said: all that `config.json` says: data, versions, commit.
        measured: rows by split, in the order of epochs.
        timed: seconds by epoch; empty where they were not kept.
        model: the one with the best bound on the validation pictures.
        best_epoch: the epoch it comes from.
        images: the data.
        pictures: `[N, channels, H, W]`. The test pictures that were evaluated after each epoch.
    """

    folder: Path
    config: TrainConfig
    said: dict[str, Any]
    measured: dict[str, list[Measured]]
    timed: list[Timed]
    model: DiscreteVAE
    best_epoch: int
    images: Images
    pictures: Float32[Tensor, "N channels H W"]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def best(self) -> Measured:
        """What the test pictures gave at the best epoch."""
        return next(row for row in self.measured["test"] if row.epoch == self.best_epoch)

    @property
    def last(self) -> Measured:
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
    # The model first: rows are written before the checkpoint that belongs to them.
    model, step = _load_best(folder)
    rows = _read_rows(folder / "metrics.jsonl", Measured)
    measured = {split: [row for row in rows if row.split == split] for split in SPLITS}
    finished = [row for row in measured["test"] if row.step <= step]
    if model is None or not finished:
        raise DataError(
            f"{folder} has no finished epoch yet, so there is nothing to report; wait for the first one or, if it was "
            f"stopped, go on with hardmax train --resume --out {folder}"
        )
    images = _load_images(config, data, data_dir)
    if images.shape != (shape := tuple(said.get("data", {}).get("shape", images.shape))):
        raise DataError(f"{folder} was trained on pictures of {shape}, but those of {images.name} are {images.shape}")
    return Run(
        folder=folder,
        config=config,
        said=said,
        measured=measured,
        timed=_read_rows(folder / "timing.jsonl", Timed),
        model=model.eval(),
        best_epoch=finished[-1].epoch,
        images=images,
        pictures=evaluated(config, images, "test"),
    )


def _no_run(folder: Path) -> str:
    missing = f"{folder} holds no run: "
    if not folder.is_dir():
        return missing + ("it is not a folder" if folder.exists() else "there is no such folder")
    if any(folder.glob("*/config.json")):
        return missing + f"config.json is missing; its sub-folders do: hardmax report {folder}/*/"
    return missing + f"config.json is missing; make one with hardmax train --out {folder}"


def _load_best(folder: Path) -> tuple[DiscreteVAE | None, int]:
    """Return the model and the step of its checkpoint; None where there is no checkpoint.

    The best one if there is one: a run whose bound was never a number has only a latest one.
    """
    while name := pointed(folder, "best") or pointed(folder, "latest"):
        try:
            return DiscreteVAE.from_pretrained(folder / name), int(name.removeprefix("checkpoint-"))
        except (DataError, ValueError) as error:
            # A run in training may have replaced it under our hands.
            if name == (pointed(folder, "best") or pointed(folder, "latest")):
                raise DataError(f"{folder / name} cannot be read: {error}") from error
    return None, 0


def _read_rows(path: Path, kind: type[T]) -> list[T]:
    """Return the rows of a file, each checked to have the fields of its kind."""
    rows = []
    for number, said in enumerate(read_rows(path), 1):
        try:
            row = {field.name: said[field.name] for field in fields(kind)}
            for name, value in row.items():
                if not isinstance(value, _KINDS.get(name, (int, float))):
                    raise TypeError(f"{name} is {value!r}")
            rows.append(kind(**row))
        except (KeyError, TypeError) as error:
            raise broken_line(path, number, json.dumps(said)) from error
    return rows


def _load_images(config: TrainConfig, data: str | None, data_dir: str | None) -> Images:
    try:
        return load(data or config.data, data_dir=data_dir or config.data_dir, seed=config.seed)
    except DataError as error:
        raise DataError(
            f"cannot load the run's pictures: {error}; say where they are now with --data or --data-dir"
        ) from error
