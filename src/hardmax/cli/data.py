"""The commands `hardmax data list`, `data get` and `data check`: list, download and verify data sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hardmax.applications.argument_parser import Argument, parse
from hardmax.console import print_line
from hardmax.data.datasets import (
    SETS,
    DataSet,
    find_cache,
    is_complete,
    list_folders,
    locate_files,
    make_unknown_error,
    obtain_files,
)
from hardmax.data.download import compute_md5
from hardmax.errors import DataError, HardmaxError
from hardmax.files import expand_path

_CELEBA_LIMIT = 1000  # number of CelebA's many image files that `check` reads


@dataclass(frozen=True)
class ListOptions:
    """List the data sets with their licences and locations.

    Example: hardmax data list
    """

    data_dir: str | None = None
    """Folder to search before the cache; default: the environment variable HARDMAX_DATA."""


@dataclass(frozen=True)
class GetOptions:
    """Download data sets from their publishers.

    Example: hardmax data get mnist omniglot
    """

    names: Annotated[tuple[str, ...], Argument("NAME", f"Data sets to download, of: {', '.join(SETS)}.")]
    data_dir: str | None = None
    """Download to DATA_DIR/NAME instead of the cache."""


@dataclass(frozen=True)
class CheckOptions:
    """Verify the files of data sets, or try to load your own images.

    Examples:
      hardmax data check mnist
      hardmax data check path/to/my/images
    """

    names: Annotated[tuple[str, ...], Argument("NAME")] = ()
    """Name of a data set, or path of your own images; default: all data sets on this machine."""
    data_dir: str | None = None
    """Folder to search before the cache; default: the environment variable HARDMAX_DATA."""


def list_sets(arguments: list[str]) -> int:
    """Run `hardmax data list` with these arguments and return the exit code."""
    data_dir = parse(ListOptions, "data list", arguments).data_dir
    for entry in SETS.values():
        print(f"{entry.name:<14} {entry.summary}")
        print(f"{'':<14} licence: {entry.licence}")
        print_line(f"{'':<14} {_describe_location(entry, locate_files(entry, list_folders(entry.name, data_dir)))}")
    print()
    print_line(f"downloads go to {find_cache()}; your own images are given by their path")
    return 0


def _describe_location(entry: DataSet, paths: dict[str, Path]) -> str:
    if not entry.files and not entry.instructions:
        return "found: part of hardmax"
    if is_complete(entry, paths):
        return f"found: {_join_folders(paths)}"
    if entry.instructions:
        return f"not here, and cannot be downloaded: {entry.instructions}"
    some = f" ({len(paths)} of {len(entry.files)} files found in {_join_folders(paths)})" if paths else ""
    return f"not here{some}: hardmax data get {entry.name}"


def _join_folders(paths: dict[str, Path]) -> str:
    return " and ".join(sorted({str(path.parent) for path in paths.values()}))


def get_sets(arguments: list[str]) -> int:
    """Run `hardmax data get` with these arguments and return the exit code.

    Raises:
        DataError: a name is unknown, or a download failed.
    """
    options = parse(GetOptions, "data get", arguments)
    for name in options.names:
        if name not in SETS:
            raise make_unknown_error(name)
    for name in options.names:
        entry = SETS[name]
        if not entry.files and not entry.instructions:
            print(f"{name}: part of hardmax, nothing to get")
            continue
        folder = expand_path(options.data_dir) / name if options.data_dir else None
        print_line(f"{name}: {_join_folders(_fetch(entry, folder))}")
    return 0


def _fetch(entry: DataSet, into: Path | None) -> dict[str, Path]:
    """Download a set with a progress bar, and return the paths of its files."""
    from hardmax.progress_bar import show_named_bars

    with show_named_bars("bytes") as progress:
        if entry.name == "omniglot":
            from hardmax.data.omniglot import prepare_omniglot

            path = prepare_omniglot(into=into, progress=progress)
            return {path.name: path}
        return obtain_files(entry, into=into, progress=progress)


def check_sets(arguments: list[str]) -> int:
    """Run `hardmax data check` with these arguments and return the exit code: 1 if something is broken.

    Raises:
        DataError: a name is unknown.
    """
    options = parse(CheckOptions, "data check", arguments)
    for name in options.names:
        if name not in SETS and not expand_path(name).exists():
            raise make_unknown_error(name)
    broken = 0
    for name in options.names or SETS:
        try:
            print_line(f"{name:<14} {_verify(name, options.data_dir, asked=bool(options.names))}")
        except HardmaxError as error:
            broken += 1
            print_line(f"{name:<14} BROKEN: {error}")
    return 1 if broken else 0


def _verify(name: str, data_dir: str | None, *, asked: bool) -> str:
    """Return one line that confirms that a set, or the user's own images, can be used.

    Raises:
        HardmaxError: they cannot be used.
    """
    details = ""
    if name in SETS:
        entry = SETS[name]
        paths = locate_files(entry, list_folders(name, data_dir))
        if not is_complete(entry, paths):
            if asked or paths:
                raise DataError(_describe_location(entry, paths))
            return _describe_location(entry, paths)
        published = [file for file in entry.files if paths.get(file.name, Path()).name == file.name]
        for file in published:
            if (actual := compute_md5(paths[file.name])) != file.md5:
                raise DataError(
                    f"{paths[file.name]} has md5 {actual}, published is {file.md5}; remove it, then: "
                    f"hardmax data get {name}"
                )
        details = f", md5 of {len(published)} files as published" if published else ""
    from hardmax.data.loading import load_images
    from hardmax.progress_bar import show_named_bars

    with show_named_bars("items") as progress:
        images = load_images(
            name, data_dir=data_dir, limit=_CELEBA_LIMIT if name == "celeba" else None, progress=progress
        )
    sizes = f"{len(images.train):,} + {len(images.validation):,} + {len(images.test):,}"
    if images.attribute_names:
        details += f", attributes {', '.join(images.attribute_names)}"
    return f"ok: {sizes} images of {'x'.join(map(str, images.shape))}{details}; {images.source}"
