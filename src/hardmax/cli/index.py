"""`hardmax index`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.cli.by_model import module_for
from hardmax.cli.options import parse


@dataclass(frozen=True)
class Options:
    """Give every picture of a collection the code that a trained encoder has for it, for hardmax search.

    Writes one file: packed codes, names, and the pictures as the encoder sees them.

    Examples: hardmax index runs/codes fashion-mnist --out fashion.npz; hardmax index runs/codes my/photos --out my.npz
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run of hardmax train --model hashing."""
    images: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="IMAGES")]
    """A folder of pictures of any sizes, or what --data of hardmax train takes: a set by its name, .npz, .npy, IDX."""
    out: str = "index.npz"
    """File to write."""
    split: Literal["all", "train", "validation", "test"] = "all"
    """Pictures of a data set; of a folder, all below it."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""


def run(arguments: list[str]) -> int:
    """Make the index, and say what is in it and where it is."""
    options = parse(Options, "index", arguments)
    module_for("index", options.run).index(options)
    return 0
