"""Registry of the data sets: contents, licences, download addresses and local folders. Imports no torch."""

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from hardmax.data.download import Progress, RemoteFile, download
from hardmax.errors import DataError
from hardmax.files import expand_path


@dataclass(frozen=True)
class DataSet:
    """A data set that can be loaded by name.

    Attributes:
        name: its name in `load_images`, and the name of its folder.
        summary: its contents, in a few words.
        licence: its licence and the licensor.
        files: the published files; empty for the sample that ships with hardmax and for sets that cannot be downloaded.
        converted: name of a file converted from `files`, which replaces all of them.
        instructions: for a set that cannot be downloaded, the files that the user has to put into its folder.
        markers: for such a set, glob patterns of a file that shows that the set is present, the best first.
    """

    name: str
    summary: str
    licence: str
    files: tuple[RemoteFile, ...] = ()
    converted: str | None = None
    instructions: str = ""
    markers: tuple[str, ...] = ()


def _list_remote_files(md5s: dict[str, str], *addresses: str) -> tuple[RemoteFile, ...]:
    return tuple(RemoteFile(name, md5, tuple(base + name for base in addresses)) for name, md5 in md5s.items())


SETS = {
    entry.name: entry
    for entry in (
        DataSet(
            "sample",
            "6,000 of Fashion-MNIST, 28x28 grey, 10 classes; comes with hardmax",
            "MIT (Zalando SE)",
        ),
        DataSet(
            "mnist",
            "70,000 digits, 28x28 grey, 10 classes",
            "free to use (LeCun, Cortes and Burges)",
            _list_remote_files(
                {
                    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
                    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
                    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
                },
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
        ),
        DataSet(
            "fashion-mnist",
            "70,000 pieces of clothing, 28x28 grey, 10 classes",
            "MIT (Zalando SE)",
            _list_remote_files(
                {
                    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
                },
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            ),
        ),
        DataSet(
            "omniglot",
            "32,460 drawings of 1,623 characters, 28x28 grey",
            "MIT (Lake et al.)",
            _list_remote_files(
                {
                    "images_background.zip": "68d2efa1b9178cc56df9314c21c6e718",
                    "images_evaluation.zip": "6b91aef0f799c5bb55b94e3f2daec811",
                },
                "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/",
            ),
            converted="omniglot_28x28_u8.npz",
        ),
        DataSet(
            "faces",
            "aligned faces, 64x64 RGB, attributes such as male and smiling",
            "research only, no redistribution",
            instructions="expected one .npz file, faces64.npz, with the arrays images [N, 64, 64, 3] uint8, attributes "
            "[N, A] of zeros and ones, and attribute_names [A]",
            markers=("faces64.npz", "*.npz"),
        ),
        DataSet(
            "celeba",
            "202,599 faces, 40 attributes, read as 64x64 RGB or any size",
            "non-commercial research only (MMLAB, The Chinese University of Hong Kong)",
            instructions="expected list_attr_celeba.txt, the folder img_align_celeba with the images, and "
            "list_eval_partition.txt, as they are published",
            markers=("list_attr_celeba.txt", "Anno/list_attr_celeba.txt"),
        ),
    )
}


def make_unknown_error(name: str) -> DataError:
    """Return the error for an unknown data set, with suggestions of similar names."""
    near = get_close_matches(name.lower().replace("_", "-"), SETS, n=2, cutoff=0.5)
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return DataError(f"there is no data set {name!r}: {meant}the sets are {', '.join(SETS)}")


def find_cache() -> Path:
    """Return the folder that downloads go to: `$XDG_CACHE_HOME/hardmax`, else `~/.cache/hardmax`."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # Relative paths are ignored, as the XDG standard requires.
    return (base if base.is_absolute() else Path.home() / ".cache") / "hardmax"


def list_folders(name: str, data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders where a set is searched: `name` in `data_dir` (or `$HARDMAX_DATA`), then in the cache.

    Raises:
        DataError: `data_dir` or `$HARDMAX_DATA` is not a folder.
    """
    first = data_dir or os.environ.get("HARDMAX_DATA")
    if first and not expand_path(first).is_dir():
        origin = "data_dir" if data_dir else "the environment variable HARDMAX_DATA"
        raise DataError(f"{origin} is {str(first)!r}, which is not a folder; it should hold folders such as {name}/")
    return [base / name for base in ([expand_path(first)] if first else []) + [find_cache()]]


def locate_files(entry: DataSet, places: list[Path]) -> dict[str, Path]:
    """Find the files of a set in some folders, gzipped or not.

    Returns:
        The path of each file that exists, by its published name. If the converted file exists, only that one. For a set
        that cannot be downloaded, the files that match one of its `markers`.
    """
    for place in places:
        for pattern in entry.markers:
            if matches := sorted(place.glob(pattern)):
                return {path.name: path for path in matches}
    if entry.converted:
        for place in places:
            if (place / entry.converted).is_file():
                return {entry.converted: place / entry.converted}
    paths: dict[str, Path] = {}
    for file in entry.files:
        names = dict.fromkeys([file.name, file.name.removesuffix(".gz")])
        candidates = [place / name for place in places for name in names if (place / name).is_file()]
        if candidates:
            paths[file.name] = candidates[0]
    return paths


def is_complete(entry: DataSet, paths: dict[str, Path]) -> bool:
    """Return whether these are all files that the set needs."""
    if entry.markers:
        return bool(paths)
    return entry.converted in paths or all(file.name in paths for file in entry.files)


def obtain_files(
    entry: DataSet,
    data_dir: str | Path | None = None,
    *,
    into: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Find the files of a set, and download those that are missing.

    Args:
        entry: the set.
        data_dir: where to look first; see `list_folders` for the other folders.
        into: look only in this folder, and download missing files into it; by default they go to the cache.
        progress: see `download`.

    Returns:
        The same as `locate_files`, with no file missing.

    Raises:
        DataError: a file cannot be downloaded.
    """
    places = [into] if into else list_folders(entry.name, data_dir)
    paths = locate_files(entry, places)
    if not is_complete(entry, paths):
        if entry.instructions:
            raise DataError(
                f"the set {entry.name!r} is not in {' nor in '.join(map(str, places))}, and cannot be downloaded; "
                f"{entry.instructions}; or name another folder (data_dir, --data-dir, HARDMAX_DATA) that has the "
                f"folder {entry.name}"
            )
        for file in entry.files:
            if file.name not in paths:
                paths[file.name] = download(file, into or find_cache() / entry.name, progress)
    return paths
