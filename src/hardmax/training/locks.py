"""Locks between processes, which end with the process that holds them; and the lock of a run's folder."""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hardmax.errors import ArgumentError, DataError
from hardmax.files import make_folder
from hardmax.training.run_folder import has_run, report_write_error

LOCK = ".lock"


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold a lock within the block unless another process holds it; yield whether it is held, without waiting.

    Raises:
        DataError: the file of the lock cannot be opened.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise DataError(f"cannot lock {path}: {error.strerror or error}; choose another --out") from error
    try:
        yield True
    finally:
        lock.release()


def is_free(path: Path) -> bool:
    """Whether no process holds a lock."""
    with try_lock(path) as ours:
        return ours


def is_held(path: Path) -> bool:
    """Whether a process holds a lock, without a change of its file: for programs that only observe.

    `is_free` takes the lock for a moment, creates its file, and may overwrite the name of the holder. This function
    shares the lock for some microseconds, in which a process that wants it would not get it.
    """
    try:
        import fcntl
    except ImportError:  # Windows, where a file that is locked cannot be read
        try:
            path.read_bytes()
        except PermissionError:
            return True
        except OSError:
            return False
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a disk without locks
        return False
    return False


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of a run within the block: only one process at a time writes to its folder.

    The folder is created if it is missing, and removed at the end if nothing was written to it. The operating system
    releases the lock of a process that was killed; the file `.lock` stays and names the last process that held it.

    Args:
        folder: folder of the run.

    Raises:
        ArgumentError: another process holds the lock; the message names it.
        DataError: the folder cannot be created or written.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    path = folder / LOCK
    with try_lock(path) as held:
        if not held:
            raise ArgumentError(
                f"{_read_holder(path)} is training in {folder}; wait until it ends, or choose another --out"
            )
        # On Windows a locked file cannot be written through another descriptor; only the message above needs this.
        with report_write_error(path), suppress(PermissionError):
            path.write_text(f"process {os.getpid()} on {platform.node()}\n")
        try:
            yield
        finally:
            if created and [*folder.iterdir()] == [path]:
                path.unlink()
                with suppress(OSError):
                    for one in created:
                        one.rmdir()


def _read_holder(path: Path) -> str:
    """Return what the process that holds a lock has written to its file, or "another process"."""
    try:
        text = path.read_text()[:100].strip()
    except (OSError, ValueError):
        text = ""
    return text if text and text.isprintable() else "another process"


def remove_run(folder: Path) -> None:
    """Remove the folder of a run that is to be made again; nothing happens if there is none.

    Raises:
        ArgumentError: another process trains in it, or it holds something else than a run.
    """
    if not folder.exists():
        return
    with lock_run(folder):
        if not has_run(folder) and any(path.name != LOCK for path in folder.iterdir()):
            raise ArgumentError(f"{folder} holds no run and is not removed; choose another --out")
        shutil.rmtree(folder)
