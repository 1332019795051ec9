"""The nearest pictures of an index, as a list and as a sheet."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from hardmax.cli.hashing.encoder import Encoder, read_encoder
from hardmax.cli.photo import Fitted, fit_photo
from hardmax.data.npz import read_npz
from hardmax.errors import DataError
from hardmax.report.pictures import save
from hardmax.report.sheet import sheet
from hardmax.search.index import Index
from hardmax.search.nearest import nearest

if TYPE_CHECKING:
    from hardmax.cli.search import Options

_WIDEST = 24  # letters beside a row of the sheet


@dataclass(frozen=True)
class _Found:
    """What was found for one picture: places in the index, bits that differ, and seconds it took."""

    photo: Fitted
    places: list[int]
    distances: list[int]
    seconds: float


def search(options: "Options") -> None:
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
    places, distances = nearest(code, index.codes, count)
    return _Found(photo, places.tolist(), distances.tolist(), time.perf_counter() - begin)


def _tell(found: _Found, index: Index, options: "Options") -> None:
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
    save(sheet(torch.stack(rows), names=names, heads=heads, rows=beside), out)


def _beside(found: _Found, *, bits: bool) -> str:
    name = found.photo.path.name
    name = name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."
    return f"{name}\n{found.distances[0]} to {found.distances[-1]} bits" if bits else name
