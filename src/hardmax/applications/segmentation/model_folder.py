"""The folder of a segmentation model: where the default one is, and its files of tensors and facts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from hardmax.data.datasets import cache_dir
from hardmax.errors import DataError
from hardmax.files import write_output

_SHIPPED = Path(__file__).parent / "prior"


def find_model(given: str | None) -> Path:
    """Return the folder of a model: the one given, or the one that comes with hardmax, or the one in the cache.

    Raises:
        DataError: there is none.
    """
    if given is not None:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise DataError(
                f"{folder} is no folder with a model; make one with hardmax segment prior or hardmax segment train"
            )
        return folder
    for folder in (_SHIPPED, default_folder()):
        if folder.is_dir() and any(folder.iterdir()):
            return folder
    raise DataError(
        "there is no model yet; make one from label maps, in minutes: hardmax segment prior MAPS..., or name one with "
        "--model"
    )


def default_folder() -> Path:
    """Return where `hardmax segment prior` puts a model that no folder is named for."""
    return cache_dir() / "segment" / "prior"


def save_tensors(folder: Path, name: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write both files; the facts come last, and say that the tensors are there.

    Raises:
        DataError: the folder cannot be written.
    """
    # A view of a larger tensor would be saved whole, or refused.
    own = {key: tensor.detach().clone(memory_format=torch.contiguous_format) for key, tensor in tensors.items()}
    with write_output(folder / f"{name}.safetensors", "folder") as temporary:
        # Not by save_file: what it writes none but the owner may read, and a model is for others too.
        temporary.write_bytes(save(own))
    with write_output(folder / f"{name}.json", "folder") as temporary:
        temporary.write_text(json.dumps(dict(facts), indent=2) + "\n", encoding="utf-8")


def load_tensors(folder: Path, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read both files.

    Raises:
        DataError: a file is missing or broken.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> save_tensors(folder, "prior", {"mean": torch.zeros(2)}, {"labels": 3})
        >>> load_tensors(folder, "prior")
        ({'mean': tensor([0., 0.])}, {'labels': 3})
    """
    for suffix in ("safetensors", "json"):
        if not (folder / f"{name}.{suffix}").is_file():
            raise DataError(f"{folder} holds no {name}: {name}.{suffix} is missing; make it, or give another folder")
    try:
        facts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return load_file(folder / f"{name}.safetensors"), facts
    except Exception as error:  # safetensors has an error class of its own
        raise DataError(f"cannot read the {name} in {folder}: {error}; make it again") from error
