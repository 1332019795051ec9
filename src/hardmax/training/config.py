"""What every training run is told. No torch here: the command line shows its help from this file."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hardmax.errors import ArgumentError, DataError
from hardmax.training.catalogue import config_class

PLACES = ("out", "resume", "data_dir", "devices")
"""Fields of `TrainConfig` that say where a run is, and nothing about what it is."""


@dataclass(frozen=True)
class TrainConfig:
    """What every run is told; each model adds its own in `training/<model>/config.py`."""

    model: str = ""
    """What is trained; each kind has options of its own."""
    data: str = "sample"
    """What it is trained on."""
    out: str = "run"
    """Folder that the run is written to."""
    resume: bool = False
    """Go on with the run in --out; only --epochs (what is timed by their number is stretched) and --devices may be
    changed."""
    data_dir: str | None = None
    """Folder that holds the named data sets; default: the environment variable HARDMAX_DATA."""
    epochs: int = 20
    """How often the training examples are gone through."""
    starts: int = 1
    """Initial weights that are tried; the one that is best on the validation examples is trained."""
    start_epochs: int = 4
    """Epochs that each of several starts is tried for; they are not counted in --epochs."""
    batch_size: int = 100
    """Examples in a step, of all --devices together."""
    lr: float | None = None
    """Learning rate of Adam; default, as measured best: 1e-3; of a discrete VAE 3e-3 for several variables, 2e-3 for
    structured z; of a sequence GAN 4e-3."""
    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: constant for half of the run, then down to zero, which takes the noise out of the end; or constant."""
    seed: int = 0
    """Seed of all randomness."""
    clip: float | None = None
    """Largest norm of the gradient; larger ones are scaled down."""
    patience: int | None = None
    """Stop after so many epochs without getting better on the validation examples."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, mps, ..."""
    devices: int = 1
    """Processes on this machine that share every batch, on a GPU each with --device cuda; the result is the same."""
    checkpoint_every: int | None = None
    """Steps between two checkpoints, beside the one after each epoch."""

    def __post_init__(self) -> None:
        self.need_at_least_one("epochs", "starts", "start_epochs", "batch_size", "devices")
        self.need_positive("lr")

    @property
    def learning_rate(self) -> float:
        """The learning rate, chosen where it was left open."""
        return 1e-3 if self.lr is None else self.lr

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return dataclasses.asdict(self)

    def need_at_least_one(self, *names: str) -> None:
        """Raise `ArgumentError` if a field is below 1; one that was left open is not."""
        for name in names:
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ArgumentError(f"{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")

    def need_positive(self, *names: str) -> None:
        """Raise `ArgumentError` if a field is not above 0; one that was left open is."""
        for name in names:
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ArgumentError(f"{name.replace('_', '-')} must be positive, got {getattr(self, name)}")


def read_config(folder: str | Path) -> tuple[Any, dict[str, Any]]:
    """Return the configuration of the run in a folder, of the kind of its model, and all that its `config.json` says.

    Raises:
        DataError: no run is there, or its configuration is broken.
    """
    path = Path(folder) / "config.json"
    try:
        said = json.loads(path.read_text())
        config = said["config"]
        return config_class(config.get("model", "discrete"))(**config), said
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} holds no run: {path} is missing; make one with hardmax train --out {folder}"
        ) from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the configuration of a run: {error}") from error
