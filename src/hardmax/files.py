"""Write files and folders atomically: complete, or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from hardmax.errors import DataError


@contextmanager
def replace_atomically(path: Path, suffix: str = ".tmp") -> Iterator[Path]:
    """Yield a temporary path in the same folder; the file that the block writes there is flushed to disk and renamed.

    A reader sees the old file or the new one. If the block fails, nothing is left, and the old file stays.

    Args:
        path: path of the file.
        suffix: suffix of the temporary name. The default is constant, so that the next write replaces the leftovers
            of a kill; give each process its own suffix if several may write the file at once.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = path.with_name(path.name + suffix)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # or a power failure may leave an empty file under the new name
        temporary.replace(path)
    finally:
        # After a failure of any kind, including Ctrl-C; after a success no file has this name.
        if temporary.is_file():
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text to a file atomically.

    Raises:
        OSError: the file cannot be written.
    """
    with replace_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def write_output(path: Path, instead: str = "file") -> Iterator[Path]:
    """Write a file that the user has named, atomically; its folder is created if it is missing.

    Args:
        path: path of the file.
        instead: what --out names; the error message asks for another one.

    Raises:
        DataError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a" / "b.txt"
        >>> with write_output(path) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> path.read_text(), [file.name for file in path.parent.iterdir()]
        ('whole', ['b.txt'])
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(path) as temporary:
            yield temporary
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; choose another {instead} with --out"
        ) from error


def make_folder(folder: Path) -> None:
    """Create a folder, and test that it is writable, before any work is done.

    Raises:
        DataError: it cannot be created, or is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(
            f"cannot write to the folder {folder}: {error.strerror or error}; choose another one with --out"
        ) from error


@contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder next to this one to write to; at the end it is renamed.

    If the block fails, nothing is left.

    Raises:
        DataError: the folder is not empty, or it cannot be written.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    if folder.exists():
        raise DataError(f"{folder} is there already, and is not written over; choose another one with --out")
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # leftovers of a killed program
    make_folder(temporary)
    try:
        yield temporary
        temporary.replace(folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}; choose another one with --out") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
