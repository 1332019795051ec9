"""The folders that the studio may read. Imports no torch."""

import os
from dataclasses import dataclass
from pathlib import Path

from hardmax.errors import ArgumentError, DataError
from hardmax.files import expand_path, report_read_error


@dataclass(frozen=True)
class Folders:
    """The folders given on the command line; nothing outside of them is read.

    Attributes:
        roots: the folders, with symbolic links resolved.
    """

    roots: tuple[Path, ...] = ()

    def resolve_path(self, path: str | Path) -> Path:
        """Return the file or folder that a page asks for, with symbolic links and `..` resolved.

        A relative path is looked up in the current folder, as on the command line. The error is the same whether a path
        outside of the folders exists or not.

        Args:
            path: from the address of a page, or from its input.

        Raises:
            DataError: the path leads out of the folders, or does not exist.
        """
        try:
            resolved = Path(os.path.realpath(expand_path(path)))
        except (OSError, ValueError) as error:  # ValueError: a NUL character
            raise DataError(f"{str(path)[:200]} is not a path") from error
        if not any(resolved == root or root in resolved.parents for root in self.roots):
            raise DataError(
                f"{str(path)[:200]} is not in the folders of this studio; restart it with that folder: hardmax studio "
                "FOLDER"
            )
        with report_read_error(resolved):
            if not resolved.exists():
                raise DataError(f"{str(path)[:200]} does not exist; it may have been deleted or renamed")
        return resolved


def open_folders(names: tuple[str, ...]) -> Folders:
    """Return the folders of these names.

    Raises:
        ArgumentError: a name is not a folder.
        DataError: a folder cannot be read.
    """
    for name in names:
        with report_read_error(name):
            if not expand_path(name).is_dir():
                raise ArgumentError(f"{name} is not a folder; pass the folder of a run, or one with runs below it")
    return Folders(tuple(dict.fromkeys(Path(os.path.realpath(expand_path(name))) for name in names)))
