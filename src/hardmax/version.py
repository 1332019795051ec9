"""The version of hardmax, the commit of its source, and a hash of its files. Does not import torch."""

import hashlib
import subprocess
from functools import cache
from pathlib import Path

__version__ = "0.1.0.dev0"

_SOURCE = Path(__file__).parent


def find_commit() -> str | None:
    """Return the commit of hardmax's own source if it runs from a checkout, else None."""
    try:
        git = subprocess.run(
            ["git", "-C", str(_SOURCE), "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return git.stdout.strip()


@cache
def hash_source() -> str:
    """Return a hash of the installed package's Python files: two installations with equal hashes run the same code.

    A version number changes only with a release, and the commit is unknown outside a checkout.
    """
    digest = hashlib.sha256()
    for path in sorted(_SOURCE.rglob("*.py")):
        digest.update(f"{path.relative_to(_SOURCE).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
