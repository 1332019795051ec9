"""Write files and folders atomically: complete, or not at all; and paths that a user or a file names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, mkdtemp

from hardmax.errors import DataError


def expand_path(name: str | Path) -> Path:
    """Return a path with `~` replaced by the home directory; the name of an unknown user stays as it is.

    Example:
        >>> expand_path("~nobody-of-this-name/images").as_posix()
        '~nobody-of-this-name/images'
    """
    return Path(os.path.expanduser(name))  # Path.expanduser raises RuntimeError for an unknown user


@contextmanager
def report_read_error(path: str | Path) -> Iterator[None]:
    """Raise `DataError` if the operating system refuses a path within the block.

    Even a question like `path.is_dir()` raises an error if a name is too long or a folder may not be entered.

    Args:
        path: the path that the user or a file named, for the error message.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read {str(path)[:_LONGEST]}: {error.strerror or error}") from error


_LONGEST = 1000  # characters of a path in an error message


@contextmanager
def _make_private_place(path: Path) -> Iterator[Path]:
    """Yield a path of the same name in a new folder next to it, which only this user can enter; removed at the end.

    The name of the folder is random: it never is that of a file or folder of someone else, nor a symbolic link placed
    there to be followed. A killed process leaves the folder, which has no other use and can be deleted.
    """
    prefix = f".{path.name[:50]}."  # shortened, since a name has at most 255 bytes
    with TemporaryDirectory(prefix=prefix, suffix=".tmp", dir=path.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder) / path.name


@contextmanager
def replace_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path on the same disk; the file that the block writes there is flushed to disk and renamed.

    Other processes read the old file or the new one; of two that write at once, the last one wins. If the block fails,
    the old file stays. A symbolic link at the path is replaced, and its target is unchanged.

    Args:
        path: path of the file.

    Raises:
        OSError: the file cannot be written.
    """
    with _make_private_place(path) as temporary:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # or a power failure may leave an empty file under the new name
        temporary.replace(path)


def write_text(path: Path, text: str) -> None:
    """Write a text to a file atomically.

    Raises:
        OSError: the file cannot be written.
    """
    with replace_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def write_output(path: Path, instead: str = "file") -> Iterator[Path]:
    """Write a file at a path that the user chose, atomically; a missing folder is created.

    Args:
        path: path of the file.
        instead: noun for the value of --out, which the error message asks the user to change.

    Raises:
        DataError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a" / "b.txt"
        >>> with write_output(path) as temporary:
        ...     _ = temporary.write_text("complete")
        >>> path.read_text(), [file.name for file in path.parent.iterdir()]
        ('complete', ['b.txt'])
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
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to; at the end it replaces this one, whose contents are removed.

    If the block fails, the old folder stays.

    Raises:
        OSError: the folder cannot be written.
    """
    with _make_private_place(folder) as temporary:
        temporary.mkdir()
        yield temporary
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            folder.rename(Path(mkdtemp(dir=temporary.parent)) / "old")  # is removed with the private folder
        temporary.rename(folder)


@contextmanager
def write_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to; at the end it is renamed to a folder that did not exist, or was empty.

    If the block fails, nothing is left.

    Raises:
        DataError: the folder is not empty, or it cannot be written.
    """
    try:
        if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
            raise DataError(f"{folder} exists and is not overwritten; choose another one with --out")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _make_private_place(folder) as temporary:
            temporary.mkdir()
            yield temporary
            if folder.is_dir():
                folder.rmdir()  # fails if it is not empty
            temporary.rename(folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}; choose another one with --out") from error
