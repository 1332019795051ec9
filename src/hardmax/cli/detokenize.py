"""`hardmax detokenize`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.cli.by_model import module_for
from hardmax.cli.options import parse


@dataclass(frozen=True)
class Options:
    """Draw pictures from tokens, with the dVAE that made them.

    Example: hardmax detokenize runs/dvae tokens.npz --out drawn
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run that made the tokens."""
    tokens: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TOKENS")]
    """File that hardmax tokenize wrote."""
    out: str = "detokenized"
    """Folder for a PNG file of each picture, under the name that the file has for it; or one .npz file."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    device: str = "cpu"
    """cpu, cuda, ..."""


def run(arguments: list[str]) -> int:
    """Draw, write the pictures, and say where they are."""
    options = parse(Options, "detokenize", arguments)
    module_for("detokenize", options.run).detokenize(options)
    return 0
