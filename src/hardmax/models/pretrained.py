"""Save and load models: a folder with a configuration (JSON) and weights (safetensors).

`write_tensors` and `read_tensors` write and read all files of tensors in hardmax, each with a JSON file next to it.
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
from hardmax.files import replace_atomically, report_read_error, write_text
from hardmax.json_files import read_json
from hardmax.models.structure import build_checked, find_difference

MODEL_FILES = ("model.safetensors", "config.json")

# Not typing.Self, which jaxtyping's import hook cannot check.
Model = TypeVar("Model", bound="AbstractModel")


class AbstractModel(nn.Module, ABC):
    """Base class of modules that are saved as JSON and safetensors and rebuilt from them; nothing is ever unpickled."""

    kind: ClassVar[str]
    """The name of this kind of model in `config.json`."""

    def __init__(self) -> None:
        super().__init__()
        # The arguments of `build`; None for a model with the user's networks.
        self._config: dict[str, Any] | None = None

    @classmethod
    @abstractmethod
    def _from_config(cls: type[Model], config: dict[str, Any]) -> Model:
        """Build the model that a configuration describes; raises KeyError, TypeError or ValueError if it is invalid."""

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
        """Load a model written by `save_pretrained`; nothing is unpickled.

        Args:
            folder: the folder of the saved model.
            model: a model with your networks, to load the weights into; not needed for models created by `build`.
            device: device of the weights.

        Raises:
            DataError: a file is missing or broken, belongs to another kind of model, or the weights do not fit.
        """
        folder = Path(folder)
        weights, config = read_tensors(folder, device=device)
        expected = cls if model is None else type(model)
        check_kind(config, expected.kind, folder)
        if model is None:
            return cls.from_tensors(weights, config, folder).to(device)
        return model._fill(weights, folder, device)

    @classmethod
    def from_tensors(cls: type[Model], tensors: dict[str, Tensor], config: dict[str, Any], folder: Path) -> Model:
        """Build the model that a configuration describes, with these weights; the folder is for error messages.

        Raises:
            DataError: the configuration is not one of this kind of model, or the weights do not fit.
        """
        if config.get("architecture", "") is None:
            raise DataError(f"{folder} was saved from networks of your own: pass them, from_pretrained(folder, model)")
        model = build_checked(cls._from_config, config, tensors, str(folder), f"a {cls.kind}")
        return model._fill(tensors, folder, "cpu")

    def _fill(self: Model, weights: dict[str, Tensor], folder: Path, device: torch.device | str) -> Model:
        if (difference := find_difference(weights, self.state_dict())) is not None:
            raise DataError(f"the weights in {folder} do not fit the model: {difference}")
        self.to(device).load_state_dict(weights)
        return self


def write_tensors(
    folder: Path,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    names: tuple[str, str] = MODEL_FILES,
) -> None:
    """Write tensors as safetensors and a mapping as JSON, each file atomically, the JSON last.

    Args:
        folder: folder to write to; created if missing.
        tensors: tensors by name.
        facts: a mapping that can be written as JSON.
        names: names of both files.

    Raises:
        DataError: the folder cannot be written.
    """
    # safetensors would save all of the tensor behind a view, or raise an error.
    copies = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replace_atomically(folder / names[0]) as temporary:
            # Not save_file: its file is readable by the owner only.
            temporary.write_bytes(save(copies))
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
    """Read the tensors and the mapping written by `write_tensors`; nothing is unpickled.

    Args:
        folder: the folder with both files.
        what: the expected contents of the folder, for error messages.
        names: names of both files.
        device: device of the tensors.

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
    except Exception as error:  # safetensors has its own error class
        raise DataError(f"cannot read the {what} in {folder}: {error}") from error


def read_saved_config(folder: Path, what: str = "model", names: tuple[str, str] = MODEL_FILES) -> dict[str, Any]:
    """Return the contents of the JSON file of a saved model, or of other tensors; see `read_tensors`.

    Raises:
        DataError: a file is missing, or the configuration is invalid.
    """
    with report_read_error(folder):
        missing = [name for name in reversed(names) if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} holds no saved {what}: {missing[0]} is missing")
    try:
        return read_json(folder / names[1])
    except DataError as error:
        raise DataError(f"cannot read the {what} in {folder}: {error}") from error


def check_kind(config: Mapping[str, Any], kind: str, folder: Path) -> None:
    """Check that a saved configuration belongs to a given kind of model.

    Raises:
        DataError: it belongs to another kind.
    """
    if config.get("model") != kind:
        raise DataError(
            f"{folder} holds a model of the kind {config.get('model')!r}, not {kind!r}; "
            f"hardmax.load_model(folder) loads any kind"
        )
