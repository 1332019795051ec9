"""Locks in a folder that several runners may share. One ends with the process that holds it: none is ever stale."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


def lock_of(out: Path, name: str) -> Path:
    """Return the file of a lock: of a run by its name, or of `folder`, `results` and `page`."""
    return out / "locks" / f"{name}.lock"


@contextmanager
def taken(path: Path) -> Iterator[bool]:
    """Hold a lock if nobody else does, and give whether it is ours; never waits."""
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
    """Whether nobody holds a lock."""
    with taken(path) as ours:
        return ours


class Presence:
    """A lock that a runner holds as long as it wants the work that it gave out.

    Whoever works for it looks at the lock: once it is free, the runner has been stopped or killed, here or on another
    machine, and the work is saved and ended.
    """

    def __init__(self, out: Path) -> None:
        self.path = lock_of(out, f"runner-{secrets.token_hex(8)}")
        self._lock = FileLock(self.path)
        with FileLock(lock_of(out, "folder")):  # nobody takes our file for one that a killed runner has left
            for old in out.glob("locks/runner-*.lock"):
                if is_free(old):
                    old.unlink(missing_ok=True)
            self._lock.acquire()

    def end(self) -> None:
        """Let all who work for it save and stop."""
        self._lock.release()

    def __enter__(self) -> "Presence":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.path.unlink(missing_ok=True)
