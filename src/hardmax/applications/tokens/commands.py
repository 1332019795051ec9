"""`hardmax tokenize`, `detokenize`, `evaluate` and `sample` for a dVAE and for a prior over its tokens."""

import math
from dataclasses import dataclass
from pathlib import Path
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
from hardmax.console import print_line
from hardmax.data import binarize
from hardmax.data.loading import load_images_in_order
from hardmax.data.npz import read_npz, write_npz
from hardmax.drawing.images import make_grid, save_image
from hardmax.errors import ArgumentError, DataError
from hardmax.files import expand_path
from hardmax.metrics.codes import perplexity
from hardmax.names import make_file_names
from hardmax.progress_bar import show_bar
from hardmax.random import make_generator
from hardmax.training.task import prepare_split

if TYPE_CHECKING:
    from hardmax.applications.runs import LoadedRun
    from hardmax.applications.tokens.config import DetokenizeOptions, TokenizeOptions


_ARRAYS = ("tokens", "names", "codes", "model")


@dataclass(frozen=True, eq=False)
class Tokens:
    """The contents of a token file: the tokens of N images.

    Attributes:
        tokens: `[N, h, w]`, integers from 0 to codes - 1.
        names: the name of each image.
        codes: K, the number of codes.
        model: fingerprint of the model that computed the tokens; they have no meaning without it.
    """

    tokens: Int64[Tensor, "N h w"]
    names: list[str]
    codes: int
    model: str


def write_tokens(path: Path, contents: Tokens) -> None:
    """Write tokens to an .npz file, in the smallest integer type that holds them.

    Raises:
        DataError: the file cannot be written.
    """
    write_npz(
        path,
        tokens=contents.tokens.cpu().numpy().astype(np.min_scalar_type(contents.codes - 1)),
        names=np.array(contents.names, dtype=np.str_),
        codes=np.array(contents.codes),
        model=np.array(contents.model),
    )


def read_tokens(path: Path) -> Tokens:
    """Read a token file; nothing is unpickled.

    Raises:
        DataError: the file is missing or broken, or is not a token file.
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
        raise DataError(f"{path}: codes is not a number or model is not a text; make it with hardmax tokenize")
    return Tokens(torch.from_numpy(tokens.astype(np.int64)), names.tolist(), int(codes), str(model))


_BATCH = 500  # images


def tokenize(options: "TokenizeOptions") -> None:
    """Tokenize images, write the file, and print a summary.

    Raises:
        DataError: images cannot be read, or the file cannot be written.
    """
    restored = load_run(options.run, options.checkpoint, device=options.device, kind=TokenVAE)
    model, config = restored.model, restored.config
    with show_bar("reading") as bar:
        images = load_images_in_order(
            options.images,
            model.shape,
            data_dir=options.data_dir or config.data_dir,
            progress=lambda what, done, total: bar.update(done, total),
        )
        bar.update(0, len(images.names), "tokenizing")
        grids, generator = [], make_generator(config.seed, "binarize", "tokenize")
        for pixels in images.pixels.split(_BATCH):
            x = binarize(pixels, config.binarize, generator)
            grids.append(model.tokenize(x.to(options.device)).cpu())
            bar.advance(len(pixels))
    tokens, codes = torch.cat(grids), model.space.k
    path = expand_path(options.out)
    write_tokens(path, Tokens(tokens, images.names, codes, model.fingerprint))
    counts = tokens.flatten().bincount(minlength=codes).double()
    height, width = model.grid
    bits = height * width * math.log2(codes)
    print_line("; ".join(images.notes))
    print_line(
        f"{len(tokens):,} grids of {height} x {width} tokens in {path}: {int((counts > 0).sum())} of {codes} codes, "
        f"perplexity {float(perplexity(counts / counts.sum())):.1f}, at most {bits:.0f} bits for an image of "
        f"{8 * math.prod(model.shape):,}"
    )


def detokenize(options: "DetokenizeOptions") -> None:
    """Decode tokens to images, write them, and print where they are.

    Raises:
        DataError: the tokens cannot be read or belong to another model, or a file cannot be written.
    """
    model = load_run(options.run, options.checkpoint, device=options.device, kind=TokenVAE).model
    source, out = expand_path(options.tokens), expand_path(options.out)
    contents = read_tokens(source)
    _check_origin(contents, model, source, options.run)
    one_file = out.suffix.lower() == ".npz"
    if not one_file and out.is_file():
        raise ArgumentError(f"--out {out} is a file; name a folder, or an .npz file")
    files, batches = [out / name for name in make_file_names(contents.names, ".png")], []
    with show_bar("decoding", len(contents.names)) as bar:
        for begin in range(0, len(contents.names), _BATCH):
            images = model.detokenize(contents.tokens[begin : begin + _BATCH].to(options.device)).cpu()
            if one_file:
                batches.append((255 * images.clamp(0, 1)).round().to(torch.uint8))
            else:
                for image, file in zip(images, files[begin : begin + _BATCH], strict=True):
                    save_image(make_grid(image[None], padding=0), file)
            bar.advance(len(images))
    if one_file:
        pixels = torch.cat(batches) if batches else torch.empty(0, *model.shape, dtype=torch.uint8)
        write_npz(out, images=pixels.numpy(), names=np.array(contents.names, dtype=np.str_))
    print_line(f"{len(contents.names):,} images in {out}")


def _check_origin(contents: Tokens, model: TokenVAE, source: Path, run: str) -> None:
    """Raise a DataError unless this model computed the tokens."""
    grids, codes = tuple(contents.tokens.shape[1:]), model.space.k
    if grids != model.grid or contents.codes != codes:
        raise DataError(
            f"{source} has grids of {grids[0]} x {grids[1]} tokens of {contents.codes} codes, and the model of {run} "
            f"has {model.grid[0]} x {model.grid[1]} of {codes}; name the run that computed them"
        )
    if contents.model != model.fingerprint:
        raise DataError(
            f"{source} has tokens of the model {contents.model}, and that of {run} is {model.fingerprint}: a number "
            "would stand for another code; name the run (or the --checkpoint) that computed them"
        )


_SAMPLES = 10


def evaluate_dvae(options: EvaluateOptions, restored: "LoadedRun[TokenVAE]") -> Evaluation:
    """Return the bound and its terms, the reconstruction error from tokens, and the usage of the codes.

    Raises:
        ArgumentError: an option is given that only discrete VAEs have.
    """
    refuse_options(options, "refine", "perturb_and_map")
    config, model, samples = restored.config, restored.model, options.samples or _SAMPLES
    images = prepare_split(config, restored.load_data(options.data_dir), options.split)[: options.images].to(
        options.device
    )
    with show_bar(f"{len(images):,} images", len(images)) as bar:
        numbers = measure(model, images, config, samples=samples, on_batch=bar.advance)
    suffix = "" if config.quantize == "nearest" else f" ({samples} samples)"
    nats = [
        (f"-ELBO{suffix}", f"{-numbers['elbo']:.3f}"),
        (f"-log p(x), at most{suffix}", f"{numbers['nll']:.3f}"),
        ("KL(q || prior)", f"{numbers['kl']:.3f}"),
        ("-E log p(x | z)", f"{-numbers['reconstruction']:.3f}"),
    ]
    tokens = [
        ("mean squared error of a pixel", f"{numbers['mse']:.5f}"),
        (f"perplexity of {model.space.k} codes", f"{numbers['perplexity']:.1f}"),
        ("codes alive", f"{numbers['alive']:.1%}"),
    ]
    tables = [(("", "nats per image"), nats), (("reconstructed from tokens", ""), tokens)]
    return Evaluation(len(images), {"samples": samples, **numbers}, tables)


def sample_dvae(options: SampleOptions) -> None:
    """Write a grid of generated images."""
    write_grid(options, TokenVAE)
    print_line(
        "these tokens are sampled independently of each other; to generate images, train a prior over them: "
        f"hardmax train --model token-prior --tokenizer {options.run}"
    )


def evaluate_prior(options: EvaluateOptions, restored: "LoadedRun[TokenPrior]") -> Evaluation:
    """Return the bound of images with their tokens, and -log p of the tokens in nats and in bits.

    Raises:
        ArgumentError: an option is given that only other models have.
    """
    refuse_options(options, "refine", "perturb_and_map", "samples")
    tokenizer_config = load_tokenizer(restored.config).config
    images = prepare_split(tokenizer_config, restored.load_data(options.data_dir), options.split)[: options.images].to(
        options.device
    )
    with show_bar(f"{len(images):,} images", len(images)) as bar:
        numbers = measure_prior(restored.model, images, on_batch=bar.advance)
    space = restored.model.tokenizer.space
    nats = [
        ("-log p(x, tokens), at least -log p(x)", f"{-numbers['elbo']:.3f}"),
        ("-log p(tokens)", f"{numbers['kl']:.3f}"),
        ("-log p(tokens) without a prior", f"{space.log_size:.3f}"),
        ("-log p(x | tokens)", f"{-numbers['reconstruction']:.3f}"),
    ]
    bits = [(f"per token, one of {space.k} codes", f"{numbers['bits']:.3f}")]
    return Evaluation(len(images), numbers, [(("", "nats per image"), nats), (("", "bits"), bits)])


def sample_prior(options: SampleOptions) -> None:
    """Write a grid of generated images."""
    write_grid(options, TokenPrior)
