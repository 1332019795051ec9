"""From a dataclass to command-line options: a field's docstring is its help."""

import contextlib
import io
import re
from typing import TypeVar

import tyro

from hardmax.errors import ArgumentError

T = TypeVar("T")
_FRAME = re.compile(r"[╭╮╰╯│─]+|Parsing error|Value error|Error parsing \w+:")


def parse(kind: type[T], command: str, arguments: list[str]) -> T:
    """Return the dataclass that the arguments describe; `--help` prints and ends the program.

    Raises:
        ArgumentError: an option that does not exist or does not fit.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, prog=f"hardmax {command}", args=arguments)
    except SystemExit as stop:
        if not stop.code:
            raise
        # tyro draws a frame around what it has to say; every other error of ours is one line.
        raise ArgumentError(" ".join(_FRAME.sub(" ", said.getvalue()).split())) from None
