"""Files and folders that are there whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from hardmax.errors import DataError


@contextmanager
def replacing(path: Path, instead: str = "file") -> Iterator[Path]:
    """Give a temporary name to write to, in the same folder; what stands there at the end is renamed to the path.

    If the block fails, nothing is left, and what the path held before stays.

    Args:
        path: of the file.
        instead: what the user names with --out, and is to name another one of if it cannot be written.

    Raises:
        DataError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a" / "b.txt"
        >>> with replacing(path) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> path.read_text(), [found.name for found in path.parent.iterdir()]
        ('whole', ['b.txt'])
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; choose another {instead} with --out"
        ) from error
    finally:
        # After a failure of any kind, Ctrl-C too; after a success there is nothing left of that name.
        if temporary.is_file():
            temporary.unlink()


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
def making_folder(folder: Path) -> Iterator[Path]:
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
