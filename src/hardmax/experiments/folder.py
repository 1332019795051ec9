"""The folder of a table or figure: what it is for."""

import json
from pathlib import Path

from filelock import FileLock

from hardmax.errors import ArgumentError, DataError
from hardmax.experiments.locks import lock_of
from hardmax.training.checkpoint import write_atomically

_KIND = "experiment.json"


def claim(out: Path, name: str, *, quick: bool) -> None:
    """Write down what a folder is for, or refuse one that is for something else: runs would replace each other.

    Args:
        out: the folder.
        name: of the table or figure.
        quick: whether this is its quick form.

    Raises:
        ArgumentError: it is for something else.
        DataError: it cannot be read or written.
    """
    kind = {"experiment": name, "quick": quick}
    path, lock = out / _KIND, lock_of(out, "folder")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            if not path.exists():
                write_atomically(path, json.dumps(kind) + "\n")
            found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot use the folder {out}: {error}; choose another with --out") from error
    if found != kind:
        form = "the quick form" if isinstance(found, dict) and found.get("quick") else "the full form"
        what = found.get("experiment") if isinstance(found, dict) else "something else"
        raise ArgumentError(f"{out} holds {form} of {what}; choose another folder with --out")
