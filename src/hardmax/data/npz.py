"""Reading .npz and .npy files without ever running what is in them, and writing them whole or not at all."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from hardmax.errors import DataError
from hardmax.writing import replacing


def read_npz(path: Path, only: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file, all of them or only those named that are there.

    Raises:
        DataError: the file cannot be read, is broken, or holds pickled objects.
    """
    arrays: dict[str, np.ndarray] = {}
    name = None
    try:
        with path.open("rb") as stream:  # opened here, since numpy leaves a broken file open
            zipfile.ZipFile(stream).close()  # says more about what is wrong than numpy does
            stream.seek(0)
            members = np.load(stream, allow_pickle=False)
            for name in members.files:
                if only is None or name in only:
                    arrays[name] = members[name]
                    if not isinstance(arrays[name], np.ndarray):  # numpy's way with members in no format it knows
                        raise ValueError("it is not in numpy's format")
    except _BROKEN as error:
        raise _explained(path, name, error) from error
    return arrays


def read_npy(path: Path) -> np.ndarray:
    """Read the array of an .npy file; raises as `read_npz` does."""
    try:
        return np.load(path, allow_pickle=False)
    except _BROKEN as error:
        raise _explained(path, None, error) from error


def write_npz(path: Path, **arrays: np.ndarray) -> None:
    """Write arrays under a temporary name, then rename it.

    Raises:
        DataError: the file cannot be written.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


_BROKEN = (ValueError, OSError, EOFError, KeyError, NotImplementedError, MemoryError, zipfile.BadZipFile, zlib.error)


def _explained(path: Path, member: str | None, error: Exception) -> DataError:
    what = f"{path}, array {member!r}," if member else f"{path}"
    if "Object arrays" in str(error):
        return DataError(
            f"{what} holds pickled Python objects, which are never loaded, since they can run any code; save plain "
            "numbers of one shape and dtype: np.savez(path, images=images.astype('uint8'))"
        )
    if isinstance(error, OSError) and error.strerror:
        return DataError(f"{path} cannot be read: {error.strerror}")
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ValueError) and "pickled data" in reason:  # numpy's guess for what it does not know
        reason = "it is not in numpy's format"
    return DataError(f"{what} is broken or not a numpy file: {reason}; get the file again")
