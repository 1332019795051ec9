"""Pictures drawn from tokens of a dVAE."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from hardmax.data.npz import write_npz
from hardmax.data.token_files import Tokens, read_tokens
from hardmax.errors import ArgumentError, DataError
from hardmax.models import TokenVAE
from hardmax.report.pictures import grid, save
from hardmax.training.restore import restore

if TYPE_CHECKING:
    from hardmax.cli.detokenize import Options

_AT_ONCE = 500  # pictures


def detokenize(options: "Options") -> None:
    """Draw the pictures, write them, and say where they are.

    Raises:
        DataError: the tokens cannot be read or are another model's, or a file cannot be written.
    """
    model = restore(options.run, options.checkpoint, device=options.device, kind=TokenVAE).model
    source, out = Path(options.tokens).expanduser(), Path(options.out).expanduser()
    found = read_tokens(source)
    _check(found, model, source, options.run)
    whole = out.suffix.lower() == ".npz"
    if not whole and out.is_file():
        raise ArgumentError(f"--out {out} is a file; name a folder, or an .npz file")
    files, drawn = [out / name for name in safe_names(found.names)], []
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("drawing", total=len(found.names))
        for begin in range(0, len(found.names), _AT_ONCE):
            pictures = model.detokenize(found.tokens[begin : begin + _AT_ONCE].to(options.device)).cpu()
            if whole:
                drawn.append((255 * pictures.clamp(0, 1)).round().to(torch.uint8))
            else:
                for picture, file in zip(pictures, files[begin : begin + _AT_ONCE], strict=True):
                    save(grid(picture[None], padding=0), file)
            bar.advance(task, len(pictures))
    if whole:
        pixels = torch.cat(drawn) if drawn else torch.empty(0, *model.shape, dtype=torch.uint8)
        write_npz(out, images=pixels.numpy(), names=np.array(found.names, dtype=np.str_))
    print(f"{len(found.names):,} pictures in {out}")


def safe_names(names: Iterable[str]) -> list[str]:
    """Return a PNG file's name for each picture, all different, none of which leaves the folder that it goes to."""
    out, met = [], Counter[str]()
    for name in names:
        parts = [part for part in PurePosixPath(name.replace("\\", "/").replace(":", "/")).parts if part.strip("./ ")]
        plain = str(PurePosixPath(*parts).with_suffix("")) if parts else "picture"
        met[plain] += 1
        out.append(f"{plain}-{met[plain]}.png" if met[plain] > 1 else f"{plain}.png")
    return out


def _check(found: Tokens, model: TokenVAE, source: Path, run: str) -> None:
    """Complain of tokens that are not this model's."""
    grids, codes = tuple(found.tokens.shape[1:]), model.space.k
    if grids != model.grid or found.codes != codes:
        raise DataError(
            f"{source} has grids of {grids[0]} x {grids[1]} tokens of {found.codes} codes, and the model of {run} has "
            f"{model.grid[0]} x {model.grid[1]} of {codes}; name the run that made them"
        )
    if found.model != model.fingerprint:
        raise DataError(
            f"{source} has tokens of the model {found.model}, and that of {run} is {model.fingerprint}: a number would "
            "stand for another code; name the run (or the --checkpoint) that made them"
        )
