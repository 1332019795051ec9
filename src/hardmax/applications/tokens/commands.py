"""`hardmax tokenize`, `detokenize`, `evaluate` and `sample` for a dVAE and for a prior over its tokens."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.applications.command_line import EvaluateOptions, Evaluation, SampleOptions, refuse_options, write_grid
from hardmax.applications.runs import load_run
from hardmax.applications.tokens.model import TokenVAE
from hardmax.applications.tokens.prior_model import TokenPrior
from hardmax.applications.tokens.prior_task import evaluate as measure_prior
from hardmax.applications.tokens.prior_task import load_tokenizer
from hardmax.applications.tokens.task import evaluate as measure
from hardmax.data import binarize
from hardmax.data.arrays import read_npz, write_npz
from hardmax.data.loading import load_in_order
from hardmax.drawing.images import make_grid, save_image
from hardmax.errors import ArgumentError, DataError
from hardmax.metrics.codes import perplexity
from hardmax.progress_bar import show_bar
from hardmax.random import stream
from hardmax.training.task import prepare_split

if TYPE_CHECKING:
    from hardmax.applications.runs import LoadedRun
    from hardmax.applications.tokens.config import DetokenizeOptions, TokenizeOptions


_ARRAYS = ("tokens", "names", "codes", "model")


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens of pictures.

    Attributes:
        tokens: `[N, h, w]`, whole numbers below codes.
        names: of the pictures.
        codes: K, how many codes there are.
        model: fingerprint of the model that made them, without which they mean nothing.
    """

    tokens: Int64[Tensor, "N h w"]
    names: list[str]
    codes: int
    model: str


def write_tokens(path: Path, found: Tokens) -> None:
    """Write an .npz file; tokens are as few bytes as hold them.

    Raises:
        DataError: the file cannot be written.
    """
    write_npz(
        path,
        tokens=found.tokens.cpu().numpy().astype(np.min_scalar_type(found.codes - 1)),
        names=np.array(found.names, dtype=np.str_),
        codes=np.array(found.codes),
        model=np.array(found.model),
    )


def read_tokens(path: Path) -> Tokens:
    """Read what `write_tokens` wrote; nothing is unpickled.

    Raises:
        DataError: the file is missing or broken, or holds no tokens.
    """
    arrays = read_npz(path, only=_ARRAYS)
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise DataError(f"{path} holds no tokens: {', '.join(missing)} missing; make it with hardmax tokenize")
    tokens, names, codes, model = (arrays[name] for name in _ARRAYS)
    if tokens.ndim != 3 or tokens.dtype.kind not in "iu":
        raise DataError(f"{path}: tokens are {tokens.dtype} {list(tokens.shape)}, expected whole numbers [N, h, w]")
    if names.shape != tokens.shape[:1] or names.dtype.kind != "U":
        raise DataError(f"{path}: names are {names.dtype} {list(names.shape)} for {len(tokens):,} grids of tokens")
    if codes.ndim or codes.dtype.kind not in "iu" or model.ndim or model.dtype.kind != "U":
        raise DataError(f"{path}: codes and model are no number and no text; make it with hardmax tokenize")
    return Tokens(torch.from_numpy(tokens.astype(np.int64)), names.tolist(), int(codes), str(model))


_AT_ONCE = 500  # pictures


def tokenize(options: "TokenizeOptions") -> None:
    """Tokenize the pictures, write the file, and say what is in it.

    Raises:
        DataError: pictures cannot be read, or the file cannot be written.
    """
    restored = load_run(options.run, options.checkpoint, device=options.device, kind=TokenVAE)
    model, config = restored.model, restored.config
    with show_bar("reading") as bar:
        found = load_in_order(
            options.images,
            model.shape,
            data_dir=options.data_dir or config.data_dir,
            progress=lambda what, done, total: bar.update(done, total),
        )
        bar.update(0, len(found.names), "tokenizing")
        grids, generator = [], stream(config.seed, "binarize", "tokenize")
        for pixels in found.pixels.split(_AT_ONCE):
            x = binarize(pixels, config.binarize, generator)
            grids.append(model.tokenize(x.to(options.device)).cpu())
            bar.advance(len(pixels))
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


_GRIDS_AT_ONCE = 500  # pictures


def detokenize(options: "DetokenizeOptions") -> None:
    """Draw the pictures, write them, and say where they are.

    Raises:
        DataError: the tokens cannot be read or are another model's, or a file cannot be written.
    """
    model = load_run(options.run, options.checkpoint, device=options.device, kind=TokenVAE).model
    source, out = Path(options.tokens).expanduser(), Path(options.out).expanduser()
    found = read_tokens(source)
    _check(found, model, source, options.run)
    whole = out.suffix.lower() == ".npz"
    if not whole and out.is_file():
        raise ArgumentError(f"--out {out} is a file; name a folder, or an .npz file")
    files, drawn = [out / name for name in make_safe_names(found.names)], []
    with show_bar("drawing", len(found.names)) as bar:
        for begin in range(0, len(found.names), _GRIDS_AT_ONCE):
            pictures = model.detokenize(found.tokens[begin : begin + _GRIDS_AT_ONCE].to(options.device)).cpu()
            if whole:
                drawn.append((255 * pictures.clamp(0, 1)).round().to(torch.uint8))
            else:
                for picture, file in zip(pictures, files[begin : begin + _GRIDS_AT_ONCE], strict=True):
                    save_image(make_grid(picture[None], padding=0), file)
            bar.advance(len(pictures))
    if whole:
        pixels = torch.cat(drawn) if drawn else torch.empty(0, *model.shape, dtype=torch.uint8)
        write_npz(out, images=pixels.numpy(), names=np.array(found.names, dtype=np.str_))
    print(f"{len(found.names):,} pictures in {out}")


def make_safe_names(names: Iterable[str]) -> list[str]:
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


_SAMPLES = 10


def evaluate_dvae(options: EvaluateOptions, restored: "LoadedRun[TokenVAE]") -> Evaluation:
    """Return the bound and what it is made of, the error of tokens, and the use of the codes.

    Raises:
        ArgumentError: something is asked for that only discrete models have.
    """
    refuse_options(options, "refine", "perturb_and_map")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    pictures = prepare_split(config, restored.load_data(options.data_dir), options.split)[: options.images].to(
        options.device
    )
    with show_bar(f"{len(pictures):,} pictures", len(pictures)) as bar:
        found = measure(model, pictures, config, samples=samples, on_batch=bar.advance)
    drawn = "" if config.quantize == "nearest" else f" ({samples} samples)"
    nats = [
        (f"-ELBO{drawn}", f"{-found['elbo']:.3f}"),
        (f"-log p(x), at most{drawn}", f"{found['nll']:.3f}"),
        ("KL(q || prior)", f"{found['kl']:.3f}"),
        ("-E log p(x | z)", f"{-found['reconstruction']:.3f}"),
    ]
    tokens = [
        ("mean squared error of a pixel", f"{found['mse']:.5f}"),
        (f"perplexity of {model.space.k} codes", f"{found['perplexity']:.1f}"),
        ("codes alive", f"{found['alive']:.1%}"),
    ]
    tables = [(("", "nats per picture"), nats), (("drawn again from tokens", ""), tokens)]
    return Evaluation(len(pictures), {"samples": samples, **found}, tables)


def sample_dvae(options: SampleOptions) -> None:
    """Write a grid of pictures."""
    write_grid(options, TokenVAE)
    print(
        "these tokens are drawn without heed of each other; for pictures learn how they go together: "
        f"hardmax train --model token-prior --tokenizer {options.run}"
    )


def evaluate_prior(options: EvaluateOptions, restored: "LoadedRun[TokenPrior]") -> Evaluation:
    """Return the bound of pictures with their tokens, and what these take.

    Raises:
        ArgumentError: something is asked for that other models have.
    """
    refuse_options(options, "refine", "perturb_and_map", "samples")
    told = load_tokenizer(restored.config).config
    pictures = prepare_split(told, restored.load_data(options.data_dir), options.split)[: options.images].to(
        options.device
    )
    with show_bar(f"{len(pictures):,} pictures", len(pictures)) as bar:
        found = measure_prior(restored.model, pictures, on_batch=bar.advance)
    space = restored.model.tokenizer.space
    nats = [
        ("-log p(x, tokens), at least -log p(x)", f"{-found['elbo']:.3f}"),
        ("-log p(tokens)", f"{found['kl']:.3f}"),
        ("of tokens without a prior", f"{space.log_size:.3f}"),
        ("-log p(x | tokens)", f"{-found['reconstruction']:.3f}"),
    ]
    bits = [(f"of a token, one of {space.k}", f"{found['bits']:.3f}")]
    return Evaluation(len(pictures), found, [(("", "nats per picture"), nats), (("", "bits"), bits)])


def sample_prior(options: SampleOptions) -> None:
    """Write a grid of pictures."""
    write_grid(options, TokenPrior)
