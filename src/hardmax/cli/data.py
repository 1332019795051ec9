"""`hardmax data`: which data sets there are, getting them, and checking what is here."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hardmax.data.datasets import SETS, DataSet, cache_dir, folders, is_complete, locate, obtain, unknown
from hardmax.data.download import md5
from hardmax.errors import DataError, HardmaxError

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

_EXAMPLES = """examples:
  hardmax data list
  hardmax data get mnist omniglot
  hardmax data check mnist
  hardmax data check path/to/my/pictures
"""
_TRIED = 1000  # of the many picture files of CelebA, so many are read by `check`


def run(arguments: list[str]) -> int:
    """Run `hardmax data` with these arguments and return the exit code: 0, or 1 if `check` found something broken.

    Raises:
        HardmaxError: a name is unknown, or a download failed.
    """
    options = _parser().parse_args(arguments)
    if options.command == "list":
        return _list(options.data_dir)
    if options.command == "get":
        return _get(options.names, options.data_dir)
    return _check(options.names, options.data_dir)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hardmax data",
        description="List, download and check data sets.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="list|get|check")
    looked = "look for sets in this folder first (default: $HARDMAX_DATA); then in the cache"
    show = commands.add_parser("list", help="show the sets, their licences, and where they were found")
    show.add_argument("--data-dir", metavar="DIR", help=looked)
    get = commands.add_parser("get", help="download sets from their publishers")
    get.add_argument("names", nargs="+", metavar="NAME", help=", ".join(SETS))
    get.add_argument("--data-dir", metavar="DIR", help="put them into DIR/NAME instead of the cache")
    check = commands.add_parser("check", help="verify the files of sets, or try to load your own images")
    check.add_argument("names", nargs="*", metavar="NAME", help="a set or a path; without any, all sets that are here")
    check.add_argument("--data-dir", metavar="DIR", help=looked)
    return parser


def _list(data_dir: str | None) -> int:
    for entry in SETS.values():
        print(f"{entry.name:<14} {entry.summary}")
        print(f"{'':<14} licence: {entry.licence}")
        print(f"{'':<14} {_whereabouts(entry, locate(entry, folders(entry.name, data_dir)))}")
    print(f"\ndownloads go to {cache_dir()}; your own images are given by their path")
    return 0


def _whereabouts(entry: DataSet, found: dict[str, Path]) -> str:
    if not entry.files and not entry.bring:
        return "found: part of hardmax"
    if is_complete(entry, found):
        return f"found: {_folder(found)}"
    if entry.bring:
        return f"not here, and cannot be downloaded: {entry.bring}"
    some = f" ({len(found)} of {len(entry.files)} files found in {_folder(found)})" if found else ""
    return f"not here{some}: hardmax data get {entry.name}"


def _folder(found: dict[str, Path]) -> str:
    return " and ".join(sorted({str(path.parent) for path in found.values()}))


def _get(names: list[str], data_dir: str | None) -> int:
    for name in names:
        if name not in SETS:
            raise unknown(name)
    for name in names:
        entry = SETS[name]
        if not entry.files and not entry.bring:
            print(f"{name}: part of hardmax, nothing to get")
            continue
        print(f"{name}: {_folder(_fetch(entry, Path(data_dir).expanduser() / name if data_dir else None))}")
    return 0


def _fetch(entry: DataSet, into: Path | None) -> dict[str, Path]:
    """Get a set with a progress bar, and return where its files are."""
    from rich.progress import DownloadColumn, TransferSpeedColumn

    with _bars(DownloadColumn(), TransferSpeedColumn()) as progress:
        if entry.name == "omniglot":
            from hardmax.data.omniglot import prepare_omniglot

            path = prepare_omniglot(into=into, progress=progress)
            return {path.name: path}
        return obtain(entry, into=into, progress=progress)


@contextmanager
def _bars(*columns: "ProgressColumn") -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar, with these columns, for each thing that progress is told of."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn

    bars = Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=Console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def progress(name: str, done: int, total: int | None) -> None:
        if not tasks:
            bars.start()  # not before: what has nothing to show would leave an empty line
        if name not in tasks:
            tasks[name] = bars.add_task(name, total=total)
        bars.update(tasks[name], completed=done, total=total)

    try:
        yield progress
    finally:
        if tasks:
            bars.stop()


def _check(names: list[str], data_dir: str | None) -> int:
    for name in names:
        if name not in SETS and not Path(name).expanduser().exists():
            raise unknown(name)
    broken = 0
    for name in names or SETS:
        try:
            print(f"{name:<14} {_verdict(name, data_dir, asked=bool(names))}")
        except HardmaxError as error:
            broken += 1
            print(f"{name:<14} BROKEN: {error}")
    return 1 if broken else 0


def _verdict(name: str, data_dir: str | None, *, asked: bool) -> str:
    """Say in a line that a set, or the user's own images, can be used; what cannot raises an error."""
    checked = ""
    if name in SETS:
        entry = SETS[name]
        found = locate(entry, folders(name, data_dir))
        if not is_complete(entry, found):
            if asked or found:
                raise DataError(_whereabouts(entry, found))
            return _whereabouts(entry, found)
        published = [file for file in entry.files if found.get(file.name, Path()).name == file.name]
        for file in published:
            if (actual := md5(found[file.name])) != file.md5:
                raise DataError(
                    f"{found[file.name]} has md5 {actual}, published is {file.md5}; remove it, then: "
                    f"hardmax data get {name}"
                )
        checked = f", md5 of {len(published)} files as published" if published else ""
    from rich.progress import MofNCompleteColumn

    from hardmax.data.loading import load

    with _bars(MofNCompleteColumn()) as progress:
        images = load(name, data_dir=data_dir, limit=_TRIED if name == "celeba" else None, progress=progress)
    sizes = f"{len(images.train):,} + {len(images.validation):,} + {len(images.test):,}"
    if images.attribute_names:
        checked += f", attributes {', '.join(images.attribute_names)}"
    return f"ok: {sizes} images of {'x'.join(map(str, images.shape))}{checked}; {images.source}"
