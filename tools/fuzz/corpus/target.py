"""A file of the corpus, and the function of hardmax that reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """A valid file that is mutated, and how it is read.

    Attributes:
        name: name of the target.
        path: the file.
        read: reads the file, and others that belong to it; takes no arguments.
        written: folder that `read` may change, which is restored after each case; None if it only reads.
    """

    name: str
    path: Path
    read: Callable[[], object]
    written: Path | None = None
