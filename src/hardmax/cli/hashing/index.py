"""The codes of a collection of pictures, as one file."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.cli.hashing.encoder import read_encoder
from hardmax.data import load
from hardmax.data.channels import to_channels
from hardmax.data.folder import find_pictures
from hardmax.data.images import PARTS
from hardmax.data.picture_files import read_pictures
from hardmax.errors import ArgumentError, DataError
from hardmax.search.index import Index

if TYPE_CHECKING:
    from hardmax.cli.index import Options


def index(options: "Options") -> None:
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
    folder: Path, options: "Options", shape: tuple[int, int, int]
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


def _set(options: "Options", shape: tuple[int, int, int]) -> tuple[list[str], UInt8[Tensor, "N channels H W"], str]:
    """Return names, pictures and where a data set comes from."""
    images = load(options.images, data_dir=options.data_dir)
    if images.shape[1:] != shape[1:]:
        known, there = ("x".join(map(str, size[1:])) for size in (shape, images.shape))
        raise DataError(f"{options.run} knows pictures of {known}, but those of {images.name} are {there}")
    parts = [part for part in PARTS if options.split in ("all", part)]
    names = [f"{images.name} {part} {i}" for part in parts for i in range(len(getattr(images, part)))]
    pictures = torch.cat([getattr(images, part) for part in parts])
    return names, to_channels(pictures, shape[0]).contiguous(), images.source
