"""`hardmax tokenize`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.cli.by_model import module_for
from hardmax.cli.options import parse
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Turn pictures into tokens of a trained dVAE: a grid of whole numbers for each, in one .npz file.

    Examples: hardmax tokenize runs/dvae photos/ --out tokens.npz; hardmax tokenize runs/dvae fashion-mnist
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model dvae."""
    images: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES [IMAGES ...]")]
    """Picture files; or one folder of them, one .npz, .npy or IDX file, or the name of a data set."""
    out: str = "tokens.npz"
    """File to write: arrays tokens [N, h, w], names [N], codes (how many there are) and model (whose they are)."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""

    def __post_init__(self) -> None:
        if not self.out.lower().endswith(".npz"):
            raise ArgumentError(f"out must be an .npz file, got {self.out!r}")


def run(arguments: list[str]) -> int:
    """Tokenize, write the file, and say what is in it."""
    options = parse(Options, "tokenize", arguments)
    module_for("tokenize", options.run).tokenize(options)
    return 0
