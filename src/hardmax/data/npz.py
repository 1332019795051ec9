"""Read and write .npz and .npy files: bounded by what their headers say, and without unpickling. Imports no torch."""

import math
import os
import sys
import zipfile
from io import BufferedIOBase
from pathlib import Path
from typing import cast

import numpy as np

from hardmax.data.memory import check_memory, read_at_most
from hardmax.errors import DataError, HardmaxError
from hardmax.files import write_output

_COPIES = 2  # an array, and its conversion or its splits into parts


def read_npz(path: Path, only: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file; with `only`, those of these names that exist.

    Raises:
        DataError: the file cannot be read, is broken, holds pickled objects, or takes too much memory.
    """
    arrays: dict[str, np.ndarray] = {}
    name = None
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            chosen = {name: member for name, member in members.items() if only is None or name in only}
            # zipfile never returns more bytes of a member than its directory says.
            total = sum(member.file_size for member in chosen.values())
            check_memory(_COPIES * total, os.fstat(file.fileno()).st_size, str(path))
            for name, member in chosen.items():
                with cast("zipfile.ZipExtFile", archive.open(member)) as stream:
                    arrays[name] = _read_array(stream, member.file_size)
    except HardmaxError:
        raise
    except Exception as error:  # zipfile, its decompressors and numpy raise errors of almost any class
        raise _make_read_error(path, name, error) from error
    return arrays


def list_arrays(path: Path) -> list[str]:
    """Return the names of the arrays of an .npz file.

    Raises:
        DataError: the file cannot be read, or is broken.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except Exception as error:
        raise _make_read_error(path, None, error) from error


def read_npy(path: Path) -> np.ndarray:
    """Read the array of an .npy file; raises the same errors as `read_npz`."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            check_memory(_COPIES * size, size, str(path))
            return _read_array(file, size)
    except HardmaxError:
        raise
    except Exception as error:
        raise _make_read_error(path, None, error) from error


def write_npz(path: Path, **arrays: np.ndarray) -> None:
    """Write arrays to an .npz file atomically.

    Raises:
        DataError: the file cannot be written.
    """
    with write_output(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _read_array(stream: BufferedIOBase, size: int) -> np.ndarray:
    """Read an array in numpy's format, of this number of bytes; raises almost any error if it is broken."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of numpy's format holds no plain numbers")
    shape, is_fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    if min(shape, default=0) < 0 or not dtype.itemsize:
        raise ValueError(f"an array of shape {list(shape)} and dtype {dtype} is impossible")
    expected, available = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if expected != available:
        fault = "cut off" if expected > available else "too long"
        raise ValueError(f"it is {fault}: {available:,} bytes, and its header says {expected:,}")
    data = read_at_most(stream, expected)
    stream.read(1)  # at its end, the checksum of a member is verified
    if len(data) != expected:
        raise ValueError(f"it is cut off after {len(data):,} of {expected:,} bytes")
    array = np.frombuffer(data, dtype)
    if dtype.kind == "U" and (array.view(np.dtype("u4").newbyteorder(dtype.byteorder)) > sys.maxunicode).any():
        raise ValueError("it holds characters that do not exist")  # Python would raise an error of its own, later
    return array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)


def _make_read_error(path: Path, member: str | None, error: Exception) -> DataError:
    what = f"{path}, array {member!r}," if member else f"{path}"
    if "Object arrays" in str(error):
        return DataError(
            f"{what} holds pickled Python objects, which are never loaded, since they can run any code; save plain "
            "numbers of one shape and dtype: np.savez(path, images=images.astype('uint8'))"
        )
    if isinstance(error, OSError) and error.strerror:
        return DataError(f"{path} cannot be read: {error.strerror}")
    reason = " ".join(str(error).split()) or type(error).__name__
    if "magic string" in reason:
        reason = "it is not in numpy's format"
    if "encrypted" in reason:
        reason = "it is encrypted"
    return DataError(f"{what} is broken or not a numpy file: {reason[:200]}; get the file again")
