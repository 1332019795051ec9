"""`hardmax evaluate`, `index` and `search` for a hash encoder."""

import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8, UInt64
from torch import Tensor

from hardmax.applications.command_line import EvaluateOptions, Evaluation, refuse_options
from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.hashing.model import HashEncoder
from hardmax.applications.hashing.queries import prepare_queries
from hardmax.applications.hashing.retrieval import (
    measure_vector_average_precision,
    measure_vector_precision,
    rank_codes,
)
from hardmax.applications.hashing.search import Index, find_nearest
from hardmax.applications.hashing.task import encode_bits, measure_bit_usage, pack_codes
from hardmax.applications.runs import load_run
from hardmax.console import print_line
from hardmax.data import binarize, load_images
from hardmax.data.folder import find_images
from hardmax.data.image_files import FittedPhoto, fit_photo, read_images, to_channels
from hardmax.data.images import PARTS
from hardmax.data.npz import read_npz
from hardmax.drawing.images import make_sheet, save_image
from hardmax.errors import ArgumentError, DataError
from hardmax.files import expand_path
from hardmax.progress_bar import show_bar
from hardmax.random import make_generator
from hardmax.training.task import prepare_split

if TYPE_CHECKING:
    from hardmax.applications.hashing.config import IndexOptions, SearchOptions
    from hardmax.applications.runs import LoadedRun


@dataclass(frozen=True, eq=False)
class Encoder:
    """A trained hash encoder with its configuration and its origin.

    Attributes:
        model: the model of a run.
        config: the configuration of the run.
        checkpoint: name of the checkpoint that contains the model.
        weights: SHA-256 of the model's weights.
    """

    model: HashEncoder
    config: HashingConfig
    checkpoint: str
    weights: str

    def codes(self, images: UInt8[Tensor, "N channels H W"]) -> UInt64[np.ndarray, "N words"]:
        """Return the packed codes of images; stochastic binarization is the same in every call."""
        device = next(self.model.parameters()).device
        codes = []
        for batch in images.split(1000):
            pixels = binarize(batch, self.config.binarize, make_generator(self.config.seed, "binarize", "index"))
            codes.append(pack_codes(encode_bits(self.model, pixels.to(device))))
        return np.concatenate(codes)


def load_encoder(run: str, checkpoint: str, device: str = "cpu") -> Encoder:
    """Load the encoder of a run.

    Raises:
        DataError: there is no run in the folder, or it is a run of another model.
    """
    name = "best" if checkpoint == "best" else "latest"
    restored = load_run(run, name, device=device, kind=HashEncoder)
    weights = (Path(run) / restored.checkpoint / "model.safetensors").read_bytes()
    return Encoder(restored.model, restored.config, restored.checkpoint, hashlib.sha256(weights).hexdigest())


_KS = (1, 10, 100, 1000)  # precision is measured over this number of nearest images


def evaluate(options: EvaluateOptions, restored: "LoadedRun[HashEncoder]") -> Evaluation:
    """Return the retrieval metrics of the codes and of the raw pixels, and the usage of the bits.

    Raises:
        ArgumentError: an option is given that only VAEs have, or the split is the training set, which is searched.
    """
    refuse_options(options, "refine", "perturb_and_map", "samples")
    if options.split == "train":
        raise ArgumentError("training images are what is searched; give --split validation or --split test")
    images, config = restored.load_data(options.data_dir), restored.config
    chosen = prepare_queries(config, images, options.split, options.images)
    queries = chosen.images.to(options.device)
    train = prepare_split(config, images, "train").to(options.device)
    searched = torch.cat([train, chosen.others.to(options.device)])
    with show_bar(f"{len(queries):,} images among {len(searched):,}"):
        codes, query_codes = encode_bits(restored.model, searched), encode_bits(restored.model, queries)
        bits = restored.model.space.n
        numbers: dict[str, Any] = {"searched": len(searched), "bits": bits, **measure_bit_usage(codes[: len(train)])}
        tables: list[Any] = []
        if images.labels is not None and chosen.labels is not None and chosen.other_labels is not None:
            labels = torch.cat([images.labels["train"], chosen.other_labels])
            ks = [k for k in _KS if k <= len(searched)]
            rankings = rank_codes(pack_codes(query_codes), chosen.labels.numpy(), pack_codes(codes), labels.numpy())
            precisions = [float(rankings.precision(k).mean()) for k in ks]
            vectors = queries.flatten(1).cpu(), chosen.labels, searched.flatten(1).cpu(), labels
            pixels = measure_vector_precision(*vectors, ks)
            means = float(rankings.average_precision().mean()), measure_vector_average_precision(*vectors)
            numbers |= {"precision": dict(zip(map(str, ks), precisions, strict=True))}
            numbers |= {"precision_of_pixels": dict(zip(map(str, ks), pixels, strict=True))}
            numbers |= {"mean_average_precision": means[0], "mean_average_precision_of_pixels": means[1]}
            headings = ("nearest images of the query's class", *(f"of {k}" for k in ks), "mAP")
            rows = [
                (f"codes of {bits} bits", *(f"{value:.2%}" for value in (*precisions, means[0]))),
                (f"{queries[0].numel():,} pixels", *(f"{value:.2%}" for value in (*pixels, means[1]))),
            ]
            tables.append((headings, rows))
    usage = [
        ("balance, 1 if each bit is one for half of the images", f"{numbers['balance']:.3f}"),
        ("correlation of two bits, 0 if they are uncorrelated", f"{numbers['correlation']:.3f}"),
    ]
    return Evaluation(len(queries), numbers, [*tables, (("bits", ""), usage)])


def index_images(options: "IndexOptions") -> None:
    """Encode images, write the index file, and print a summary (`hardmax index`).

    Raises:
        DataError: there are no images, or they do not have the size that the encoder expects.
    """
    encoder = load_encoder(options.run, options.checkpoint, options.device)
    folder = expand_path(options.images)
    shape = encoder.model.shape
    names, images, description = (
        _read_folder(folder, options, shape) if folder.is_dir() else _read_data_set(options, shape)
    )
    database = Index(
        codes=encoder.codes(images),
        bits=encoder.model.space.n,
        names=tuple(names),
        images=images.numpy(),
        run=str(Path(options.run).resolve()),
        checkpoint=encoder.checkpoint,
        weights=encoder.weights,
    )
    out = expand_path(options.out)
    database.save(out)
    print_line(f"images: {description}")
    print_line(
        f"{len(database):,} codes of {database.bits} bits, {database.codes.nbytes:,} bytes, and their images in "
        f"{out}; search with: hardmax search {out} IMAGE"
    )


def _read_folder(
    folder: Path, options: "IndexOptions", shape: tuple[int, int, int]
) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return names, images in the encoder's shape, and a description of how they were resized."""
    if options.split != "all":
        raise ArgumentError(f"--split is for data sets; of {folder} name the subfolder that you want")
    paths = find_images(folder)
    if not paths:
        raise DataError(f"{folder} holds no images; name a folder of images, or a data set")
    gallery = read_images(paths, folder, shape[1:])
    names = [str(paths[i]) for i in gallery.index.tolist()]
    return names, to_channels(gallery.pixels, shape[0]).contiguous(), "; ".join(gallery.notes)


def _read_data_set(
    options: "IndexOptions", shape: tuple[int, int, int]
) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return the names, the images and the source of a data set."""
    images = load_images(options.images, data_dir=options.data_dir)
    if images.shape[1:] != shape[1:]:
        expected, received = ("x".join(map(str, size[1:])) for size in (shape, images.shape))
        raise DataError(f"{options.run} reads images of {expected}, but those of {images.name} are {received}")
    parts = [part for part in PARTS if options.split in ("all", part)]
    names = [f"{images.name} {part} {i}" for part in parts for i in range(len(getattr(images, part)))]
    pixels = torch.cat([getattr(images, part) for part in parts])
    return names, to_channels(pixels, shape[0]).contiguous(), images.source


_LONGEST_NAME = 24  # letters next to a row of the sheet


@dataclass(frozen=True)
class _Matches:
    """The nearest images of one query: positions in the index, number of differing bits, and search time in seconds."""

    photo: FittedPhoto
    positions: list[int]
    distances: list[int]
    seconds: float


def search_images(options: "SearchOptions") -> None:
    """Search for each image, write a sheet with all results, and print them (`hardmax search`).

    Raises:
        DataError: the index, its run or an image cannot be read, or the run has changed since.
    """
    path = expand_path(options.index)
    index = Index.from_arrays(read_npz(path), path)
    if not len(index):
        raise DataError(f"{path} holds no images; make it again with hardmax index")
    encoder = _load_index_encoder(index, path, options.run)
    photos = [fit_photo(expand_path(name), encoder.model.shape) for name in options.images]
    matches = [_find_matches(photo, index, encoder, options.count) for photo in photos]
    _write_sheet(matches, index, expand_path(options.out))
    for match in matches:
        _print_matches(match, index, options)
    if not options.json:
        print_line(f"each image with the nearest ones next to it: {options.out}")


def _load_index_encoder(index: Index, path: Path, run: str | None) -> Encoder:
    """Return the encoder that computed the codes of an index."""
    folder = run or index.run
    if not os.path.isdir(folder):  # Path.is_dir refuses some names
        raise DataError(f"{folder}, the run that made {path}, is missing; say where it is now with --run")
    # The best checkpoint may have changed since; the index may come from either the best or the latest one.
    for checkpoint in ("best", "latest"):
        encoder = load_encoder(folder, checkpoint)
        if encoder.weights == index.weights:
            return encoder
    raise DataError(
        f"{folder} has other weights than those that made {path} ({index.checkpoint}); make the index again: "
        f"hardmax index {folder} IMAGES --out {path}"
    )


def _find_matches(photo: FittedPhoto, index: Index, encoder: Encoder, count: int) -> _Matches:
    code = encoder.codes(photo.pixels)[0]
    begin = time.perf_counter()
    positions, distances = find_nearest(code, index.codes, count)
    return _Matches(photo, positions.tolist(), distances.tolist(), time.perf_counter() - begin)


def _print_matches(matches: _Matches, index: Index, options: "SearchOptions") -> None:
    nearest = list(zip(matches.distances, [index.names[i] for i in matches.positions], strict=True))
    if options.json:
        rows = [{"image": name, "distance": distance} for distance, name in nearest]
        print(
            json.dumps({"image": str(matches.photo.path), "searched": len(index), "bits": index.bits, "nearest": rows})
        )
        return
    conversions = ", ".join(matches.photo.conversions)
    duration = f"{1000 * matches.seconds:.1f} ms"
    print_line(
        f"{matches.photo.path} ({conversions}): {len(index):,} codes of {index.bits} bits searched in {duration}"
    )
    for distance, name in nearest:
        print_line(f"  {distance:>4} bits  {name}")


def _write_sheet(matches: list[_Matches], index: Index, out: Path) -> None:
    """Write one row per query: the image, and the nearest ones with the number of differing bits above each."""
    rows = []
    for match in matches:
        nearest = torch.from_numpy(index.images[match.positions])
        rows.append(torch.cat([match.photo.pixels, nearest]).float() / 255)
    columns = len(matches[0].positions)
    if len(matches) == 1:
        heads = [[""], *([f"{distance}"] for distance in matches[0].distances)]
        names = ["bits"]
    else:
        heads = [[""], *([f"{column + 1}"] for column in range(columns))]
        names = ["nearest"]
    labels = [_label_row(match, bits=len(matches) > 1) for match in matches]
    save_image(make_sheet(torch.stack(rows), names=names, heads=heads, rows=labels), out)


def _label_row(matches: _Matches, *, bits: bool) -> str:
    name = matches.photo.path.name
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
    return f"{name}\n{matches.distances[0]} to {matches.distances[-1]} bits" if bits else name
