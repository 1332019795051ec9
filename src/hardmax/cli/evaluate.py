"""`hardmax evaluate`."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from hardmax.cli.by_model import module_for
from hardmax.cli.options import parse
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """Say how good a trained model is: bound and -log p(x), exact where z can be enumerated; accuracy, completions.

    Of a sequence GAN: -log q, and validity and coverage of a language, exact; what else is told of draws.

    Examples: hardmax evaluate runs/first --split test; hardmax evaluate runs/faces --samples 20 --json
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    json: bool = False
    """Print one JSON object instead of a table."""
    split: Literal["train", "validation", "test"] = "test"
    """Pictures, or sequences, to evaluate on."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    samples: int | None = None
    """Samples for each picture, of z where it cannot be enumerated and of Gaussians; default: 1000, of mixed models
    100, of completion models 10. Sequences that a sequence GAN draws; default: 10,000."""
    refine: bool = False
    """Also improve the encoder's best code of each picture by greedy changes: what a search adds to the encoder
    (discrete models)."""
    perturb_and_map: bool = False
    """Also give the bound of the encoder as perturb-and-MAP (discrete models of pairwise bits)."""
    judge: int | None = None
    """Also train a small classifier for so many epochs on the run's own pictures, and let it judge completions: their
    classes and the Frechet distance of its features (completion models)."""
    images: int | None = None
    """Most pictures, or sequences, to evaluate; default: all."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""

    def __post_init__(self) -> None:
        for name in ("samples", "images", "judge"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Evaluation:
    """What was found.

    Attributes:
        images: number of pictures, or of other examples.
        told: all numbers, by name.
        tables: headings, and rows of as many texts.
        examples: what the data are, in the plural.
    """

    images: int
    told: dict[str, Any]
    tables: list[tuple[tuple[str, ...], list[tuple[str, ...]]]]
    examples: str = "pictures"


def run(arguments: list[str]) -> int:
    """Evaluate and print."""
    options = parse(Options, "evaluate", arguments)
    evaluate = module_for("evaluate", options.run).evaluate
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from hardmax.training.restore import restore

    restored = restore(options.run, options.checkpoint, device=options.device)
    found: Evaluation = evaluate(options, restored, Progress(console=Console(stderr=True), transient=True))
    if options.json:
        told = {"run": options.run, "checkpoint": restored.checkpoint, "split": options.split, "images": found.images}
        print(json.dumps({**told, **found.told}))
        return 0
    title = f"{options.run}, {restored.checkpoint}: {found.images:,} {options.split} {found.examples}"
    for headings, rows in found.tables:
        table = Table(title=title, min_width=60)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        title = None
    return 0
