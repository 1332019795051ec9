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
    """What gives pictures their codes.

    Attributes:
        model: of the run.
        config: of the run.
        checkpoint: the name of that which the model is from.
        weights: SHA-256 of its weights.
    """

    model: HashEncoder
    config: HashingConfig
    checkpoint: str
    weights: str

    def codes(self, pictures: UInt8[Tensor, "N channels H W"]) -> UInt64[np.ndarray, "N words"]:
        """Return the packed codes of pictures; where pixels are drawn, the same picture has the same ones."""
        device = next(self.model.parameters()).device
        found = []
        for some in pictures.split(1000):
            seen = binarize(some, self.config.binarize, stream(self.config.seed, "binarize", "index"))
            found.append(pack_codes(encode_bits(self.model, seen.to(device))))
        return np.concatenate(found)


def read_encoder(run: str, checkpoint: str, device: str = "cpu") -> Encoder:
    """Bring back a run's encoder.

    Raises:
        DataError: no run is there, or one of another model.
    """
    which = "best" if checkpoint == "best" else "latest"
    restored = load_run(run, which, device=device, kind=HashEncoder)
    weights = (Path(run) / restored.checkpoint / "model.safetensors").read_bytes()
    return Encoder(restored.model, restored.config, restored.checkpoint, hashlib.sha256(weights).hexdigest())


_KS = (1, 10, 100)


def evaluate(options: EvaluateOptions, restored: "LoadedRun[HashEncoder]") -> Evaluation:
    """Return the precision of codes and of the pixels themselves, and how the bits are used.

    Raises:
        ArgumentError: something is asked for that only VAEs have; the training pictures are to find themselves.
    """
    refuse_options(options, "refine", "perturb_and_map", "samples")
    if options.split == "train":
        raise ArgumentError("training pictures are what is searched; give --split validation or --split test")
    images, config = restored.load_data(options.data_dir), restored.config
    queries = prepare_split(config, images, options.split)[: options.images].to(options.device)
    train = prepare_split(config, images, "train").to(options.device)
    with show_bar(f"{len(queries):,} pictures among {len(train):,}"):
        base, sought = encode_bits(restored.model, train), encode_bits(restored.model, queries)
        found: dict[str, Any] = {"searched": len(train), "bits": restored.model.space.n, **measure_bits(base)}
        tables: list[Any] = []
        if images.labels is not None:
            wanted, labels = images.labels[options.split][: len(queries)], images.labels["train"]
            ks = [k for k in _KS if k <= len(train)]
            codes = measure_code_precision(pack_codes(sought), wanted.numpy(), pack_codes(base), labels.numpy(), ks)
            pixels = measure_vector_precision(queries.flatten(1).cpu(), wanted, train.flatten(1).cpu(), labels, ks)
            found |= {"precision": dict(zip(map(str, ks), codes, strict=True))}
            found |= {"precision_of_pixels": dict(zip(map(str, ks), pixels, strict=True))}
            headings = ("of the nearest, of the query's class", *(f"of {k}" for k in ks))
            rows = [
                (f"codes of {restored.model.space.n} bits", *(f"{value:.2%}" for value in codes)),
                (f"{queries[0].numel():,} pixels", *(f"{value:.2%}" for value in pixels)),
            ]
            tables.append((headings, rows))
    bits = [
        ("balance, 1 where each is one for half of the pictures", f"{found['balance']:.3f}"),
        ("correlation of two, 0 where each says something else", f"{found['correlation']:.3f}"),
    ]
    return Evaluation(len(queries), found, [*tables, (("bits", ""), bits)])


def index(options: "IndexOptions") -> None:
    """Encode the pictures, write the file, and say what is in it.

    Raises:
        DataError: there are no pictures, or not of the size that the encoder knows.
    """
    encoder = read_encoder(options.run, options.checkpoint, options.device)
    folder = Path(options.images).expanduser()
    shape = encoder.model.shape
    names, pictures, told = _folder(folder, options, shape) if folder.is_dir() else _set(options, shape)
    found = Index(
        codes=encoder.codes(pictures),
        bits=encoder.model.space.n,
        names=tuple(names),
        pictures=pictures.numpy(),
        run=str(Path(options.run).resolve()),
        checkpoint=encoder.checkpoint,
        weights=encoder.weights,
    )
    out = Path(options.out).expanduser()
    found.save(out)
    print(f"pictures: {told}")
    print(
        f"{len(found):,} codes of {found.bits} bits, {found.codes.nbytes:,} bytes, and their pictures in {out}; "
        f"search with: hardmax search {out} PICTURE"
    )


def _folder(
    folder: Path, options: "IndexOptions", shape: tuple[int, int, int]
) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return names, pictures of the encoder's shape, and what was done to them."""
    if options.split != "all":
        raise ArgumentError(f"--split is for data sets; of {folder} give the folder below it that is wanted")
    paths = find_pictures(folder)
    if not paths:
        raise DataError(f"{folder} holds no pictures; name a folder of pictures, or a data set")
    gallery = read_pictures(paths, folder, shape[1:])
    names = [str(paths[i]) for i in gallery.index.tolist()]
    return names, to_channels(gallery.pixels, shape[0]).contiguous(), "; ".join(gallery.notes)


def _set(
    options: "IndexOptions", shape: tuple[int, int, int]
) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return names, pictures and where a data set comes from."""
    images = load(options.images, data_dir=options.data_dir)
    if images.shape[1:] != shape[1:]:
        known, there = ("x".join(map(str, size[1:])) for size in (shape, images.shape))
        raise DataError(f"{options.run} knows pictures of {known}, but those of {images.name} are {there}")
    parts = [part for part in PARTS if options.split in ("all", part)]
    names = [f"{images.name} {part} {i}" for part in parts for i in range(len(getattr(images, part)))]
    pictures = torch.cat([getattr(images, part) for part in parts])
    return names, to_channels(pictures, shape[0]).contiguous(), images.source


_WIDEST = 24  # letters beside a row of the sheet


@dataclass(frozen=True)
class _Found:
    """What was found for one picture: places in the index, bits that differ, and seconds it took."""

    photo: Fitted
    places: list[int]
    distances: list[int]
    seconds: float


def search(options: "SearchOptions") -> None:
    """Search for each picture, write the sheet of all, and say what was found.

    Raises:
        DataError: the index, the run that made it or a picture cannot be read, or the run has changed since.
    """
    path = Path(options.index).expanduser()
    index = Index.of_arrays(read_npz(path), path)
    if not len(index):
        raise DataError(f"{path} holds no pictures; make it again with hardmax index")
    encoder = _encoder(index, path, options.run)
    photos = [fit_photo(Path(name).expanduser(), encoder.model.shape) for name in options.pictures]
    found = [_search(photo, index, encoder, options.count) for photo in photos]
    _write(found, index, Path(options.out).expanduser())
    for one in found:
        _tell(one, index, options)
    if not options.json:
        print(f"each picture with the nearest ones beside it: {options.out}")


def _encoder(index: Index, path: Path, run: str | None) -> Encoder:
    """Return the encoder that made the codes, from where the run is now."""
    folder = run or index.run
    if not Path(folder).is_dir():
        raise DataError(f"{folder}, the run that made {path}, is not there; say where it is now with --run")
    # The best checkpoint may since have become another one; the one that was used may be either.
    for which in ("best", "latest"):
        encoder = read_encoder(folder, which)
        if encoder.weights == index.weights:
            return encoder
    raise DataError(
        f"{folder} has other weights than those that made {path} ({index.checkpoint}); make the index again: "
        f"hardmax index {folder} IMAGES --out {path}"
    )


def _search(photo: Fitted, index: Index, encoder: Encoder, count: int) -> _Found:
    code = encoder.codes(photo.pixels)[0]
    begin = time.perf_counter()
    places, distances = find_nearest(code, index.codes, count)
    return _Found(photo, places.tolist(), distances.tolist(), time.perf_counter() - begin)


def _tell(found: _Found, index: Index, options: "SearchOptions") -> None:
    nearest_ones = list(zip(found.distances, [index.names[i] for i in found.places], strict=True))
    if options.json:
        told = [{"picture": name, "distance": distance} for distance, name in nearest_ones]
        print(
            json.dumps({"picture": str(found.photo.path), "searched": len(index), "bits": index.bits, "nearest": told})
        )
        return
    done = ", ".join(found.photo.done)
    took = f"{1000 * found.seconds:.1f} ms"
    print(f"{found.photo.path} ({done}): {len(index):,} codes of {index.bits} bits searched in {took}")
    for distance, name in nearest_ones:
        print(f"  {distance:>4} bits  {name}")


def _write(found: list[_Found], index: Index, out: Path) -> None:
    """Write a row for each picture: itself, and the nearest ones with the bits that differ above each."""
    rows = []
    for one in found:
        near = torch.from_numpy(index.pictures[one.places])
        rows.append(torch.cat([one.photo.pixels, near]).float() / 255)
    columns = len(found[0].places)
    if len(found) == 1:
        heads = [[""], *([f"{distance}"] for distance in found[0].distances)]
        names = ["bits"]
    else:
        heads = [[""], *([f"{place + 1}"] for place in range(columns))]
        names = ["nearest"]
    beside = [_beside(one, bits=len(found) > 1) for one in found]
    save_image(make_sheet(torch.stack(rows), names=names, heads=heads, rows=beside), out)


def _beside(found: _Found, *, bits: bool) -> str:
    name = found.photo.path.name
    name = name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."
    return f"{name}\n{found.distances[0]} to {found.distances[-1]} bits" if bits else name
