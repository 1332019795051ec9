"""What all models share: a folder with a configuration and weights, written and read."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from safetensors.torch import load_file, save
from torch import nn

from hardmax.errors import DataError

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"

# Not typing.Self, which jaxtyping's import hook cannot check.
Model = TypeVar("Model", bound="AbstractModel")


class AbstractModel(nn.Module, ABC):
    """A module that is saved as JSON and safetensors, and built again from them; nothing is ever unpickled."""

    kind: ClassVar[str]
    """What `config.json` calls such a model."""

    def __init__(self) -> None:
        super().__init__()
        # What a model of our own networks was built with; None where they are the user's.
        self._config: dict[str, Any] | None = None

    @classmethod
    @abstractmethod
    def _from_config(cls: type[Model], config: dict[str, Any]) -> Model:
        """Build the model that a configuration describes; KeyError, TypeError or ValueError where it does not."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into a folder, each to a temporary name first."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {"model": self.kind, **(self._config or {"architecture": None})}
        weights = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        temporary = folder / f"{_WEIGHTS}.tmp"
        temporary.write_bytes(save(weights))  # save_file would let none but the owner read it
        temporary.replace(folder / _WEIGHTS)
        temporary = folder / f"{_CONFIG}.tmp"
        temporary.write_text(json.dumps(config, indent=2) + "\n")
        temporary.replace(folder / _CONFIG)

    @classmethod
    def from_pretrained(
        cls: type[Model], folder: str | Path, model: Model | None = None, *, device: torch.device | str = "cpu"
    ) -> Model:
        """Load what `save_pretrained` wrote; nothing is unpickled.

        Args:
            folder: the one that was written.
            model: one with networks of your own, to be filled; not needed for those made by `build`.
            device: where the weights go.

        Raises:
            DataError: a file is missing or broken, it is of another kind of model, or the weights do not fit.
        """
        folder = Path(folder)
        config = saved_config(folder)
        expected = cls if model is None else type(model)
        if config.get("model") != expected.kind:
            raise DataError(
                f"{folder} holds a model of the kind {config.get('model')!r}, not {expected.kind!r}; "
                f"hardmax.load_model(folder) loads any kind"
            )
        try:
            weights = load_file(folder / _WEIGHTS, device=str(device))
        except Exception as error:  # safetensors has an error class of its own
            raise DataError(f"cannot read the model in {folder}: {error}") from error
        if model is None:
            model = cls._built(config, folder)
        try:
            model.to(device).load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights in {folder} do not fit the model: {error}") from error
        return model

    @classmethod
    def _built(cls: type[Model], config: dict[str, Any], folder: Path) -> Model:
        if not config.get("architecture"):
            raise DataError(f"{folder} was saved from networks of your own: pass them, from_pretrained(folder, model)")
        try:
            with torch.random.fork_rng(devices=[]):  # weights that are replaced at once take no global randomness
                return cls._from_config(config)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{folder / _CONFIG} is not the configuration of a {cls.kind}: {error!r}") from error


def saved_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of the model saved in a folder.

    Raises:
        DataError: a file is missing, or the configuration is none.
    """
    for name in (_CONFIG, _WEIGHTS):
        if not (folder / name).is_file():
            raise DataError(f"{folder} holds no saved model: {name} is missing")
    try:
        config = json.loads((folder / _CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the model in {folder}: {error}") from error
    if not isinstance(config, dict):
        raise DataError(f"{folder / _CONFIG} is not the configuration of a model: it holds no JSON object")
    return config
