"""Saved models: a folder with a configuration (JSON) and weights (safetensors), written and read.

`write_tensors` and `read_tensors` write and read all files of tensors in hardmax, each with a JSON file beside it.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from hardmax.errors import DataError
from hardmax.files import replace_atomically, write_text

MODEL_FILES = ("model.safetensors", "config.json")

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
        """Write `model.safetensors` and `config.json` into a folder, each atomically.

        Raises:
            DataError: the folder cannot be written.
        """
        config = {"model": self.kind, **(self._config or {"architecture": None})}
        write_tensors(Path(folder), self.state_dict(), config)

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
        weights, config = read_tensors(folder, device=device)
        expected = cls if model is None else type(model)
        check_kind(config, expected.kind, folder)
        if model is None:
            model = cls._built(config, folder)
        return model._fill(weights, folder, device)

    @classmethod
    def from_tensors(cls: type[Model], tensors: dict[str, Tensor], config: dict[str, Any], folder: Path) -> Model:
        """Build the model that a configuration describes, with these weights; the folder is for error messages.

        Raises:
            DataError: the configuration is none of such a model, or the weights do not fit.
        """
        return cls._built(config, folder)._fill(tensors, folder, "cpu")

    def _fill(self: Model, weights: dict[str, Tensor], folder: Path, device: torch.device | str) -> Model:
        try:
            self.to(device).load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"the weights in {folder} do not fit the model: {error}") from error
        return self

    @classmethod
    def _built(cls: type[Model], config: dict[str, Any], folder: Path) -> Model:
        if config.get("architecture", "") is None:
            raise DataError(f"{folder} was saved from networks of your own: pass them, from_pretrained(folder, model)")
        try:
            with torch.random.fork_rng(devices=[]):  # weights that are replaced at once take no global randomness
                return cls._from_config(config)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"what {folder} holds is not the configuration of a {cls.kind}: {error!r}") from error


def write_tensors(
    folder: Path,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    names: tuple[str, str] = MODEL_FILES,
) -> None:
    """Write tensors as safetensors and facts as JSON, each file atomically; the JSON comes last.

    Args:
        folder: to write to; it is made if it is missing.
        tensors: by name.
        facts: what JSON can hold.
        names: of both files.

    Raises:
        DataError: the folder cannot be written.
    """
    # A view of a larger tensor would be saved whole, or refused.
    own = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replace_atomically(folder / names[0]) as temporary:
            # Not by save_file: what it writes none but the owner may read, and a model is for others too.
            temporary.write_bytes(save(own))
        write_text(folder / names[1], json.dumps(dict(facts), indent=2) + "\n")
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror or error}; choose another folder") from error


def read_tensors(
    folder: Path,
    what: str = "model",
    names: tuple[str, str] = MODEL_FILES,
    *,
    device: torch.device | str = "cpu",
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; nothing is unpickled.

    Args:
        folder: the one that was written.
        what: the folder is expected to hold, for error messages.
        names: of both files.
        device: where the tensors go.

    Raises:
        DataError: a file is missing or broken.

    Example:
        >>> import tempfile, torch
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_tensors(folder, {"mean": torch.zeros(2)}, {"labels": 3})
        >>> read_tensors(folder)
        ({'mean': tensor([0., 0.])}, {'labels': 3})
    """
    facts = read_saved_config(folder, what, names)
    try:
        return load_file(folder / names[0], device=str(device)), facts
    except Exception as error:  # safetensors has an error class of its own
        raise DataError(f"cannot read the {what} in {folder}: {error}") from error


def read_saved_config(folder: Path, what: str = "model", names: tuple[str, str] = MODEL_FILES) -> dict[str, Any]:
    """Return the JSON file of what is saved in a folder; see `read_tensors`.

    Raises:
        DataError: a file is missing, or the configuration is none.
    """
    for name in reversed(names):
        if not (folder / name).is_file():
            raise DataError(f"{folder} holds no saved {what}: {name} is missing")
    try:
        config = json.loads((folder / names[1]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the {what} in {folder}: {error}") from error
    if not isinstance(config, dict):
        raise DataError(f"{folder / names[1]} is not the configuration of a saved {what}: it holds no JSON object")
    return config


def check_kind(config: Mapping[str, Any], kind: str, folder: Path) -> None:
    """Check that a saved configuration is of one kind of model.

    Raises:
        DataError: it is of another one.
    """
    if config.get("model") != kind:
        raise DataError(
            f"{folder} holds a model of the kind {config.get('model')!r}, not {kind!r}; "
            f"hardmax.load_model(folder) loads any kind"
        )
