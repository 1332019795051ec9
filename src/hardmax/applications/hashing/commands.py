"""`hardmax evaluate`, `index` and `search` for a hash encoder."""

import hashlib
import json
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
from hardmax.applications.hashing.retrieval import measure_code_precision, measure_vector_precision
from hardmax.applications.hashing.search import Index, find_nearest
from hardmax.applications.hashing.task import encode_bits, measure_bits, pack_codes
from hardmax.applications.runs import load_run
from hardmax.data import binarize, load
from hardmax.data.arrays import read_npz
from hardmax.data.folder import find_pictures
from hardmax.data.image_files import Fitted, fit_photo, read_pictures, to_channels
from hardmax.data.images import PARTS
from hardmax.drawing.images import make_sheet, save_image
from hardmax.errors import ArgumentError, DataError
from hardmax.progress_bar import show_bar
from hardmax.random import stream
from hardmax.training.task import prepare_split

if TYPE_CHECKING:
    from hardmax.applications.hashing.config import IndexOptions, SearchOptions
    from hardmax.applications.runs import LoadedRun


@dataclass(frozen=True, eq=False)
class Encoder:
    """A trained hash encoder with its configuration and its origin.

    Attributes:
        model: of the run.
        config: of the run.
        checkpoint: the name of the checkpoint that the model is from.
        weights: SHA-256 of its weights.
    """

    model: HashEncoder
    config: HashingConfig
    checkpoint: str
    weights: str

    def codes(self, pictures: UInt8[Tensor, "N channels H W"]) -> UInt64[np.ndarray, "N words"]:
        """Return the packed codes of images; with stochastic binarization, equal calls return equal codes."""
        device = next(self.model.parameters()).device
        codes = []
        for batch in pictures.split(1000):
            pixels = binarize(batch, self.config.binarize, stream(self.config.seed, "binarize", "index"))
            codes.append(pack_codes(encode_bits(self.model, pixels.to(device))))
        return np.concatenate(codes)


def read_encoder(run: str, checkpoint: str, device: str = "cpu") -> Encoder:
    """Load a run's encoder.

    Raises:
        DataError: there is no run in the folder, or it is a run of another model.
    """
    which = "best" if checkpoint == "best" else "latest"
    restored = load_run(run, which, device=device, kind=HashEncoder)
    weights = (Path(run) / restored.checkpoint / "model.safetensors").read_bytes()
    return Encoder(restored.model, restored.config, restored.checkpoint, hashlib.sha256(weights).hexdigest())


_KS = (1, 10, 100)


def evaluate(options: EvaluateOptions, restored: "LoadedRun[HashEncoder]") -> Evaluation:
    """Return the retrieval precision of the codes and of the raw pixels, and the usage of the bits.

    Raises:
        ArgumentError: an option is given that only VAEs have; the split is the training set, which is searched.
    """
    refuse_options(options, "refine", "perturb_and_map", "samples")
    if options.split == "train":
        raise ArgumentError("training pictures are what is searched; give --split validation or --split test")
    images, config = restored.load_data(options.data_dir), restored.config
    queries = prepare_split(config, images, options.split)[: options.images].to(options.device)
    train = prepare_split(config, images, "train").to(options.device)
    with show_bar(f"{len(queries):,} pictures among {len(train):,}"):
        base, sought = encode_bits(restored.model, train), encode_bits(restored.model, queries)
        numbers: dict[str, Any] = {"searched": len(train), "bits": restored.model.space.n, **measure_bits(base)}
        tables: list[Any] = []
        if images.labels is not None:
            wanted, labels = images.labels[options.split][: len(queries)], images.labels["train"]
            ks = [k for k in _KS if k <= len(train)]
            codes = measure_code_precision(pack_codes(sought), wanted.numpy(), pack_codes(base), labels.numpy(), ks)
            pixels = measure_vector_precision(queries.flatten(1).cpu(), wanted, train.flatten(1).cpu(), labels, ks)
            numbers |= {"precision": dict(zip(map(str, ks), codes, strict=True))}
            numbers |= {"precision_of_pixels": dict(zip(map(str, ks), pixels, strict=True))}
            headings = ("of the nearest, of the query's class", *(f"of {k}" for k in ks))
            rows = [
                (f"codes of {restored.model.space.n} bits", *(f"{value:.2%}" for value in codes)),
                (f"{queries[0].numel():,} pixels", *(f"{value:.2%}" for value in pixels)),
            ]
            tables.append((headings, rows))
    bits = [
        ("balance, 1 where each is one for half of the pictures", f"{numbers['balance']:.3f}"),
        ("correlation of two, 0 where each says something else", f"{numbers['correlation']:.3f}"),
    ]
    return Evaluation(len(queries), numbers, [*tables, (("bits", ""), bits)])


def index(options: "IndexOptions") -> None:
    """Encode images, write the index file, and print a summary.

    Raises:
        DataError: there are no images, or they do not have the size that the encoder expects.
    """
    encoder = read_encoder(options.run, options.checkpoint, options.device)
    folder = Path(options.images).expanduser()
    shape = encoder.model.shape
    names, pictures, description = (
        _read_folder(folder, options, shape) if folder.is_dir() else _read_data_set(options, shape)
    )
    database = Index(
        codes=encoder.codes(pictures),
        bits=encoder.model.space.n,
        names=tuple(names),
        pictures=pictures.numpy(),
        run=str(Path(options.run).resolve()),
        checkpoint=encoder.checkpoint,
        weights=encoder.weights,
    )
    out = Path(options.out).expanduser()
    database.save(out)
    print(f"pictures: {description}")
    print(
        f"{len(database):,} codes of {database.bits} bits, {database.codes.nbytes:,} bytes, and their pictures in "
        f"{out}; search with: hardmax search {out} PICTURE"
    )


def _read_folder(
    folder: Path, options: "IndexOptions", shape: tuple[int, int, int]
) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return names, images in the encoder's shape, and a description of how they were resized."""
    if options.split != "all":
        raise ArgumentError(f"--split is for data sets; of {folder} give the folder below it that is wanted")
    paths = find_pictures(folder)
    if not paths:
        raise DataError(f"{folder} holds no pictures; name a folder of pictures, or a data set")
    gallery = read_pictures(paths, folder, shape[1:])
    names = [str(paths[i]) for i in gallery.index.tolist()]
    return names, to_channels(gallery.pixels, shape[0]).contiguous(), "; ".join(gallery.notes)


def _read_data_set(
    options: "IndexOptions", shape: tuple[int, int, int]
) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return the names, the images and the source of a data set."""
    images = load(options.images, data_dir=options.data_dir)
    if images.shape[1:] != shape[1:]:
        known, there = ("x".join(map(str, size[1:])) for size in (shape, images.shape))
        raise DataError(f"{options.run} knows pictures of {known}, but those of {images.name} are {there}")
    parts = [part for part in PARTS if options.split in ("all", part)]
    names = [f"{images.name} {part} {i}" for part in parts for i in range(len(getattr(images, part)))]
    pictures = torch.cat([getattr(images, part) for part in parts])
    return names, to_channels(pictures, shape[0]).contiguous(), images.source


_WIDEST = 24  # letters next to a row of the sheet


@dataclass(frozen=True)
class _Matches:
    """The nearest images of one query: positions in the index, number of differing bits, and search time in seconds."""

    photo: Fitted
    places: list[int]
    distances: list[int]
    seconds: float


def search(options: "SearchOptions") -> None:
    """Search for each image, write a sheet with all results, and print them.

    Raises:
        DataError: the index, its run or an image cannot be read, or the run has changed since.
    """
    path = Path(options.index).expanduser()
    index = Index.of_arrays(read_npz(path), path)
    if not len(index):
        raise DataError(f"{path} holds no pictures; make it again with hardmax index")
    encoder = _load_encoder(index, path, options.run)
    photos = [fit_photo(Path(name).expanduser(), encoder.model.shape) for name in options.pictures]
    matches = [_find_matches(photo, index, encoder, options.count) for photo in photos]
    _write_sheet(matches, index, Path(options.out).expanduser())
    for match in matches:
        _print_matches(match, index, options)
    if not options.json:
        print(f"each picture with the nearest ones beside it: {options.out}")


def _load_encoder(index: Index, path: Path, run: str | None) -> Encoder:
    """Return the encoder that computed the codes, from the current folder of its run."""
    folder = run or index.run
    if not Path(folder).is_dir():
        raise DataError(f"{folder}, the run that made {path}, is not there; say where it is now with --run")
    # The best checkpoint may have changed since; the index may come from either the best or the latest one.
    for which in ("best", "latest"):
        encoder = read_encoder(folder, which)
        if encoder.weights == index.weights:
            return encoder
    raise DataError(
        f"{folder} has other weights than those that made {path} ({index.checkpoint}); make the index again: "
        f"hardmax index {folder} IMAGES --out {path}"
    )


def _find_matches(photo: Fitted, index: Index, encoder: Encoder, count: int) -> _Matches:
    code = encoder.codes(photo.pixels)[0]
    begin = time.perf_counter()
    places, distances = find_nearest(code, index.codes, count)
    return _Matches(photo, places.tolist(), distances.tolist(), time.perf_counter() - begin)


def _print_matches(matches: _Matches, index: Index, options: "SearchOptions") -> None:
    nearest_ones = list(zip(matches.distances, [index.names[i] for i in matches.places], strict=True))
    if options.json:
        nearest = [{"picture": name, "distance": distance} for distance, name in nearest_ones]
        print(
            json.dumps(
                {"picture": str(matches.photo.path), "searched": len(index), "bits": index.bits, "nearest": nearest}
            )
        )
        return
    done = ", ".join(matches.photo.done)
    took = f"{1000 * matches.seconds:.1f} ms"
    print(f"{matches.photo.path} ({done}): {len(index):,} codes of {index.bits} bits searched in {took}")
    for distance, name in nearest_ones:
        print(f"  {distance:>4} bits  {name}")


def _write_sheet(matches: list[_Matches], index: Index, out: Path) -> None:
    """Write one row per query: the image, and the nearest ones with the number of differing bits above each."""
    rows = []
    for match in matches:
        near = torch.from_numpy(index.pictures[match.places])
        rows.append(torch.cat([match.photo.pixels, near]).float() / 255)
    columns = len(matches[0].places)
    if len(matches) == 1:
        heads = [[""], *([f"{distance}"] for distance in matches[0].distances)]
        names = ["bits"]
    else:
        heads = [[""], *([f"{place + 1}"] for place in range(columns))]
        names = ["nearest"]
    labels = [_label_row(match, bits=len(matches) > 1) for match in matches]
    save_image(make_sheet(torch.stack(rows), names=names, heads=heads, rows=labels), out)


def _label_row(matches: _Matches, *, bits: bool) -> str:
    name = matches.photo.path.name
    name = name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."
    return f"{name}\n{matches.distances[0]} to {matches.distances[-1]} bits" if bits else name
