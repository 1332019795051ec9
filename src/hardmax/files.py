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
    """Give a temporary name in the same folder; what the block writes there is flushed to disk and renamed.

    A reader sees the old file or the new one. If the block fails, nothing is left, and the old file stays.

    Args:
        path: of the file.
        suffix: of the temporary name. The default is the same every time, so that what a kill has left is replaced;
            give each process one of its own where several may write the file at once.

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
        # After a failure of any kind, Ctrl-C too; after a success there is nothing left of that name.
        if temporary.is_file():
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, atomically.

    Raises:
        OSError: the file cannot be written.
    """
    with replace_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def write_output(path: Path, instead: str = "file") -> Iterator[Path]:
    """Write a file that the user has named, atomically; its folder is made if it is missing.

    Args:
        path: of the file.
        instead: what the user names with --out, and is to name another one of if it cannot be written.

    Raises:
        DataError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a" / "b.txt"
        >>> with write_output(path) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> path.read_text(), [found.name for found in path.parent.iterdir()]
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
    """Make a folder to write to, and try it, before any work is done.

    Raises:
        DataError: it cannot be made, or cannot be written to.
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
    """Give a temporary folder beside this one to write to; at the end it is renamed.

    If the block fails, nothing is left.

    Raises:
        DataError: there is something in the folder already, or it cannot be written.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    if folder.exists():
        raise DataError(f"{folder} is there already, and is not written over; choose another one with --out")
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # what a killed program left
    make_folder(temporary)
    try:
        yield temporary
        temporary.replace(folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}; choose another one with --out") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
