"""From a dataclass to command-line options: a field's docstring is its help."""

from typing import TypeVar

import tyro

T = TypeVar("T")


def parse(kind: type[T], command: str, arguments: list[str]) -> T:
    """Return the dataclass that the arguments describe; help and mistakes end the program as usual, with 0 and 2."""
    return tyro.cli(kind, prog=f"hardmax {command}", args=arguments)
