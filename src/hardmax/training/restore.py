"""A finished or unfinished run, brought back from its folder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch

from hardmax.errors import DataError
from hardmax.models import AbstractModel, load_model
from hardmax.training.catalogue import MODELS, task_class
from hardmax.training.checkpoint import pointed
from hardmax.training.config import read_config
from hardmax.validation import check_device

M = TypeVar("M", bound=AbstractModel)


@dataclass(frozen=True)
class Restored(Generic[M]):
    """A run that is back.

    Attributes:
        config: what it was told, of the kind of its model.
        model: what it has learned.
        checkpoint: which that is from.
        said: all that `config.json` says: data, versions, commit.
    """

    config: Any
    model: M
    checkpoint: str
    said: dict[str, Any]

    def images(self, data_dir: str | None = None) -> Any:
        """Load the pictures that the run was trained on, or whatever its model is trained on."""
        config = self.config if data_dir is None else replace(self.config, data_dir=data_dir)
        return task_class(config.model).load(config)


def restore(
    run: str | Path,
    checkpoint: Literal["best", "latest"] = "best",
    *,
    device: torch.device | str = "cpu",
    kind: type[M] = AbstractModel,
) -> Restored[M]:
    """Bring back a run's model, from its best checkpoint by validation or its latest one.

    Args:
        run: its folder.
        checkpoint: which.
        device: where the model goes.
        kind: of the model that is wanted.

    Raises:
        DataError: no run is there, it has no checkpoint yet, a file is broken, or its model is of another kind.
    """
    check_device(str(device))
    run = Path(run)
    config, said = read_config(run)
    name = pointed(run, checkpoint) or pointed(run, "latest")
    if name is None:
        raise DataError(f"{run} has no checkpoint yet: let its first epoch finish (hardmax train --resume --out {run})")
    model = load_model(run / name, device=device).eval()
    if not isinstance(model, kind):
        raise DataError(f"{run} holds {MODELS[config.model][2]}, which this is not for")
    return Restored(config, model, name, said)
