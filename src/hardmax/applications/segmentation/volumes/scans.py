"""Which scans a user means, what their results are called, and which label map is the truth for which scan."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hardmax.applications.segmentation.volumes.reading import SUFFIXES, stem
from hardmax.errors import DataError

# Endings of names that say what a file is, not whose it is.
_MAPS = ("labels", "label", "seg", "dseg", "aseg", "synthseg", "segmentation", "truth", "gt", "parc", "aparc+aseg")
_OTHERS = ("posterior", "posteriors", "mask", "brainmask")
_SCANS = ("t1", "t1w", "t2", "t2w", "pd", "pdw", "flair", "scan", "image", "img", "orig", "norm", "brain", "mri")
_APART = re.compile(r"[_.\-]")


@dataclass(frozen=True)
class Scan:
    """A scan to segment.

    Attributes:
        path: its file.
        name: what its results are called: the file's name without its suffix.
    """

    path: Path
    name: str


def find_scans(given: Sequence[Path]) -> list[Scan]:
    """Return the scans among files and folders, in order.

    Of a folder, the files in it that are named as scans are, without the label maps, posteriors and masks, which are
    told by the ends of their names (`_labels`, `_seg`, `_mask`, ...). A file that is given itself is always taken.

    Raises:
        DataError: no such file or folder, a folder without scans, or two scans whose results would have one name.
    """
    found = [Scan(path, stem(path)) for path in _files(given, maps=False)]
    named: dict[str, Path] = {}
    for scan in found:
        if scan.name in named:
            raise DataError(
                f"{named[scan.name]} and {scan.path} would both be written as {scan.name}_labels.nii.gz; rename one, "
                "or segment them in two runs with different --out"
            )
        named[scan.name] = scan.path
    return found


def find_maps(given: Sequence[Path]) -> list[Path]:
    """Return the label maps among files and folders, in order.

    Of a folder, the files whose names end as those of label maps (`_labels`, `_seg`, ...), or, if none does, all.

    Raises:
        DataError: no such file or folder, or a folder without label maps.
    """
    return _files(given, maps=True)


def find_truths(scans: Sequence[Scan], given: Path) -> dict[str, Path]:
    """Return the true label map of each scan, by the scan's name; a scan without one is left out.

    One file belongs to the one scan. In a folder, a map belongs to a scan of the same name, or of one that differs by
    endings such as `_t1` and `_labels` alone: `17_labels.nii.gz` to `17_t1.nii.gz`.

    Raises:
        DataError: there is no such file or folder, one file for several scans, none for any, or two for one.
    """
    if not given.is_dir():
        _check_there(given)
        if len(scans) > 1:
            raise DataError(
                f"{given} is one label map, but there are {len(scans)} scans; give a folder with a map for each"
            )
        stem(given)
        return {scans[0].name: given}
    # The scans themselves may be in the same folder.
    files = [path for path in _listed(given) if all(path.resolve() != scan.path.resolve() for scan in scans)]
    truths: dict[str, Path] = {}
    for scan in scans:
        fitting = [path for path in files if _subject(stem(path)) == _subject(scan.name)]
        fitting = (
            [path for path in fitting if _ending(stem(path)) in _MAPS]
            or [path for path in fitting if stem(path) == scan.name]
            or [path for path in fitting if _ending(stem(path)) not in _SCANS]
        )
        if len(fitting) > 1:
            names = ", ".join(path.name for path in fitting)
            raise DataError(f"{given} has {len(fitting)} label maps for {scan.path.name}: {names}; keep one of them")
        if fitting:
            truths[scan.name] = fitting[0]
    if not truths:
        raise DataError(
            f"{given} has no label map for any of the scans; for {scans[0].path.name}, expected "
            f"{_subject(scans[0].name)}_labels.nii.gz, or the scan's own name"
        )
    return truths


def _files(given: Sequence[Path], *, maps: bool) -> list[Path]:
    out: list[Path] = []
    for path in given:
        if path.is_dir():
            listed = _listed(path)
            if maps:
                chosen = [file for file in listed if _ending(stem(file)) in _MAPS] or listed
            else:
                chosen = [file for file in listed if _ending(stem(file)) not in _MAPS + _OTHERS]
            if not chosen:
                raise DataError(_nothing(path, "label maps" if maps else "scans", len(listed)))
            out += chosen
        else:
            _check_there(path)
            stem(path)
            out.append(path)
    unique = {path.resolve(): path for path in reversed(out)}
    return [path for path in dict.fromkeys(out) if unique[path.resolve()] == path]


def _listed(folder: Path) -> list[Path]:
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    return [
        path
        for path in files
        if path.name.lower().endswith(SUFFIXES) and not path.name.startswith(".") and path.is_file()
    ]


def _nothing(folder: Path, what: str, left_out: int) -> str:
    inside = sum(1 for path in folder.glob("*/*") if path.name.lower().endswith(SUFFIXES))
    hint = f"; its folders do: give them instead, as {folder}/*/" if inside else ""
    others = f" ({left_out} are left out, as label maps or masks by their names)" if left_out else ""
    return f"{folder} holds no {what}{others}: expected files that end in {', '.join(SUFFIXES)}{hint}"


def _check_there(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path} does not exist")


def _ending(name: str) -> str:
    return _APART.split(name)[-1].lower()


def _subject(name: str) -> str:
    """Return a file's name without the endings that say what it is."""
    while _ending(name) in _MAPS + _SCANS and len(_APART.split(name)) > 1:
        name = name[: -len(_ending(name)) - 1]
    return name
