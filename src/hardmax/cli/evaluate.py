"""`hardmax evaluate`."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from hardmax.cli.options import parse


@dataclass(frozen=True)
class Options:
    """Say how good a trained model is: the bound and -log p(x), exact where z can be enumerated.

    Example: hardmax evaluate runs/first --split test
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    json: bool = False
    """Print one JSON object instead of a table."""
    split: Literal["train", "validation", "test"] = "test"
    """Pictures to evaluate on."""
    checkpoint: Literal["best", "latest"] = "best"
    """The best by validation, or the latest."""
    samples: int = 1000
    """Samples of z for each picture, where z cannot be enumerated."""
    refine: bool = False
    """Also improve the encoder's best code of each picture by greedy changes: what a search adds to the encoder."""
    perturb_and_map: bool = False
    """Also give the bound of the encoder as perturb-and-MAP (pairwise bits)."""
    images: int | None = None
    """Most pictures to evaluate; default: all."""
    data_dir: str | None = None
    """Folder that holds the named data sets."""
    device: str = "cpu"
    """cpu, cuda, ..."""


def run(arguments: list[str]) -> int:
    """Evaluate and print."""
    options = parse(Options, "evaluate", arguments)
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from hardmax.training.evaluate import evaluate, perturbed, refined
    from hardmax.training.restore import held_out, restore

    restored = restore(options.run, options.checkpoint, device=options.device)
    pictures = held_out(restored.config, restored.images(options.data_dir), options.split)[: options.images]
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"{len(pictures):,} pictures", total=len(pictures))
        found = evaluate(
            restored.model,
            pictures.to(options.device),
            samples=options.samples,
            seed=restored.config.seed,
            on_batch=lambda count: bar.advance(task, count),
        )
    model, pictures = restored.model, pictures.to(options.device)
    if options.refine:
        found["refined"] = refined(model, pictures)
    if options.perturb_and_map:
        found["perturb_and_map"] = perturbed(model, pictures, samples=options.samples, seed=restored.config.seed)
    exact = model.enumerable
    if options.json:
        told = {"run": options.run, "checkpoint": restored.checkpoint, "split": options.split, "images": len(pictures)}
        print(json.dumps({**told, "exact": exact, **found}))
        return 0
    table = Table(
        title=f"{options.run}, {restored.checkpoint}: {len(pictures):,} {options.split} pictures", min_width=60
    )
    table.add_column("")
    table.add_column("nats per picture", justify="right")
    name = "-ELBO" if model.space.offers("draw") else "-ELBO of perturb-and-MAP"
    table.add_row(name if exact else f"{name} ({options.samples} samples)", f"{-found['elbo']:.3f}")
    table.add_row("-log p(x)" if exact else f"-log p(x), at most ({options.samples} samples)", f"{found['nll']:.3f}")
    table.add_row("KL(q || prior)", f"{found['kl']:.3f}")
    table.add_row("-E log p(x | z)", f"{-found['reconstruction']:.3f}")
    if options.perturb_and_map:
        table.add_row(f"-ELBO of perturb-and-MAP ({options.samples} samples)", f"{found['perturb_and_map']:.3f}")
    if options.refine:
        table.add_row("-log p(x, z), z refined by greedy changes", f"{found['refined']:.3f}")
    table.add_row("active", str(found["active"]))
    Console().print(table)
    return 0
