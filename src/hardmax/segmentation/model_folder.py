"""Which model segments, if none is named. No torch here."""

from pathlib import Path

from hardmax.data.catalogue import cache_dir
from hardmax.errors import DataError

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
