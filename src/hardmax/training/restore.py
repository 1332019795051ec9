"""A finished or unfinished run, brought back from its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from hardmax.data import Images, binarize, load
from hardmax.errors import DataError
from hardmax.models import DiscreteVAE
from hardmax.random import stream
from hardmax.training.checkpoint import pointed
from hardmax.training.config import TrainConfig, read_config
from hardmax.training.schedule import make_space
from hardmax.validation import check_device

_MANY, _FEW = 1024, 500  # values of z; pictures
Split = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Restored:
    """A run's configuration, its model, and which checkpoint the model is from."""

    config: TrainConfig
    model: DiscreteVAE
    checkpoint: str

    def images(self, data_dir: str | None = None) -> Images:
        """Load the pictures that the run was trained on."""
        return load(self.config.data, data_dir=data_dir or self.config.data_dir, seed=self.config.seed)


def restore(
    run: str | Path, checkpoint: Literal["best", "latest"] = "best", *, device: torch.device | str = "cpu"
) -> Restored:
    """Bring back a run's model, from its best checkpoint by validation or its latest one.

    Raises:
        DataError: no run is there, it has no checkpoint yet, or a file is broken.
    """
    check_device(str(device))
    run = Path(run)
    config, _ = read_config(run)
    name = pointed(run, checkpoint) or pointed(run, "latest")
    if name is None:
        raise DataError(f"{run} has no checkpoint yet: let its first epoch finish (hardmax train --resume --out {run})")
    return Restored(config, DiscreteVAE.from_pretrained(run / name, device=device).eval(), name)


def evaluated(config: TrainConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split that are evaluated after each epoch."""
    most = config.evaluate_images
    if make_space(config).size > _MANY:  # every z is gone through for every picture
        most = min(most, _FEW)
    return held_out(config, images, split)[:most]


def held_out(config: TrainConfig, images: Images, split: Split) -> Tensor:
    """Return the pictures of a split as the model sees them, `[N, *shape]`; drawn pixels are always the same ones."""
    return binarize(getattr(images, split), config.binarize, stream(config.seed, "binarize", split))
