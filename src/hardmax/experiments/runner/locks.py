"""Locks in a folder that several runners share. A lock is released when its process exits."""

import json
import secrets
from pathlib import Path

from filelock import FileLock

from hardmax.errors import ArgumentError, DataError
from hardmax.files import write_text
from hardmax.json_files import read_json
from hardmax.training.locks import is_free


def lock_path(out: Path, name: str) -> Path:
    """Return the file of a lock: the lock of a run by its name, or `folder`, `results` or `page`."""
    return out / "locks" / f"{name}.lock"


class RunnerLock:
    """A lock that a runner holds as long as it wants the jobs that it submitted.

    Its workers poll the lock: once it is free, the runner has been stopped or killed, here or on another machine, and
    they save their work and stop.
    """

    def __init__(self, out: Path) -> None:
        self.path = lock_path(out, f"runner-{secrets.token_hex(8)}")
        self._lock = FileLock(self.path)
        with FileLock(lock_path(out, "folder")):  # prevents other runners from removing our file before it is locked
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
    """Record the experiment of a folder, or refuse a folder of another experiment: runs would replace each other.

    Args:
        out: the folder.
        name: name of the table or figure.
        quick: whether this is its quick form.

    Raises:
        ArgumentError: the folder belongs to another table or figure.
        DataError: the folder cannot be read or written.
    """
    kind = {"experiment": name, "quick": quick}
    path, lock = out / _KIND, lock_path(out, "folder")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            if not path.exists():
                write_text(path, json.dumps(kind) + "\n")
            stored = read_json(path)
    except (OSError, DataError) as error:
        raise DataError(f"cannot use the folder {out}: {error}; choose another with --out") from error
    if stored != kind:
        form = "the quick form" if stored.get("quick") else "the full form"
        what = str(stored.get("experiment"))[:80]
        raise ArgumentError(f"{out} holds {form} of {what}; choose another folder with --out")
