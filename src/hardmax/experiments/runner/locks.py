"""Locks in a folder that several runners share. A lock is released when its process exits."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hardmax.errors import ArgumentError, DataError
from hardmax.files import write_text


def lock_path(out: Path, name: str) -> Path:
    """Return the file of a lock: the lock of a run by its name, or `folder`, `results` or `page`."""
    return out / "locks" / f"{name}.lock"


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold a lock within the block unless another process holds it; yield whether it is held, without waiting."""
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def is_free(path: Path) -> bool:
    """Whether no process holds a lock."""
    with try_lock(path) as ours:
        return ours


class RunnerLock:
    """A lock that a runner holds as long as it wants the jobs that it submitted.

    Its workers poll the lock: once it is free, the runner has been stopped or killed, here or on another machine, and
    they save their work and stop.
    """

    def __init__(self, out: Path) -> None:
        self.path = lock_path(out, f"runner-{secrets.token_hex(8)}")
        self._lock = FileLock(self.path)
        with FileLock(lock_path(out, "folder")):  # so that no other runner removes our file as that of a killed runner
            for old in out.glob("locks/runner-*.lock"):
                if is_free(old):
                    old.unlink(missing_ok=True)
            self._lock.acquire()

    def release(self) -> None:
        """Make all workers save and stop."""
        self._lock.release()

    def __enter__(self) -> "RunnerLock":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
        self.path.unlink(missing_ok=True)


_KIND = "experiment.json"


def claim_folder(out: Path, name: str, *, quick: bool) -> None:
    """Record the experiment of a folder, or refuse a folder of another one: runs would replace each other.

    Args:
        out: the folder.
        name: name of the table or figure.
        quick: whether this is its quick form.

    Raises:
        ArgumentError: the folder belongs to something else.
        DataError: the folder cannot be read or written.
    """
    kind = {"experiment": name, "quick": quick}
    path, lock = out / _KIND, lock_path(out, "folder")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            if not path.exists():
                write_text(path, json.dumps(kind) + "\n")
            stored = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot use the folder {out}: {error}; choose another with --out") from error
    if stored != kind:
        form = "the quick form" if isinstance(stored, dict) and stored.get("quick") else "the full form"
        what = stored.get("experiment") if isinstance(stored, dict) else "something else"
        raise ArgumentError(f"{out} holds {form} of {what}; choose another folder with --out")
