"""Pictures as tokens of a dVAE, in a file."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.progress import Progress

from hardmax.data import binarize
from hardmax.data.in_order import load_in_order
from hardmax.data.token_files import Tokens, write_tokens
from hardmax.metrics.codes import perplexity
from hardmax.models import TokenVAE
from hardmax.random import stream
from hardmax.training.restore import restore

if TYPE_CHECKING:
    from hardmax.cli.tokenize import Options

_AT_ONCE = 500  # pictures


def tokenize(options: "Options") -> None:
    """Tokenize the pictures, write the file, and say what is in it.

    Raises:
        DataError: pictures cannot be read, or the file cannot be written.
    """
    restored = restore(options.run, options.checkpoint, device=options.device, kind=TokenVAE)
    model, config = restored.model, restored.config
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        found = load_in_order(
            options.images,
            model.shape,
            data_dir=options.data_dir or config.data_dir,
            progress=lambda what, done, total: bar.update(task, completed=done, total=total),
        )
        bar.update(task, description="tokenizing", completed=0, total=len(found.names))
        grids, generator = [], stream(config.seed, "binarize", "tokenize")
        for pixels in found.pixels.split(_AT_ONCE):
            x = binarize(pixels, config.binarize, generator)
            grids.append(model.tokenize(x.to(options.device)).cpu())
            bar.advance(task, len(pixels))
    tokens, codes = torch.cat(grids), model.space.k
    path = Path(options.out).expanduser()
    write_tokens(path, Tokens(tokens, found.names, codes, model.fingerprint))
    counts = tokens.flatten().bincount(minlength=codes).double()
    height, width = model.grid
    bits = height * width * math.log2(codes)
    print("; ".join(found.notes))
    print(
        f"{len(tokens):,} grids of {height} x {width} tokens in {path}: {int((counts > 0).sum())} of {codes} codes, "
        f"perplexity {float(perplexity(counts / counts.sum())):.1f}, at most {bits:.0f} bits for a picture of "
        f"{8 * math.prod(model.shape):,}"
    )
