"""The folder of a segmentation model: its default path, and its parts.

It always has `atlas/`, and `head/` if its label maps are of whole heads; after `hardmax segment train` also `vae/` and
`encoder/`. Each of them holds `model.safetensors` and `config.json`, as every saved model of hardmax does.
"""

from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from hardmax.data.datasets import find_cache
from hardmax.errors import DataError
from hardmax.files import expand_path
from hardmax.models.pretrained import read_tensors

ATLAS, HEAD, VAE, ENCODER = "atlas", "head", "vae", "encoder"
_SHIPPED = Path(__file__).parent / "prior"


def find_model(given: str | None) -> Path:
    """Return the folder of a model: the given one, or else the prior that ships with hardmax, or the one in the cache.

    Raises:
        DataError: there is no model.
    """
    if given is not None:
        folder = expand_path(given)
        if not folder.is_dir():
            raise DataError(
                f"{folder} is not a folder with a model; make one with hardmax segment prior or hardmax segment train"
            )
        return folder
    for folder in (_SHIPPED, find_default_folder()):
        if folder.is_dir() and any(folder.iterdir()):
            return folder
    raise DataError(
        "there is no model yet; make one from label maps, in minutes: hardmax segment prior MAPS..., or name one with "
        "--model"
    )


def find_default_folder() -> Path:
    """Return the default folder of `hardmax segment prior`."""
    return find_cache() / "segment" / "prior"


@runtime_checkable
class SavedPart(Protocol):
    """A class whose instances are saved in a folder: an `AbstractModel`, or an atlas."""

    @classmethod
    def from_pretrained(cls, folder: Path) -> Any:
        """Load an instance from its folder."""
        ...

    @classmethod
    def from_tensors(cls, tensors: dict[str, Any], config: dict[str, Any], folder: Path) -> Any:
        """Build an instance from loaded tensors and configuration."""
        ...


Part = TypeVar("Part", bound=SavedPart)


def has_part(folder: Path, name: str) -> bool:
    """Return whether a model has a part: "atlas", "head", "vae" or "encoder"."""
    return (folder / name).is_dir() or _is_old(folder, name)


def load_part(kind: type[Part], folder: Path, name: str) -> Part:
    """Load one part of a model.

    Args:
        kind: class of the part.
        folder: folder of the model.
        name: "atlas", "head", "vae" or "encoder".

    Raises:
        DataError: a file is missing or broken, or the part is of another kind.
    """
    try:
        if _is_old(folder, name):
            return kind.from_tensors(*read_tensors(folder, name, (f"{name}.safetensors", f"{name}.json")), folder)
        return kind.from_pretrained(folder / name)
    except DataError as error:
        command = "hardmax segment prior" if name in (ATLAS, HEAD) else "hardmax segment train"
        raise DataError(f"{error}; make it again with {command}, or give another folder") from error


def _is_old(folder: Path, name: str) -> bool:
    """Return whether a part was saved as `<name>.safetensors` and `<name>.json`, before each part had a folder."""
    return (folder / f"{name}.json").is_file()
