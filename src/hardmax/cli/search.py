"""`hardmax search`."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from hardmax.cli.options import parse
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Find the pictures of an index whose codes differ in the fewest bits from those of some pictures.

    Prints a list, and writes a sheet: each picture, and the nearest ones beside it.

    Example: hardmax search fashion.npz shirt.png --count 10
    """

    index: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="INDEX")]
    """File that hardmax index wrote."""
    pictures: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PICTURE [PICTURE ...]")]
    """Picture files of any size: cut to the proportions that the encoder knows around the centre, and resized."""
    count: int = 10
    """How many to find for each."""
    out: str = "search.png"
    """Picture file for the sheet."""
    run: str | None = None
    """Folder of the run that made the codes, if it is no longer where it was."""
    json: bool = False
    """Print one JSON object for each picture instead of a list."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"count must be at least 1, got {self.count}")
        if not self.pictures:
            raise ArgumentError("name at least one picture to search for: hardmax search INDEX PICTURE")


def run(arguments: list[str]) -> int:
    """Search, write the sheet, and say what was found."""
    options = parse(Options, "search", arguments)
    from hardmax.cli.hashing.search import search

    search(options)
    return 0
